"""Settings shared by all tests, and who runs what where they run in several processes."""

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

hypothesis.settings.register_profile("bandsmith", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("bandsmith")

TOGETHER = ("tests/engine/", ("tests/launch/", "tests/examples/", "tests/test_readme.py"))
"""Tests that start Ray sessions, clusters and servers, or kill them: each of these runs in one process."""


class FewSessions(LoadScopeScheduling):
    """Tests that start Ray stay together, so that there are two such sessions at most at a time; other files stay whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return next((str(names) for names in TOGETHER if file.startswith(names)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FewSessions:
    """Takes the place of xdist's own choice."""
    return FewSessions(config, log)
