"""Runs of each kind and their reports, made once."""

import pytest

from engine.report.build import build_report
from engine.report.contents import read_contents
from tests.engine.report import runs


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder of a run with a certified strategy."""
    return runs.make_finished(tmp_path_factory.mktemp("runs") / "run & <b>")


@pytest.fixture(scope="session")
def unfinished(tmp_path_factory):
    """Folder of an interrupted run."""
    return runs.make_unfinished(tmp_path_factory.mktemp("runs") / "unfinished")


@pytest.fixture(scope="session")
def fixed_size(tmp_path_factory):
    """Folder of a run with fixed-size batches."""
    return runs.make_fixed_size(tmp_path_factory.mktemp("runs") / "fixed")


@pytest.fixture(scope="session")
def contents(finished):
    """What the finished run holds."""
    return read_contents(finished)


@pytest.fixture(scope="session")
def report(finished):
    """The report of the finished run."""
    return build_report(finished)
