"""The distribution: every dependency is pinned, the pins agree with what is asked for, and the entry points exist."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("constraints.txt", "constraints-extras.txt")
PINS = {
    canonicalize_name(name): version
    for lock in LOCKS
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE)
}
EXTRAS = PROJECT["project"]["optional-dependencies"]

def test_constraints_hold_pins_and_comments_only():
    lines = [line for lock in LOCKS for line in (ROOT / lock).read_text(encoding="utf-8").splitlines()]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+|#.*|", line) for line in lines)
    assert len(PINS) == len([line for line in lines if "==" in line])


@pytest.mark.parametrize("text", [*PROJECT["project"]["dependencies"], *(text for texts in EXTRAS.values() for text in texts)])
def test_dependency_is_pinned_within_its_range(text):
    requirement = Requirement(text)
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def installed_closure() -> set[str]:
    """Names of everything the distribution needs on this machine, by the metadata of what is installed."""
    found: set[str] = set()
    pending = [(Requirement(text), ()) for text in [*PROJECT["project"]["dependencies"], *EXTRAS["test"]]]
    while pending:
        requirement, wanted_by = pending.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in (*wanted_by, "")):
            continue
        name = canonicalize_name(requirement.name)
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key in found:
            continue
        found.add(key)
        pending += [(Requirement(text), tuple(requirement.extras)) for text in metadata.requires(name) or ()]
    return {key.split("[")[0] for key in found}


def test_every_transitive_dependency_is_pinned_to_what_is_installed():
    assert {name: metadata.version(name) for name in installed_closure()}.items() <= PINS.items()


def test_console_script_is_callable():
    module, name = PROJECT["project"]["scripts"]["bandsmith"].split(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_packages_are_found_with_all_subpackages():
    include = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert include == [f"{package}*" for package in ("search_spaces", "accountants", "engine", "launch")]
    for package in (pattern.rstrip("*") for pattern in include):
        folders = {path.parent for path in (ROOT / package).rglob("*.py")}
        assert all((folder / "__init__.py").exists() for folder in folders), "a folder without __init__.py is left out of the distribution"


def test_python_is_new_enough():
    assert PROJECT["project"]["requires-python"] == ">=3.11" and sys.version_info >= (3, 11)


def test_continuous_integration_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text and "make test" in text
    subprocess.run(["bash", "-n", script], check=True)
