"""Loss distributions: dominate the exact δ, lose no mass, agree with another library, compose."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from accountants.balls_in_bins import connect_the_dots
from accountants.balls_in_bins.connect_the_dots import LossDistribution, compose, compose_pair, loss_range, mixture_losses, self_compose
from accountants.balls_in_bins.hazards import Mixture
from accountants.gaussian import gaussian_delta
from tests import tolerances

directions = pytest.mark.parametrize("direction", ["remove", "add"])
UNEVEN = Mixture(means=np.array([0.0, 0.3, 1.2]), weights=np.array([0.9, 0.06, 0.04]))


def exact_delta(mixture: Mixture, sigma: float, direction: str, epsilon: float) -> float:
    """The largest mass difference over half-lines, on a fine grid of their ends: from below, to second order in its step."""
    y = np.linspace(-12 * sigma, 12 * sigma + mixture.means[-1], 20001)
    if direction == "remove":
        difference = mixture.weights @ ndtr((mixture.means[:, None] - y) / sigma) - math.exp(epsilon) * ndtr(-y / sigma)
    else:
        difference = ndtr(y / sigma) - math.exp(epsilon) * (mixture.weights @ ndtr((y - mixture.means[:, None]) / sigma))
    return max(0.0, float(difference.max()))


@directions
@given(seed=st.integers(0, 10**6), sigma=st.floats(0.3, 5.0), points=st.sampled_from([50, 400]))
def test_dominates_the_exact_delta_and_keeps_the_mass(direction, seed, sigma, points):
    rng = np.random.default_rng(seed)
    mixture = Mixture(means=np.sort(rng.exponential(size=4)) * np.array([seed % 2, 1, 1, 1]), weights=rng.dirichlet(np.ones(4)))
    interval = loss_range(mixture, sigma=sigma, direction=direction) / points
    losses = mixture_losses(mixture, sigma=sigma, direction=direction, interval=interval)
    assert losses.mass.sum() + losses.infinity == pytest.approx(1.0, rel=1e-12) and losses.mass.min() >= 0
    assert len(losses.mass) <= points + 3
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        exact = exact_delta(mixture, sigma, direction, epsilon)
        assert exact - 1e-12 <= losses.delta(epsilon) <= exact + 0.3 * interval


@directions
def test_composition_agrees_with_another_library(direction):
    sigma, interval = 1.0, 1e-3
    ours = compose([mixture_losses(UNEVEN, sigma=sigma, direction=direction, interval=interval)] * 5)
    theirs = from_mixture_gaussian_mechanism(
        standard_deviation=sigma, sensitivities=UNEVEN.means.tolist(), sampling_probs=UNEVEN.weights.tolist(),
        value_discretization_interval=interval, pessimistic_estimate=True,
    ).self_compose(5)
    adjacency = privacy_loss_mechanism.AdjacencyType.REMOVE if direction == "remove" else privacy_loss_mechanism.AdjacencyType.ADD
    pmf = theirs._pmf_remove if adjacency is privacy_loss_mechanism.AdjacencyType.REMOVE else theirs._pmf_add
    for epsilon in (0.1, 1.0, 2.0):
        assert ours.delta(epsilon) == pytest.approx(pmf.get_delta_for_epsilon(epsilon), rel=tolerances.LIBRARY_DELTA, abs=2e-12)


@directions
def test_one_mean_is_a_gaussian_mechanism(direction):
    mixture = Mixture(means=np.array([0.7]), weights=np.ones(1))
    part = mixture_losses(mixture, sigma=1.0, direction=direction, interval=2e-3)
    composed = self_compose(part, 9)
    for epsilon in (0.5, 2.0, 5.0):
        exact = gaussian_delta(epsilon=epsilon, mu=2.1)
        assert exact * (1 - 1e-9) <= composed.delta(epsilon) <= exact * 1.001


def test_no_signal_is_no_loss():
    losses = mixture_losses(Mixture(means=np.zeros(1), weights=np.ones(1)), sigma=1.0, direction="remove", interval=0.1)
    assert losses.delta(0.0) <= 1e-8 and losses.delta(0.1) == 0.0 and losses.epsilon(1e-6) == 0.0


@pytest.mark.parametrize("times", [1, 2, 3, 6, 7])
def test_self_composition_is_composition(times):
    part = mixture_losses(UNEVEN, sigma=2.0, direction="remove", interval=1e-2)
    one, other = self_compose(part, times), compose([part] * times)
    for epsilon in (0.0, 0.5, 1.5):
        assert one.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=1e-9, abs=1e-13)


def test_cut_tails_and_infinite_masses_raise_delta():
    one = LossDistribution(interval=1.0, first=-1, mass=np.array([1e-20, 0.5, 0.4, 1e-20]), infinity=0.1)
    both = compose_pair(one, one)
    assert both.infinity >= 1 - 0.9**2 and both.mass.sum() + both.infinity == pytest.approx(1.0)
    assert both.first == 0 and len(both.mass) == 3
    assert one.delta(50.0) >= 0.1 and one.epsilon(0.05) == math.inf


def test_extreme_losses_stay_finite():
    losses = mixture_losses(UNEVEN, sigma=0.02, direction="remove", interval=2.0)
    assert np.isfinite(losses.mass).all() and losses.mass.sum() + losses.infinity == pytest.approx(1.0)


@directions
def test_what_is_out_of_reach_is_kept(direction, monkeypatch):
    monkeypatch.setattr(connect_the_dots, "_REACH", 2.0)
    losses = mixture_losses(UNEVEN, sigma=1.0, direction=direction, interval=1e-3)
    assert losses.mass.sum() + losses.infinity == pytest.approx(1.0, rel=1e-12) and losses.infinity > 0.001
    for epsilon in (0.0, 0.2, 1.0):
        assert losses.delta(epsilon) >= exact_delta(UNEVEN, 1.0, direction, epsilon) - 1e-12
