"""Configurations as Optuna sees them."""

import numpy as np
import optuna
import pytest
from hypothesis import given, strategies as st

from engine.configuration import (
    NORM_ONLY, Configuration, best_r, configuration_attributes, first_configurations, parameters, suggest,
)
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace, r_from_position
from search_spaces.strategies import harmonic
from tests.tolerances import BEST_R, ROUND_TRIP

problems = st.builds(
    lambda t, k, epsilon: Problem(iterations=max(t, k), participations=k, epsilon=epsilon, delta=1e-5),
    st.integers(1, 300), st.integers(1, 9), st.floats(0.01, 50),
)


def suggested(values: dict[str, object], space: SearchSpace) -> Configuration:
    return suggest(optuna.trial.FixedTrial(values), space)


@given(problems, st.randoms(use_true_random=False))
def test_parameters_are_the_inverse_of_suggest(problem, random):
    space = SearchSpace.for_problem(problem)
    part = random.choice(space.schemes)
    bandwidth = random.choice(part.bandwidths)
    searched = bandwidth > 1 and part.scheme not in NORM_ONLY
    r = r_from_position(bandwidth, random.random()) if searched else best_r(iterations=problem.iterations, bandwidth=bandwidth)
    wanted = Configuration(scheme=part.scheme, bandwidth=bandwidth, r=r)
    found = suggested(parameters(wanted, space), space)
    assert (found.scheme, found.bandwidth) == (wanted.scheme, wanted.bandwidth)
    assert found.r == pytest.approx(wanted.r, abs=ROUND_TRIP / bandwidth)


@given(problems)
def test_the_search_begins_inside_the_space_once_per_scheme(problem):
    space = SearchSpace.for_problem(problem)
    first = first_configurations(space)
    assert sorted(c.scheme for c in first) == sorted(space.names)
    for configuration in first:
        space.check(scheme=configuration.scheme, bandwidth=configuration.bandwidth, r=configuration.r)
        assert configuration.strategy(problem).bandwidth == configuration.batch_scheme(problem).bandwidth


@pytest.mark.parametrize("bandwidth", [1, 2, 32, 256])
def test_best_r_has_the_smallest_error_of_a_fine_grid(bandwidth):
    error = lambda r: harmonic(iterations=1024, bandwidth=bandwidth, r=r).rmse(sigma=1, participations=1)
    finest = min(error(r_from_position(bandwidth, position)) for position in np.linspace(0, 1, 401))
    assert error(best_r(iterations=1024, bandwidth=bandwidth)) <= finest * (1 + BEST_R)


def test_an_enqueued_configuration_is_returned_to_the_last_bit(space):
    wanted = Configuration(scheme="min_sep_ra", bandwidth=128, r=0.1 + 1e-16)
    study = optuna.create_study()
    study.enqueue_trial(parameters(wanted, space), user_attrs=configuration_attributes(wanted))
    trial = study.ask()
    assert suggest(trial, space) == wanted
    assert set(trial.params) == {"scheme", "min_sep_ra.bandwidth_position", "min_sep_ra.r_position"}


def test_parameters_with_one_value_are_not_asked_for():
    space = SearchSpace.for_problem(Problem(iterations=64, participations=2, epsilon=1, delta=1e-5), schemes=["poisson"])
    trial = optuna.create_study().ask()
    assert suggest(trial, space) == Configuration(scheme="poisson", bandwidth=1, r=0.0)
    assert trial.params == {}


def test_a_configuration_outside_the_space_is_refused(space):
    with pytest.raises(InputError, match="scheme"):
        parameters(Configuration(scheme="poisson", bandwidth=1, r=0.0), space)
    with pytest.raises(InputError, match="bandwidth"):
        parameters(Configuration(scheme="nested_ra", bandwidth=3, r=0.0), space)


def test_labels_name_scheme_bandwidth_and_r():
    assert Configuration(scheme="min_sep_ra", bandwidth=128, r=0.02).label == "min_sep_ra b=128 r=0.02"
