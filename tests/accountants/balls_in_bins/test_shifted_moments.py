"""Shifted moments: the polynomials dominate, the moments enclose, the result is a bound and matches the reference."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.shifted_moments import ShiftedMoments, shifted_moments
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, enumerated_log_moment, exact_deltas, gram, random_gram, label


@given(st.sampled_from([2, 4, 8, 14]), st.floats(0.0, 2.0), st.floats(0.0, 1.5), st.floats(0.0, 6.0))
def test_polynomials_are_above_the_payoffs(m, centre, epsilon, x):
    # With E(X−x₀)^m replaced by its value at one x, the "bound" must be at least the payoff at that x.
    table = ShiftedMoments(orders=np.array([m]), centres=np.array([centre]), bounds=np.array([[(x - centre) ** m]]))
    gamma = math.exp(epsilon)
    for direction, payoff in (("remove", max(x - gamma, 0.0)), ("add", max(1 - gamma * x, 0.0))):
        assert table.delta(direction=direction, epsilon=epsilon)[0] >= min(1.0, payoff) * (1 - 1e-9)


@pytest.mark.parametrize("bandwidth", [1, 3])
def test_centred_moments_are_those_of_the_sum_over_all_tuples(bandwidth):
    matrix = random_gram(np.random.default_rng(5), 4)
    matrix = matrix if bandwidth == 3 else np.diag(np.diag(matrix))
    table = shifted_moments(truncations.exact(matrix), sigma=1.2, order=4)
    raw = [1.0, 1.0] + [math.exp(enumerated_log_moment(matrix, sigma=1.2, order=t)) for t in (2, 3, 4)]
    for m, row in zip(table.orders, table.bounds):
        exact = [sum(math.comb(int(m), a) * raw[a] * (-x) ** (int(m) - a) for a in range(int(m) + 1)) for x in table.centres]
        assert row == pytest.approx(np.array(exact), rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.floats(0.7, 4.0), st.floats(0.05, 1.5))
def test_is_never_below_the_exact_delta(seed, sigma, epsilon):
    matrix = random_gram(np.random.default_rng(seed), 2)
    table = shifted_moments(truncations.exact(matrix), sigma=sigma, order=12)
    for direction, exact in zip(("remove", "add"), exact_deltas(matrix, sigma=sigma, epsilon=epsilon)):
        assert table.delta(direction=direction, epsilon=epsilon)[0] >= exact * (1 - 1e-9)


@pytest.mark.parametrize("case", [case for case in REFERENCE["eps_delta"] if "moment" in case and case["b"] <= 50],
                         ids=label)
def test_epsilon_is_near_the_reference_and_above_monte_carlo(case):
    table = shifted_moments(truncations.exact(gram(case)), sigma=case["sigma"], order=case["moment"]["orders"])
    for direction in ("remove", "add"):
        found, m = table.epsilon(direction=direction, delta=case["delta"], largest=30.0)
        assert found >= case[direction]["mc_eps"] - 4 * case[direction]["mc_eps_se"]
        tabulated = case["moment"][f"eps_{direction}"]
        assert (math.isinf(found) and m == 0) if tabulated > 30 else found <= tabulated * (1 + tolerances.SHIFTED_MOMENTS)


def test_nothing_is_claimed_where_no_moment_helps():
    table = shifted_moments(truncations.exact(np.eye(2)), sigma=0.1, order=4)
    assert table.delta(direction="add", epsilon=0.5) == (1.0, 0)
    assert table.epsilon(direction="add", delta=1e-5, largest=5.0) == (math.inf, 0)
