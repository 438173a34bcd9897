"""The Rényi accountant: closed forms, exact δ, other accountants, and what it refuses."""

import math

import numpy as np
import pytest

from accountants.balls_in_bins.accounting import renyi_evidence
from accountants.balls_in_bins.conversion import delta_from_moments
from accountants.gaussian import GaussianAccountant, gaussian_delta, lower_delta
from accountants.jensen import JensenAccountant
from accountants.renyi import RenyiAccountant
from accountants.tilted import tilted_law, tilted_log_moment, tilted_remove_bound
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.quadrature import exact_deltas
from tests.accountants.tilted import tuples
from tests.accountants.tilted.test_estimators import tiny

RENYI = RenyiAccountant()
NAMES = sorted(SCHEMES)
AMPLIFIED = sorted(set(SCHEMES) - {"deterministic"})


def small(name: str, *, sigma: float = 1.5) -> Mechanism:
    return tuples.mechanism(name, 12, 2, 1 if name in ("poisson", "random_allocation") else 3, sigma=sigma)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_is_not_below_the_exact_delta(name, epsilon):
    one = tiny(name)
    for statement, exact in zip(RENYI.delta(one, epsilon=epsilon), exact_deltas(one, epsilon=epsilon), strict=True):
        assert statement.delta >= exact * (1 - tolerances.QUADRATURE)


@pytest.mark.parametrize("name", NAMES)
def test_lies_between_the_factor_and_the_unamplified_gaussian(name):
    one = small(name)
    remove, add = RENYI.delta(one, epsilon=1.0)
    unamplified = GaussianAccountant().delta(one, epsilon=1.0)
    assert remove.delta <= unamplified[0].delta and add.delta <= unamplified[1].delta
    if one.scheme.fixed_participations:
        assert lower_delta(one, epsilon=1.0) <= min(remove.delta, add.delta)


@pytest.mark.parametrize("name", ["nested_ra", "min_sep_ra", "cyclic_ra", "balls_in_bins"])
def test_is_the_smallest_bound_over_integer_and_real_orders(name):
    one = small(name, sigma=0.9)
    for epsilon in (2.0, 5.0):
        remove = RENYI.delta(one, epsilon=epsilon)[0]
        moments = {alpha: tilted_log_moment(one, alpha=alpha) for alpha in (2, 3)}
        bounds = [tilted_remove_bound(one, epsilon=epsilon, alpha=alpha, log_moment=moment) for alpha, moment in moments.items()]
        assert remove.delta <= min(bounds) * (1 + tolerances.FOLLOWS)
        assert 1 < remove.details["order"] <= remove.details["orders"]


def test_real_orders_help_between_integers():
    one = small("nested_ra", sigma=0.9)
    remove = RENYI.delta(one, epsilon=3.0)[0]
    assert 2.01 < remove.details["order"] < 2.99
    integers = [
        tilted_remove_bound(one, epsilon=3.0, alpha=alpha, log_moment=tilted_log_moment(one, alpha=alpha)) for alpha in range(2, 6)
    ]
    assert remove.delta < 0.99 * min(integers)


@pytest.mark.parametrize("name", ["poisson", "min_sep_poisson"])
def test_without_a_factor_it_is_the_usual_conversion(name):
    one = small(name)
    logs = np.array([0.0, 0.0, *(tilted_law(one, alpha=alpha).log_moment for alpha in (2, 3))])
    for epsilon in (1.0, 2.0, 4.0):
        usual, _ = delta_from_moments(logs, epsilon=epsilon)
        remove = RENYI.delta(one, epsilon=epsilon)[0]
        # The usual conversion looks at eighths of an order only.
        assert usual * 0.95 < remove.delta < usual * (1 + tolerances.FOLLOWS)


@pytest.mark.parametrize("name", ["nested_ra", "min_sep_ra"])
def test_the_factor_makes_it_smaller_than_the_usual_conversion(name):
    one = small(name)
    logs = np.array([0.0, 0.0, *(tilted_law(one, alpha=alpha).log_moment for alpha in (2, 3))])
    assert RENYI.delta(one, epsilon=3.0)[0].delta < delta_from_moments(logs, epsilon=3.0)[0]


