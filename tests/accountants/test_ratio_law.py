"""Laws of likelihood ratios: mass and mean are kept, and they are larger in convex order than the law they stand for, but not by much."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.gaussian import gaussian_delta
from accountants.ratio_law import RatioLaw, aligned, mean_gaussian_law, subsampled_gaussian_law
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import identity
from tests import tolerances
from tests.accountants.quadrature import exact_deltas

EPSILONS = (0.0, 0.3, 1.0, 2.5)


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def law_deltas(law: RatioLaw, epsilon: float) -> tuple[float, float]:
    """E_Q (W − e^ε)_+ and E_Q (1 − e^ε W)_+."""
    remove = law.masses @ np.maximum(law.ratios - math.exp(epsilon), 0.0) + law.at_infinity
    return float(remove), float(law.masses @ np.maximum(1.0 - math.exp(epsilon) * law.ratios, 0.0) + law.at_zero)


def assert_is_a_law(law: RatioLaw) -> None:
    assert np.all(law.masses >= 0) and law.at_zero >= 0 and law.at_infinity >= 0
    assert math.fsum(law.masses) + law.at_zero == pytest.approx(1.0, abs=1e-11)
    assert law.masses @ law.ratios + law.at_infinity == pytest.approx(1.0, abs=1e-11)


@given(mu=powers_of_ten(-3.0, 1.3), probability=powers_of_ten(-4.0, 0.0))
def test_subsampled_law_keeps_mass_and_mean(mu, probability):
    assert_is_a_law(subsampled_gaussian_law(mu=mu, probability=probability))


@given(mu=powers_of_ten(-3.0, 1.0), steps=st.integers(1, 70))
def test_mean_law_keeps_mass_and_mean(mu, steps):
    assert_is_a_law(mean_gaussian_law(mu=mu, steps=steps))


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("build", [lambda mu: subsampled_gaussian_law(mu=mu, probability=1.0), lambda mu: mean_gaussian_law(mu=mu, steps=1)])
def test_a_certain_step_is_the_gaussian_mechanism(mu, build):
    for quantile in (-1.0, 0.0, 1.0, 3.0, 6.0):
        epsilon = max(0.0, mu * (mu / 2 + quantile))
        exact = gaussian_delta(epsilon=epsilon, mu=mu)
        for delta in law_deltas(build(mu), epsilon):
            assert exact * (1 - 1e-9) <= delta <= exact * (1 + tolerances.GRID_SPREAD)


@pytest.mark.parametrize("sigma", [0.6, 1.5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_step_out_of_two_against_quadrature(sigma, epsilon):
    scheme = make_scheme("random_allocation", iterations=2, participations=1, bandwidth=1)
    mechanism = Mechanism(scheme=scheme, strategy=identity(iterations=2), sigma=sigma)
    assert_just_above(law_deltas(mean_gaussian_law(mu=1 / sigma, steps=2), epsilon), exact_deltas(mechanism, epsilon=epsilon))


@pytest.mark.parametrize("sigma", [0.3, 0.6, 1.5])
@pytest.mark.parametrize("probability", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_poisson_step_against_quadrature(sigma, probability, epsilon):
    law = subsampled_gaussian_law(mu=1 / sigma, probability=probability)
    assert_just_above(law_deltas(law, epsilon), one_poisson_step(sigma, probability, epsilon))


def assert_just_above(bounds: tuple[float, float], exact: tuple[float, float]) -> None:
    for bound, value in zip(bounds, exact):
        assert value * (1 - tolerances.QUADRATURE) - 1e-12 <= bound <= value * (1 + tolerances.GRID_SPREAD) + 1e-12


def one_poisson_step(sigma: float, probability: float, epsilon: float) -> tuple[float, float]:
    z = np.linspace(-12.0, 12.0, 200_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    ratio = 1 - probability + probability * np.exp(z / sigma - 1 / (2 * sigma**2))
    return density @ np.maximum(ratio - math.exp(epsilon), 0.0), density @ np.maximum(1 - math.exp(epsilon) * ratio, 0.0)


@pytest.mark.parametrize("steps", [3, 7, 12])
def test_averaging_more_ratios_is_smaller_in_convex_order(steps):
    fewer, more = mean_gaussian_law(mu=1.0, steps=steps), mean_gaussian_law(mu=1.0, steps=steps + 1)
    for epsilon in EPSILONS:
        assert all(small < large for small, large in zip(law_deltas(more, epsilon), law_deltas(fewer, epsilon)))


def test_refining_changes_nothing_and_aligning_gives_one_step():
    coarse, fine = mean_gaussian_law(mu=0.5, steps=2), mean_gaussian_law(mu=0.5, steps=40)
    assert fine.step < coarse.step
    one, other = aligned(coarse, fine)
    assert one.step == other.step == fine.step
    for epsilon in EPSILONS:
        np.testing.assert_allclose(law_deltas(one, epsilon), law_deltas(coarse, epsilon), rtol=1e-12)
