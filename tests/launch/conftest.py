"""Runs the command line in this process, in an empty folder."""

import dataclasses
import json
from pathlib import Path

import pytest

from launch.cli import main

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """stdout, which must be one JSON document and nothing else; NaN and Infinity are no JSON."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON output"))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The empty working directory of the command."""
    monkeypatch.chdir(tmp_path)
    # Ray's workers must find the project where it is not installed.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def bandsmith(folder, capsys):
    """`bandsmith("account --scheme poisson …")` → Outcome."""

    def run(command: str) -> Outcome:
        capsys.readouterr()
        code = main(command.split())
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
