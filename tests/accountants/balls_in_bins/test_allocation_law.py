"""Random allocation with a Gaussian factor: against quadrature, the reference, and limits; every result is an upper bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from accountants.balls_in_bins.allocation_law import Allocation, AllocationBound
from accountants.gaussian import gaussian_delta
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, exact_deltas, sampled_deltas

directions = pytest.mark.parametrize("direction", ["remove", "add"])


def delta(allocation: Allocation, direction: str, epsilon: float) -> float:
    return AllocationBound(allocation, direction=direction).law(epsilon).delta(epsilon)


@directions
@given(v=st.floats(0.05, 3.0), mu=st.sampled_from([0.0, 0.0, 0.2, 1.0]), epsilon=st.floats(0.0, 4.0))
@settings(max_examples=12)
def test_two_bins_against_quadrature(direction, v, mu, epsilon):
    exact = exact_deltas(v**2 * np.eye(2) + mu**2, sigma=1.0, epsilon=epsilon)[direction == "add"]
    found = delta(Allocation(bins=2, bin_mu=v, common_mu=mu), direction, epsilon)
    assert found >= exact - 1e-13
    if exact > 1e-11:
        assert found <= exact * (1 + tolerances.ALLOCATION["exact" if mu == 0 else "bound"])


@pytest.mark.parametrize("case", REFERENCE["identity_vs_PLD_accounting"], ids=lambda case: f"{case['b']}-{case['sigma_eff']:.2f}")
def test_epsilon_lies_between_two_sided_bounds_of_another_library(case):
    allocation = Allocation(bins=case["b"], bin_mu=1 / case["sigma_eff"], common_mu=0.0)
    found = max(AllocationBound(allocation, direction=direction).epsilon(case["delta"], start=0.5) for direction in ("remove", "add"))
    assert case["PLD_accounting_eps"]["lower"] <= found <= case["PLD_accounting_eps"]["upper"]
    assert found == pytest.approx(case["PLD_accounting_eps"]["split_r1_max_dir"], rel=tolerances.SPLIT_EPSILON)


@directions
@pytest.mark.parametrize(("bins", "v", "mu"), [(20, 1.0, 0.0), (20, 0.5, 0.7), (200, 1.5, 0.0), (3, 2.0, 0.5), (30, 2.5, 1.0)])
def test_many_bins_against_samples(direction, bins, v, mu):
    for epsilon in (0.1, 0.5):
        gram, rng = v**2 * np.eye(bins) + mu**2, np.random.default_rng(bins)
        remove, add = sampled_deltas(gram, sigma=1.0, epsilon=epsilon, samples=20000, rng=rng)
        estimate, error = remove if direction == "remove" else add
        found = delta(Allocation(bins=bins, bin_mu=v, common_mu=mu), direction, epsilon)
        assert abs(found - estimate) <= tolerances.STANDARD_DEVIATIONS * error + 0.01 * found


def directly_convolved(bins: int, v: float, step: float, top: float) -> tuple[np.ndarray, np.ndarray]:
    """(x, mass) of the sum of lognormals below `top`, by convolutions of positive numbers alone (which lose no relative accuracy)."""
    edges = (np.arange(int(top / step) + 1) + 0.5) * step
    mass = np.diff(np.r_[0.0, ndtr((np.log(bins * edges) + v**2 / 2) / v)])
    total = np.ones(1)
    for _ in range(bins):
        total = np.convolve(total, mass)[: len(mass)]
    return step * np.arange(len(total)), total


@directions
def test_small_deltas_keep_their_relative_accuracy(direction):
    x, mass = directly_convolved(20, 0.8, *((0.01, 30.0) if direction == "remove" else (0.0005, 0.5)))
    for epsilon, largest in ((1.0, 1e-5), (2.0, 1e-9)):
        gamma = math.exp(epsilon)
        payoff = np.maximum(x - gamma, 0.0) if direction == "remove" else np.maximum(1.0 - gamma * x, 0.0)
        found, plain = delta(Allocation(bins=20, bin_mu=0.8, common_mu=0.0), direction, epsilon), float(mass @ payoff)
        assert found < largest
        assert found == pytest.approx(plain, rel=tolerances.DIRECT_CONVOLUTION, abs=1e-20)


@directions
def test_many_weak_bins_are_a_gaussian_mechanism(direction):
    allocation = Allocation(bins=4, bin_mu=1e-3, common_mu=0.0)
    assert delta(allocation, direction, 1e-3) == pytest.approx(gaussian_delta(epsilon=1e-3, mu=0.5e-3), rel=1e-2)


@directions
@pytest.mark.parametrize(
    ("bins", "v", "mu", "target"), [(100, 1.0, 0.0, 1e-5), (100, 3.3, 0.0, 1e-5), (25, 0.3, 0.2, 1e-8), (2000, 0.05, 0.0, 1e-6)]
)
def test_epsilon_was_seen_to_suffice(direction, bins, v, mu, target):
    bound = AllocationBound(Allocation(bins=bins, bin_mu=v, common_mu=mu), direction=direction)
    epsilon = bound.epsilon(target, start=1.0)
    assert bound.law(epsilon).delta(epsilon) <= target < bound.law(0.99 * epsilon).delta(0.99 * epsilon)


def test_law_says_nothing_below_its_smallest_epsilon():
    law = AllocationBound(Allocation(bins=5, bin_mu=1.0, common_mu=0.0), direction="add").law(6.0)
    assert law.smallest_epsilon == 2.0 and law.delta(1.9) == 1.0
