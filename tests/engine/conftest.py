"""One Ray session for all tests of the engine: its start is most of their time."""

import pytest

from engine.environment import start_ray
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace
from tests import postgresql as postgresql_server


@pytest.fixture(scope="session")
def ray_session():
    """Two workers, started once."""
    with start_ray(workers=2):
        yield


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL server, started once."""
    if postgresql_server.binaries() is None:
        pytest.skip("no PostgreSQL server is installed (initdb on PATH or in /usr/lib/postgresql)")
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    with postgresql_server.server() as running:
        yield running


@pytest.fixture
def problem() -> Problem:
    """The anchor problem."""
    return Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)


@pytest.fixture
def space(problem) -> SearchSpace:
    """Two schemes whose σ needs a pilot and one whose σ is a bound."""
    return SearchSpace.for_problem(problem, schemes=["min_sep_ra", "nested_ra", "cyclic_ra"])
