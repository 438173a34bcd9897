"""Gram majorants: Kahane's monotonicity, exactness for C = I, the reference, and the Gaussian limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.balls_in_bins.gram import cyclic_distance
from accountants.balls_in_bins.gram_majorant import pld_delta, pld_epsilon, stride_majorants
from accountants.balls_in_bins.renyi_dp import moments
from accountants.gaussian import gaussian_delta
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, exact_deltas, gram, random_gram, label

NAMED = {label(case): case for case in REFERENCE["eps_delta"]}
FAST = ("identity1-50x1-2.0", "bsr2-50x1-4.0", "bsr4-20x4-4.0", "bisr4-50x1-4.0", "bisr4-20x4-8.0", "identity1-100x10-16.0")


@given(st.integers(0, 10**6), st.floats(0.4, 3.0), st.floats(0.0, 2.0))
def test_delta_grows_with_every_entry_of_the_gram_matrix(seed, sigma, epsilon):
    rng = np.random.default_rng(seed)
    matrix = random_gram(rng, 2)
    extra = rng.random((2, 2))
    more = matrix + np.array([[0.3, 0.1], [0.1, 0.0]]) * extra[0, 0] + extra[0, 1] * 0.2 + np.diag(extra[1]) * (rng.random(2) < 0.5)
    for less, greater in zip(exact_deltas(matrix, sigma=sigma, epsilon=epsilon), exact_deltas(more, sigma=sigma, epsilon=epsilon)):
        assert less <= greater + 1e-12


@given(st.integers(0, 10**6), st.floats(0.4, 3.0), st.floats(0.0, 2.0))
def test_two_bins_are_never_below_the_exact_delta(seed, sigma, epsilon):
    matrix = random_gram(np.random.default_rng(seed), 2)
    for direction, exact in zip(("remove", "add"), exact_deltas(matrix, sigma=sigma, epsilon=epsilon)):
        assert pld_delta(matrix, sigma=sigma, direction=direction, epsilon=epsilon).value >= exact - 1e-13


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_majorants_are_above_every_thinned_matrix(seed, bins):
    matrix = random_gram(np.random.default_rng(seed), bins)
    for majorant in stride_majorants(matrix):
        stride, distance = majorant.stride, cyclic_distance(bins)
        assert majorant.bins == bins // stride
        assert majorant.own + majorant.common == pytest.approx(np.diag(matrix).max(), rel=1e-12)
        assert majorant.common >= min(matrix[distance >= stride].max(initial=0.0), np.diag(matrix).max())


def test_log_moments_are_above_the_exact_ones():
    matrix = gram({"kind": "bsr", "p": 2, "b": 10, "k": 2})
    exact = moments(matrix, sigma=1.5, order=8, bandwidth=2).upper_logs()
    for majorant in stride_majorants(matrix):
        assert np.all(majorant.log_moments(1.5, 8)[2:] >= exact[2:] - tolerances.MOMENT)


@pytest.mark.parametrize("name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NAMED])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_epsilon_matches_the_reference(name, direction):
    case = NAMED[name]
    found = pld_epsilon(gram(case), sigma=case["sigma"], direction=direction, delta=case["delta"])
    assert found.value == pytest.approx(case[direction]["split"]["eps"], rel=tolerances.SPLIT_EPSILON)
    assert found.details["stride"] == case[direction]["split"]["stride"]
    estimate, error = case[direction]["mc_eps"], case[direction]["mc_eps_se"]
    assert found.value >= estimate - 4 * error
    if case["kind"] == "identity":
        assert found.value <= (estimate + 4 * error) * (1 + tolerances.SPLIT_EPSILON)


def test_answers_invert_each_other():
    matrix = gram({"kind": "bsr", "p": 4, "b": 20, "k": 3})
    for direction in ("remove", "add"):
        epsilon = pld_epsilon(matrix, sigma=5.0, direction=direction, delta=1e-6).value
        assert pld_delta(matrix, sigma=5.0, direction=direction, epsilon=epsilon).value <= 1e-6
        assert pld_delta(matrix, sigma=5.0, direction=direction, epsilon=0.99 * epsilon).value > 1e-6


@pytest.mark.parametrize("sigma", [0.02, 1.0])
def test_bins_that_move_together_are_a_gaussian_mechanism(sigma):
    found = pld_delta(np.full((6, 6), 1.3), sigma=sigma, direction="remove", epsilon=1.0).value
    assert found == pytest.approx(gaussian_delta(epsilon=1.0, mu=np.sqrt(1.3) / sigma), rel=tolerances.CLOSED_FORM)


def test_no_useful_grid_falls_back_on_the_gaussian_mechanism():
    found = pld_epsilon(np.eye(10), sigma=0.05, direction="remove", delta=1e-5)
    assert found.details == {"stride": 10} and np.isfinite(found.value)
