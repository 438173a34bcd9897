"""Mechanisms: what may be combined, and the sensitivity against brute force over all schedules."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic, identity
from tests import tolerances
from tests.enumeration import schedules

MECHANISM = Mechanism(
    scheme=make_scheme("min_sep_ra", iterations=12, participations=3, bandwidth=4),
    strategy=harmonic(iterations=12, bandwidth=4, r=0.1),
    sigma=0.7,
)


FIXED = [name for name, scheme in SCHEMES.items() if scheme.fixed_participations]


def widest(name: str) -> BatchScheme:
    """The scheme at T = 12, K = 3 with its largest bandwidth."""
    bandwidth = SCHEMES[name].bandwidths(Problem(iterations=12, participations=3, epsilon=1, delta=1e-5))[-1]
    return make_scheme(name, iterations=12, participations=3, bandwidth=bandwidth)


@pytest.mark.parametrize("coefficients", [(1.0, 0.5, 0.25), (0.2, 0.5, 1.7), (3.0,), (1.0, 0.0, 0.0, 2.0)])
@pytest.mark.parametrize("name", FIXED)
def test_three_separated_participations_have_root_three_column_norms(name, coefficients):
    """Not the sensitivity of one participation, and no premise that coefficients decrease: windows do not overlap."""
    scheme = widest(name)
    strategy = ToeplitzStrategy(iterations=12, coefficients=coefficients[: scheme.separation])
    sensitivity = Mechanism(scheme=scheme, strategy=strategy, sigma=1).sensitivity
    assert abs(sensitivity - math.sqrt(3) * math.hypot(*strategy.coefficients)) < 1e-12
    rows, _ = schedules(scheme)
    assert abs(sensitivity - np.linalg.norm(rows @ strategy.dense().T, axis=1).max()) < tolerances.ENUMERATION


@given(st.sampled_from(sorted(SCHEMES)), st.integers(1, 10), st.integers(1, 4), st.integers(1, 10), st.data())
def test_no_schedule_of_all_iterations_moves_the_output_further_than_the_sensitivity(name, iterations, participations, bandwidth, data):
    """Over n = iterations, not n = bandwidth: brute force over all schedules and any coefficients."""
    assume(participations <= iterations)
    problem = Problem(iterations=iterations, participations=participations, epsilon=1, delta=1e-5)
    assume(bandwidth in SCHEMES[name].bandwidths(problem))
    scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
    tail = data.draw(st.lists(st.floats(0, 10), max_size=bandwidth - 1))
    strategy = ToeplitzStrategy(iterations=iterations, coefficients=[data.draw(st.floats(0.1, 10)), *tail])
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=1)
    rows, _ = schedules(scheme)
    squares = np.sum((rows @ strategy.dense().T) ** 2, axis=1)
    assert np.all(squares <= rows.sum(axis=1) * strategy.column_norm**2 * (1 + tolerances.ENUMERATION))
    assert np.all(squares <= mechanism.sensitivity**2 * (1 + tolerances.ENUMERATION))


def test_a_scheme_without_a_fixed_number_counts_every_possible_participation():
    scheme = make_scheme("min_sep_poisson", iterations=11, participations=2, bandwidth=3)
    mechanism = Mechanism(scheme=scheme, strategy=identity(iterations=11), sigma=1)
    assert schedules(scheme)[0].sum(axis=1).max() == scheme.max_participations == 4
    assert mechanism.sensitivity == 2.0


def test_rmse_is_the_strategys_for_the_schemes_participations():
    assert MECHANISM.rmse == MECHANISM.strategy.rmse(sigma=0.7, participations=3)
    assert math.isclose(MECHANISM.with_sigma(1.4).rmse, 2 * MECHANISM.rmse, rel_tol=1e-12)


def test_with_sigma_keeps_scheme_and_strategy_and_leaves_the_original():
    other = MECHANISM.with_sigma(2)
    assert (other.scheme, other.strategy, other.sigma) == (MECHANISM.scheme, MECHANISM.strategy, 2.0)
    assert MECHANISM.sigma == 0.7
    assert MECHANISM.sensitivity == other.sensitivity, "in units of the clip norm, whatever the noise"


@pytest.mark.parametrize("sigma", [0, 0.0, -0.5, math.nan, math.inf, -math.inf, True, "0.7", None])
def test_sigma_must_be_positive(sigma):
    for make in (lambda: MECHANISM.with_sigma(sigma), lambda: Mechanism(scheme=MECHANISM.scheme, strategy=MECHANISM.strategy, sigma=sigma)):
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value) == f"Expected sigma={sigma!r} to be a finite number > 0."


def test_strategy_and_scheme_must_have_the_same_horizon():
    with pytest.raises(InputError, match="Expected strategy iterations=13 to be the scheme's 12."):
        Mechanism(scheme=MECHANISM.scheme, strategy=identity(iterations=13), sigma=1)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_band_wider_than_the_separation_is_refused(name):
    """Participations whose windows overlap would add up to more than the sensitivity says."""
    scheme = make_scheme(name, iterations=12, participations=3, bandwidth=1)
    full = harmonic(iterations=12, bandwidth=scheme.separation, r=0)
    assert Mechanism(scheme=scheme, strategy=full, sigma=1).strategy == full
    wider = harmonic(iterations=12, bandwidth=scheme.separation + 1, r=0)
    with pytest.raises(InputError, match=f"Expected strategy bandwidth={wider.bandwidth} to be at most the separation {scheme.separation}"):
        Mechanism(scheme=scheme, strategy=wider, sigma=1)


def test_arguments_are_keyword_only():
    with pytest.raises(TypeError):
        Mechanism(MECHANISM.scheme, MECHANISM.strategy, 0.7)
