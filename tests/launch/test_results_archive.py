"""Results of a cluster as text: what arrives is what was there, or nothing is written."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from launch.results_archive import BEGIN, END, MISSING, pack, unpack
from search_spaces.errors import BandsmithError, InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path) -> Path:
    """A run folder with results, a study that is being written, and what nobody needs at home."""
    folder = tmp_path / "run"
    for name, content in {"strategy.json": b'{"sigma": 1}', "certification/0.bin": bytes(range(256)) * 100, "tmp/x": b"x", ".lock": b""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with sqlite3.connect(folder / "study.db") as database:
        database.execute("CREATE TABLE trials (value REAL)")
        database.execute("INSERT INTO trials VALUES (0.5)")
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_results_arrive_as_they_are(run, tmp_path):
    unpack("Ray has something to say first\n" + pack(run) + "\nand last", tmp_path / "new" / "out")
    out = tmp_path / "new" / "out"
    assert files(out) == {"strategy.json", "certification/0.bin", "study.db"}
    assert (out / "certification/0.bin").read_bytes() == (run / "certification/0.bin").read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_study_that_is_being_written_arrives_without_what_is_not_committed(run, tmp_path):
    writer = sqlite3.connect(run / "study.db")
    writer.execute("INSERT INTO trials VALUES (0.25)")
    unpack(pack(run), tmp_path / "out")
    writer.close()
    reader = sqlite3.connect(tmp_path / "out" / "study.db")
    assert reader.execute("SELECT value FROM trials").fetchall() == [(0.5,)]
    reader.close()


def spoiled(text: str, how: str) -> str:
    lines = text.split("\n")
    at = len(lines) // 2
    if how == "cut":
        return "\n".join(lines[:-1])
    if how == "line lost":
        return "\n".join(lines[:at] + lines[at + 1:])
    if how == "letter changed":
        lines[at] = ("B" if lines[at][7] == "A" else "A").join((lines[at][:7], lines[at][8:]))
        return "\n".join(lines)
    return "" if how == "nothing" else text.replace(lines[0], f"{BEGIN} {'0' * 64}")


@pytest.mark.parametrize("how", ["cut", "line lost", "letter changed", "other checksum", "nothing"])
def test_what_is_not_whole_is_refused_and_nothing_is_written(run, tmp_path, how):
    before = set(tmp_path.iterdir())
    with pytest.raises(BandsmithError, match="Expected the (cluster|archive)"):
        unpack(spoiled(pack(run), how), tmp_path / "out")
    assert set(tmp_path.iterdir()) == before


def test_an_existing_folder_is_left_alone(run, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="not to exist"):
        unpack(pack(run), tmp_path / "out")
    assert files(tmp_path / "out") == set() and not list(tmp_path.glob(".out*"))


def test_a_place_that_cannot_be_written_is_named(run):
    with pytest.raises(InputError, match="out='/dev/null/out'"):
        unpack(pack(run), Path("/dev/null/out"))


def test_the_program_prints_the_folder_or_says_that_there_is_none(run, tmp_path):
    def call(folder: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "launch.results_archive", folder]
        return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)})

    assert call("~/run").stdout.endswith(f"\n{END}\n")
    assert call("~/nowhere").returncode == MISSING
