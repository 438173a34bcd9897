"""The command itself: help, exit codes, what it imports, and the installed script."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from launch import cli
from search_spaces.errors import CertificateError, InputError, NumericalError, UnsupportedError

ROOT = Path(cli.__file__).parents[1]
COMMANDS = ("tune", "compare", "account", "calibrate", "certify", "verify", "export", "dashboard")


def test_help_lists_the_commands(bandsmith):
    outcome = bandsmith("--help")
    assert outcome.code == 0 and outcome.err == ""
    assert all(f" {command} " in outcome.out for command in COMMANDS)
    assert bandsmith("").out == outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(bandsmith, command):
    outcome = bandsmith(f"{command} --help")
    assert outcome.code == 0 and outcome.err == ""
    parameters = [p for p in typer.main.get_command(cli.app).commands[command].params if p.name != "help"]
    assert parameters and all(p.help for p in parameters)


def run_python(source: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """A fresh interpreter that finds the project's packages."""
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("command", ["--help", "account --help", "tune --help", "nonsense", "account --sigma x"])
def test_heavy_packages_are_not_imported_before_they_are_needed(command):
    heavy = ("jax", "ray", "optuna", "scipy", "pandas", "matplotlib", "dp_accounting", "PLD_accounting")
    source = f"import sys; from launch.cli import main; main({command.split()!r}); print('HEAVY', *{set(heavy)!r}.intersection(sys.modules))"
    printed = run_python(source, cwd=ROOT).stdout
    assert printed.splitlines()[-1] == "HEAVY"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("Expected sigma=0 to be > 0."), 2),
        (UnsupportedError("Expected\n  one\tline."), 2),
        (NumericalError("lost mass"), 1),
        (CertificateError("the mean of chunk 3 differs"), 1),
        (PermissionError(13, "Permission denied", "runs"), 1),
    ],
)
def test_errors_become_one_line_and_a_code(bandsmith, monkeypatch, error, code):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("launch.inputs.make_strategy", fail)
    outcome = bandsmith("account --scheme poisson --iterations 4 --participations 1 --sigma 1 --epsilon 1")
    assert outcome.code == code
    assert outcome.err == "Error: " + " ".join(str(error).split()).rstrip(".") + ".\n"
    assert outcome.out == ""


def test_programming_mistakes_keep_their_traceback(bandsmith, monkeypatch):
    monkeypatch.setattr("launch.inputs.make_strategy", lambda: None)
    with pytest.raises(TypeError):
        bandsmith("account --scheme poisson --iterations 4 --participations 1 --sigma 1 --epsilon 1")


def test_our_warnings_are_one_line_and_others_are_dropped(bandsmith, monkeypatch):
    def warn(**_):
        warnings.warn_explicit("left\nout", UserWarning, "file.py", 1, module="accountants.registry")
        warnings.warn_explicit("noise", FutureWarning, "file.py", 1, module="ray.tune")
        raise InputError("Expected x to be y.")

    monkeypatch.setattr("launch.inputs.make_strategy", warn)
    outcome = bandsmith("account --scheme poisson --iterations 4 --participations 1 --sigma 1 --epsilon 1")
    assert outcome.err == "Warning: left out\nError: Expected x to be y.\n"


def test_interrupt_is_quiet(bandsmith, monkeypatch):
    def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("launch.inputs.make_strategy", interrupt)
    outcome = bandsmith("account --scheme poisson --iterations 4 --participations 1 --sigma 1 --epsilon 1")
    assert outcome.code == 130 and "Traceback" not in outcome.err


def test_exit_code_reaches_the_shell(tmp_path):
    words = "account --scheme poisson --iterations 0 --participations 1 --sigma 1 --epsilon 1".split()
    finished = run_python("import sys; from launch.cli import main; sys.exit(main())", *words, cwd=tmp_path)
    assert finished.returncode == 2
    assert finished.stdout == "" and finished.stderr.count("\n") == 1 and "iterations=0" in finished.stderr
