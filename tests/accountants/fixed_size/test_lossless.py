"""The lossless accountant: the glued pair, its discretisation, and the composition against closed forms and plain convolution."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from accountants.fixed_size import lossless
from accountants.fixed_size.loss_distribution import LossDistribution, discretise, hockey_stick
from accountants.fixed_size.mechanism import FixedSizeMechanism
from tests.tolerances import FIXED_SIZE_EPSILON, FIXED_SIZE_GRID

PAIRS = dict(rate=st.sampled_from([1e-4, 0.0025, 0.04, 0.5, 0.99, 1.0]), shift=st.floats(0.2, 2.5))


def discrete_curve(law: LossDistribution, epsilon: float) -> float:
    above = law.losses > epsilon
    return float((law.masses[above] * -np.expm1(epsilon - law.losses[above])).sum()) + law.infinity_mass


def mechanism(rate: str, iterations: int, sigma: float) -> FixedSizeMechanism:
    fraction = Fraction(rate)
    return FixedSizeMechanism(
        dataset_size=fraction.denominator, batch_size=fraction.numerator, iterations=iterations, sigma=sigma
    )


@given(log_gamma=st.floats(-2.0, 3.0), **PAIRS)
def test_hockey_stick_against_quadrature(log_gamma, rate, shift):
    x = np.linspace(-12.0, 12.0 + shift, 200_001)
    normal = lambda centre: np.exp(-0.5 * (x - centre) ** 2) / math.sqrt(2 * math.pi)
    mixture, gamma = (1 - rate) * normal(0) + rate * normal(shift), math.exp(log_gamma)
    first, second = (mixture, normal(0)) if gamma >= 1 else (normal(0), mixture)
    expected = np.trapezoid(np.maximum(first - gamma * second, 0), x)
    assert float(hockey_stick(gamma, rate=rate, shift=shift)) == pytest.approx(expected, abs=FIXED_SIZE_GRID)


@settings(max_examples=15)
@given(cell=st.integers(-40, 400), between=st.floats(0.01, 0.99), **PAIRS)
def test_discretisation_touches_the_curve_at_the_grid_and_is_above_it_between(rate, shift, cell, between):
    grid = 1e-2
    law = discretise(rate=rate, shift=shift, grid=grid)
    assert law.masses.min() >= 0 and law.masses.sum() + law.infinity_mass == pytest.approx(1, abs=1e-14)
    curve = lambda epsilon: float(hockey_stick(math.exp(epsilon), rate=rate, shift=shift))
    assert discrete_curve(law, cell * grid) == pytest.approx(curve(cell * grid), abs=1e-13)
    inside = (cell + between) * grid
    assert discrete_curve(law, inside) >= curve(inside) - 1e-15


def test_pair_is_its_own_mirror_image():
    """H_{1/γ} = 1 − 1/γ + H_γ/γ: the curve of the pair with its members exchanged is the same curve."""
    gamma = np.exp(np.linspace(-3, 3, 61))
    values, mirrored = (hockey_stick(g, rate=0.1, shift=1.3) for g in (gamma, 1 / gamma))
    np.testing.assert_allclose(mirrored, 1 - 1 / gamma + values / gamma, atol=1e-14)


@pytest.mark.parametrize("rate, sigma", [("0.0025", 1.0), ("0.5", 3.0), ("0.999", 2.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 2.0])
def test_one_step_is_the_curve(rate, sigma, epsilon):
    found = lossless.delta(mechanism(rate, 1, sigma), epsilon=epsilon).value
    true = float(hockey_stick(math.exp(epsilon), rate=float(rate), shift=2 / sigma))
    assert true <= found <= true * (1 + 1e-4) + 1e-15


@pytest.mark.parametrize("iterations", [2, 3, 7])
def test_small_compositions_against_plain_convolution(iterations):
    step = discretise(rate=0.3, shift=1.0, grid=5e-3)
    masses = step.masses
    for _ in range(iterations - 1):
        masses = np.convolve(masses, step.masses)
    losses = step.grid * (np.arange(masses.size) - masses.size // 2)
    for tilt in (0.0, 1.0, 3.0):
        window = lossless._window(step, iterations, tilt, wanted=0.5)
        cells = math.ceil((window.high - window.low) / step.grid)
        composed = lossless._compose(step, iterations, tilt, window, cells)
        for epsilon in (0.5, 1.0, 2.5):
            above = losses > epsilon
            expected = (masses[above] * -np.expm1(epsilon - losses[above])).sum()
            assert expected <= composed.delta(epsilon) <= expected * (1 + 1e-8) + 1e-18


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(first + np.log(-np.expm1(second - first)))


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("iterations, sigma", [(4, 4.0), (400, 30.0)])
def test_full_batches_are_the_gaussian_mechanism(iterations, sigma, delta):
    mu = 2 * math.sqrt(iterations) / sigma
    exact = brentq(lambda epsilon: gaussian_log_delta(epsilon, mu) - math.log(delta), 0, 60, xtol=1e-12)
    found = lossless.epsilon(mechanism("1", iterations, sigma), delta=delta).value
    assert exact <= found <= exact + FIXED_SIZE_EPSILON


@pytest.mark.parametrize("rate, iterations, sigma", [("0.0025", 4000, 2.0), ("0.04", 250, 4.0), ("0.01", 500, 1.0)])
def test_agrees_with_a_library_where_its_rounding_does_not_matter(rate, iterations, sigma):
    found = lossless.epsilon(mechanism(rate, iterations, sigma), delta=1e-5)
    step = discretise(rate=float(rate), shift=2 / sigma, grid=found.details["grid"])
    plain = pld_pmf.DensePLDPmf(step.grid, -step.reach, step.masses, step.infinity_mass, True).self_compose(iterations, 1e-15)
    assert found.value == pytest.approx(plain.get_epsilon_for_delta(1e-5), abs=FIXED_SIZE_EPSILON)


@pytest.mark.parametrize("target", [0.6, 1.0, 1.6])
def test_small_delta_does_not_drown_in_rounding(target):
    """At δ = 1e-12 after 16000 steps an untilted transform gives an ε that is 0.015 too small; different tilts must agree here."""
    training = mechanism("0.0025", 16000, 4.0)
    epsilon = lossless.epsilon(training, delta=1e-12).value
    _, composed = lossless._composed(training, epsilon=target)
    assert composed.delta(epsilon) == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize("rate, iterations, sigma", [("0.0025", 64000, 8.0), ("0.5", 3, 0.1), ("1e-6", 10**5, 0.7), ("0.01", 10**6, 50.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-12])
def test_epsilon_and_delta_are_inverse(rate, iterations, sigma, delta):
    training = mechanism(rate, iterations, sigma)
    epsilon = lossless.epsilon(training, delta=delta)
    assert epsilon.kind == "bound"
    back = lossless.delta(training, epsilon=epsilon.value).value
    assert back <= delta if epsilon.value == 0 else back == pytest.approx(delta, rel=2e-4)


def test_normal_distribution_at_the_cut():
    """The mass beyond the kept range, which goes to infinity, is what the docstring says."""
    assert ndtr(-12.0) < 1e-32
