"""The objective against closed forms, exact accountants and itself."""

import math

import pytest

from accountants.gaussian import gaussian_mu, rmse_lower_limit
from engine.configuration import NORM_ONLY
from engine.objective import SAME_AT_BANDWIDTH_ONE, evaluate
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.strategies import harmonic
from tests.tolerances import ANCHOR_SIGMA, SAME_FORMULA

SMALL = Problem(iterations=24, participations=2, epsilon=2, delta=1e-3)


def test_the_deterministic_scheme_is_the_gaussian_mechanism():
    outcome = evaluate(SMALL, scheme="deterministic", bandwidth=5, r=0.1, samples=1, seed=0)
    sigma = math.sqrt(2) / gaussian_mu(epsilon=2, delta=1e-3)
    assert outcome.sigma == pytest.approx(sigma, rel=SAME_FORMULA)
    assert outcome.rmse == pytest.approx(harmonic(iterations=24, bandwidth=5, r=0.1).rmse(sigma=sigma, participations=2), rel=SAME_FORMULA)
    assert outcome.multiple_of_limit == pytest.approx(outcome.rmse / rmse_lower_limit(iterations=24, epsilon=2, delta=1e-3))
    assert (outcome.kind, outcome.accountant, outcome.samples, outcome.sigma_standard_error) == ("bound", "gaussian", 0, None)
    assert outcome.resolved


def test_cyclic_poisson_at_the_anchor(problem):
    outcome = evaluate(problem, scheme="cyclic_poisson", bandwidth=32, r=0.305, samples=1, seed=0)
    assert outcome.rmse == pytest.approx(1.443, rel=ANCHOR_SIGMA)
    assert (outcome.kind, outcome.accountant) == ("bound", "pld")


def test_sigma_of_a_bound_is_proportional_to_the_norm(problem):
    coefficients = harmonic(iterations=1024, bandwidth=32, r=0.2).coefficients
    unit = evaluate(problem, scheme="cyclic_poisson", bandwidth=32, coefficients=coefficients, samples=1, seed=0)
    double = evaluate(problem, scheme="cyclic_poisson", bandwidth=32, coefficients=[2 * c for c in coefficients], samples=1, seed=0)
    assert double.sigma == pytest.approx(2 * unit.sigma, rel=SAME_FORMULA)
    assert double.rmse == pytest.approx(unit.rmse, rel=SAME_FORMULA)


@pytest.mark.parametrize("scheme", sorted(SAME_AT_BANDWIDTH_ONE))
def test_at_bandwidth_one_a_scheme_is_its_exact_twin(scheme):
    twin = SAME_AT_BANDWIDTH_ONE[scheme]
    assert twin in NORM_ONLY and scheme not in NORM_ONLY
    one, other = (evaluate(SMALL, scheme=name, bandwidth=1, r=0.0, samples=1, seed=0) for name in (scheme, twin))
    assert (one.sigma, one.rmse, one.kind) == (other.sigma, other.rmse, "bound")


def test_an_estimate_is_a_function_of_its_arguments_alone():
    settings = dict(scheme="min_sep_ra", bandwidth=6, r=0.2, samples=512)
    first, again, other = (evaluate(SMALL, seed=seed, **settings) for seed in (1, 1, 2))
    assert (first.sigma, first.rmse, first.sigma_standard_error) == (again.sigma, again.rmse, again.sigma_standard_error)
    assert other.sigma != first.sigma
    assert abs(other.sigma - first.sigma) < 6 * math.hypot(first.sigma_standard_error, other.sigma_standard_error)
    assert first.rmse_standard_error / first.rmse == pytest.approx(first.sigma_standard_error / first.sigma)
    assert (first.kind, first.accountant, first.resolved, first.device) == ("estimate", "monte_carlo", True, "cpu")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(bandwidth=6), "exactly one of r=None and coefficients=None"),
        (dict(bandwidth=2, r=0.1, coefficients=[1, 0.5]), "exactly one"),
        (dict(bandwidth=3, coefficients=[1, 0.5]), "bandwidth=3"),
        (dict(bandwidth=13, r=0.0), "bandwidth=13"),
        (dict(bandwidth=6, r=0.5), "r=0.5"),
        (dict(bandwidth=6, r=0.1, samples=0), "samples=0"),
        (dict(bandwidth=6, r=0.1, seed=-1), "seed=-1"),
        (dict(scheme="shuffled", bandwidth=6, r=0.1), "scheme='shuffled'"),
    ],
)
def test_bad_input_is_named(settings, said):
    with pytest.raises(InputError, match=said):
        evaluate(SMALL, **dict(scheme="min_sep_ra", samples=512, seed=0) | settings)
