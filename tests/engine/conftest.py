"""One Ray session for all tests of the engine: its start is most of their time."""

import pytest

from engine.environment import start_ray
from engine.tune import TuneSettings, tune
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


SMALL_PROBLEM = Problem(iterations=16, participations=2, epsilon=2.0, delta=1e-2)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory, ray_session):
    """The whole job on a small problem, done once: its result and what it told of its progress. Whoever changes the folder copies it."""
    told = []
    settings = TuneSettings(
        problem=SMALL_PROBLEM, schemes=("min_sep_ra", "nested_ra", "cyclic_poisson"), trials=6, seed=2, workers=2,
        out=tmp_path_factory.mktemp("tune") / "run",
    )
    return tune(settings, progress=lambda *what: told.append(what)), told


@pytest.fixture
def problem() -> Problem:
    """The anchor problem."""
    return Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)


@pytest.fixture
def space(problem) -> SearchSpace:
    """Two schemes whose σ needs a pilot and one whose σ is a bound."""
    return SearchSpace.for_problem(problem, schemes=["min_sep_ra", "nested_ra", "cyclic_ra"])
