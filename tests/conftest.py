"""Settings shared by all tests, and who runs what where they run in several processes."""

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

hypothesis.settings.register_profile("bandsmith", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("bandsmith")

STARTS_RAY = ("tests/engine/", "tests/launch/", "tests/examples/", "tests/test_readme.py")
"""Tests that start Ray sessions, clusters and servers, or kill them."""


class OneForRay(LoadScopeScheduling):
    """One process runs all tests that start Ray, so that there is one such session at a time; other files stay whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "Ray" if file.startswith(STARTS_RAY) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneForRay:
    """Takes the place of xdist's own choice."""
    return OneForRay(config, log)
