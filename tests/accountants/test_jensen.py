"""Jensen's bound for "add", and why the formula without the linear term is no bound.

With v = C^{−T}1 taken out, LR_⊥ >= exp(ν_⊥) would hold almost surely if C E[x] were parallel to v. In general it is not: two iterations
suffice.
"""

import math

import numpy as np
import pytest

from accountants.gaussian import GaussianAccountant, gaussian_delta
from accountants.jensen import JensenAccountant
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.quadrature import exact_deltas
from tests.enumeration import log_likelihood_ratio, schedules


def two_iterations(coefficients: tuple[float, float], sigma: float, name: str = "min_sep_ra") -> Mechanism:
    strategy = ToeplitzStrategy(iterations=2, coefficients=coefficients)
    return Mechanism(scheme=make_scheme(name, iterations=2, participations=1, bandwidth=2), strategy=strategy, sigma=sigma)


def claimed_offset(mechanism: Mechanism) -> float:
    """ν_⊥ = −(E‖Cx‖² − K²κ²)/(2σ²), by enumeration."""
    rows, probabilities = schedules(mechanism.scheme)
    energy = probabilities @ np.sum((rows @ mechanism.strategy.dense().T) ** 2, axis=1)
    return -(energy - (mechanism.scheme.participations * mechanism.strategy.kappa) ** 2) / (2 * mechanism.sigma**2)


def test_the_residual_ratio_falls_below_the_claimed_limit():
    mechanism = two_iterations((1.0, 1.0), sigma=2.0)
    v = mechanism.strategy.participation_direction / np.linalg.norm(mechanism.strategy.participation_direction)
    across = np.array([v[1], -v[0]])
    y = mechanism.sigma * np.linspace(-6.0, 6.0, 121)[:, None] * across
    # On ⟨y, v⟩ = 0 the Gaussian factor is e^{−ξ²/2}.
    residual = log_likelihood_ratio(mechanism.scheme, mechanism.strategy, sigma=mechanism.sigma, y=y) + mechanism.gaussian_factor ** 2 / 2
    assert residual.min() < claimed_offset(mechanism) - 0.5


@pytest.mark.parametrize(("coefficients", "sigma", "factor"), [((1.0, 1.0), 2.0, 1.25), ((1.0, 2.0), 2.0, 8.0)])
def test_the_claimed_bound_is_below_the_exact_delta(coefficients, sigma, factor):
    mechanism = two_iterations(coefficients, sigma)
    claimed = gaussian_delta(epsilon=1.0 + claimed_offset(mechanism), mu=mechanism.gaussian_factor)
    exact = exact_deltas(mechanism, epsilon=1.0)[1]
    assert exact > factor * claimed
    assert JensenAccountant().delta(mechanism, epsilon=1.0)[1].delta >= exact


def test_the_bound_is_exact_where_the_schedule_is_certain():
    # One schedule: Jensen's inequality is an equality, and C E[x] = Cx.
    mechanism = two_iterations((0.8, 0.6), sigma=0.7, name="deterministic")
    exact = GaussianAccountant().delta(mechanism, epsilon=1.0)[1].delta
    assert JensenAccountant().delta(mechanism, epsilon=1.0)[1].delta == pytest.approx(exact, rel=1e-8)


def test_add_gains_from_amplification_and_remove_does_not():
    scheme = make_scheme("min_sep_ra", iterations=256, participations=4, bandwidth=16)
    mechanism = Mechanism(scheme=scheme, strategy=harmonic(iterations=256, bandwidth=16, r=0.1), sigma=2.0)
    unamplified = GaussianAccountant().delta(mechanism, epsilon=2.0)
    remove, add = JensenAccountant().delta(mechanism, epsilon=2.0)
    assert remove.delta == unamplified[0].delta and "unamplified" in remove.details["reason"]
    assert add.delta < 1e-3 * unamplified[1].delta and add.details["method"] == "Jensen's inequality"


@pytest.mark.parametrize("name", SCHEMES)
def test_falls_back_to_the_gaussian_where_that_is_smaller(name):
    # The more noise the less the participations' spread matters, and at ε near 0 the offset ν decides.
    bandwidth = 1 if name in ("poisson", "random_allocation") else 2
    scheme = make_scheme(name, iterations=8, participations=4, bandwidth=bandwidth)
    mechanism = Mechanism(scheme=scheme, strategy=harmonic(iterations=8, bandwidth=bandwidth, r=0.0), sigma=0.2)
    for epsilon in (0.0, 0.5, 40.0):
        gaussian = GaussianAccountant().delta(mechanism, epsilon=epsilon)[1].delta
        assert JensenAccountant().delta(mechanism, epsilon=epsilon)[1].delta <= gaussian * (1 + tolerances.FOLLOWS)
    assert math.isfinite(JensenAccountant().epsilon(mechanism, delta=1e-9)[1].epsilon)
