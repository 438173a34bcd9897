"""The README tells the truth: every command in it runs, every file it names exists, its list of modules is the tree."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launch.cli import app, main
from tests.file_map import README, ROOT, file_map, written_map

TEXT = README.read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]

REDUCED = {"--iterations": "64", "--bandwidth": "8", "--dataset-size": "640", "--batch-size": "40", "--delta": "1e-3", "--trials": "3"}
"""Values that replace the README's where a command has the option: the same commands, at the size of a test."""

ADDED = {
    "tune": ("--trials", "3", "--schemes", "cyclic_poisson,min_sep_ra"),
    "compare": ("--bandwidths", "1,8", "--samples", "512", "--workers", "1"),
}
"""Options that are added where a command does not have them."""

RUN_BY_MAKE = "pip install -c constraints.txt -e ."
"""The one command not run here: the Makefile installs by it before any test can run."""


def reduced(command: str) -> list[str]:
    """The words after `bandsmith`, with reduced values."""
    _, name, *words = shlex.split(command)
    words = [REDUCED.get(previous, word) for previous, word in zip([name, *words], words)]
    added = ("--trials", "4") if "--resume" in words else ADDED.get(name, ())
    if name == "tune" and "fixed_size" in words:
        added = ()
    for option, value in zip(added[::2], added[1::2]):
        if option not in words:
            words += [option, value]
    return [name, *words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One folder for all commands: later ones read what earlier ones wrote."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in COMMANDS if command != RUN_BY_MAKE])
def test_command_runs(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    # Ray's workers must find the project where it is not installed.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if command.startswith("bandsmith "):
        code = main(reduced(command))
        out, err = capsys.readouterr()
        assert code == 0, err
        assert json.loads(out) if "--json" in command else out
    else:
        command = re.sub("^python ", f"{shlex.quote(sys.executable)} ", command)
        subprocess.run(["bash", "-ec", command], check=True, timeout=60)


def test_installation_is_what_make_does():
    assert RUN_BY_MAKE in COMMANDS
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable" in makefile


@pytest.mark.parametrize("target", re.findall(r"^    make (\S+)", TEXT, re.MULTILINE))
def test_make_target_exists(target):
    plan = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert {"tune": "bandsmith tune --iterations 1024 --participations 4 --epsilon 4 --delta 1e-5", "test": "-m pytest"}[target] in plan


def test_every_command_has_a_section():
    sections = re.findall(r"^### (\S+)", TEXT, re.MULTILINE)
    assert sorted(sections) == sorted(command.callback.__name__ for command in app.registered_commands)


def test_file_map_is_the_tree():
    assert written_map() == file_map(), "`make file-map` rewrites the README's list of modules"


def test_top_level_is_complete():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    top = {name.split("/")[0] for name in tracked} - {"README.md", ".gitignore", ".ci"}
    shown = {name.rstrip("/") for name in re.findall(r"^\| `([^`]+)` \|", TEXT.split("## File map")[1], re.MULTILINE)}
    assert top - shown == set()
    assert all((ROOT / name).exists() for name in shown)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:search_spaces|accountants|engine|launch|tests|benchmarks)/[\w/.]*)`", TEXT))))
def test_named_path_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("link", re.findall(r"\]\(#([^)]+)\)", TEXT))
def test_link_has_its_heading(link):
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    assert link in {heading.lower().replace(" ", "-") for heading in headings}
