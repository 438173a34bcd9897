"""Settings shared by all tests."""

import hypothesis
import pytest

hypothesis.settings.register_profile("bandsmith", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("bandsmith")

STARTS_RAY = ("tests/engine", "tests/launch", "tests/examples", "tests/test_readme.py")
"""Tests that start Ray sessions, clusters and servers, or kill them."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, one has all that start Ray, so that there is one such session at a time; other files stay whole."""
    for item in items:
        file = item.nodeid.split("::")[0]
        item.add_marker(pytest.mark.xdist_group("ray" if file.startswith(STARTS_RAY) else file))
