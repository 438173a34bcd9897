"""One Ray session for all tests of the engine: its start is most of their time."""

import pytest

from engine.environment import start_ray
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace


@pytest.fixture(scope="session")
def ray_session():
    """Two workers, started once."""
    with start_ray(workers=2):
        yield


@pytest.fixture
def problem() -> Problem:
    """The anchor problem."""
    return Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)


@pytest.fixture
def space(problem) -> SearchSpace:
    """Two schemes whose σ needs a pilot and one whose σ is a bound."""
    return SearchSpace.for_problem(problem, schemes=["min_sep_ra", "nested_ra", "cyclic_ra"])