def test_balls_in_bins_states_the_smaller_of_both_programs():
    methods = set()
    for sigma, coefficients in ((0.9, 8), (2.5, 8), (0.9, 1)):
        one = tuples.mechanism("balls_in_bins", 64, 2, 1, sigma=sigma, coefficients=coefficients)
        pairs = zip(RENYI.delta(one, epsilon=2.0), renyi_evidence(one, epsilon=2.0), strict=True)
        for statement, banded in pairs:
            assert statement.accountant == "renyi" and statement.delta <= banded.delta
        methods.add(RENYI.delta(one, epsilon=2.0)[0].details["method"])
        assert lower_delta(one, epsilon=2.0) < RENYI.delta(one, epsilon=2.0)[0].delta
    assert methods == {"Rényi, replica program", "moments of the likelihood ratio"}


def test_one_bin_is_a_gaussian_mechanism():
    """All participations certain: the residual vanishes, and what is left is the factor itself."""
    scheme = make_scheme("random_allocation", iterations=6, participations=6, bandwidth=1)
    one = Mechanism(scheme=scheme, strategy=ToeplitzStrategy(iterations=6, coefficients=(1.0,)), sigma=2.0)
    remove = RENYI.delta(one, epsilon=1.0)[0]
    assert remove.delta == pytest.approx(gaussian_delta(epsilon=1.0, mu=math.sqrt(6) / 2), rel=2e-3)


def test_nested_is_not_above_cyclic():
    """b = 32, r = 0, σ = 0.70, where δ_remove(4) of nested RA is 2.2e-5 ± 3 % (math/certificates.md, "Reference values")."""
    deltas = []
    for name in ("nested_ra", "cyclic_ra"):
        scheme = make_scheme(name, iterations=1024, participations=4, bandwidth=32)
        one = Mechanism(scheme=scheme, strategy=harmonic(iterations=1024, bandwidth=32, r=0.0), sigma=0.70)
        deltas.append(RENYI.delta(one, epsilon=4.0)[0].delta)
    assert 2.2e-5 < deltas[0] < deltas[1]
    assert deltas[0] == pytest.approx(2.06e-4, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_epsilon_is_the_inverse_of_delta(name):
    one = small(name)
    for index, statement in enumerate(RENYI.epsilon(one, delta=1e-4)):
        assert RENYI.delta(one, epsilon=statement.epsilon)[index].delta <= 1e-4 * (1 + tolerances.FOLLOWS)
        assert RENYI.delta(one, epsilon=0.999 * statement.epsilon)[index].delta > 1e-4


@pytest.mark.parametrize("name", sorted(set(AMPLIFIED) - {"balls_in_bins"}))
def test_add_is_the_closed_bound(name):
    one = small(name)
    assert RENYI.delta(one, epsilon=1.0)[1].delta == JensenAccountant().delta(one, epsilon=1.0)[1].delta
    assert RENYI.epsilon(one, delta=1e-5)[1].epsilon == JensenAccountant().epsilon(one, delta=1e-5)[1].epsilon
    assert RENYI.delta(one, epsilon=1.0)[1].accountant == "renyi"


@pytest.mark.parametrize("sigma", [0.02, 100.0])
@pytest.mark.parametrize("name", NAMES)
def test_answers_at_extreme_noise(name, sigma):
    one = small(name, sigma=sigma)
    for statement in (*RENYI.delta(one, epsilon=1.0), *RENYI.epsilon(one, delta=1e-5)):
        assert 0 < statement.delta <= 1 and math.isfinite(statement.epsilon)


def test_refuses_programs_that_are_too_large():
    scheme = make_scheme("min_sep_ra", iterations=16384, participations=64, bandwidth=128)
    one = Mechanism(scheme=scheme, strategy=harmonic(iterations=16384, bandwidth=128, r=0.02), sigma=1.0)
    reason = RENYI.unsupported(one)
    assert "min_sep_ra" in reason
    with pytest.raises(UnsupportedError, match="min_sep_ra"):
        RENYI.delta(one, epsilon=1.0)
    with pytest.raises(UnsupportedError, match="min_sep_ra"):
        RENYI.epsilon(one, delta=1e-5)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf, None])
def test_refuses_a_bad_epsilon(epsilon):
    with pytest.raises(InputError, match="epsilon="):
        RENYI.delta(small("nested_ra"), epsilon=epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_refuses_a_bad_delta(delta):
    with pytest.raises(InputError, match="delta="):
        RENYI.epsilon(small("nested_ra"), delta=delta)
