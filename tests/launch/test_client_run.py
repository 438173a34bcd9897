"""What a search through Ray's client sends to the head, and how its run folder comes home; test_cluster.py has a whole one."""

import pickle
import sqlite3
from pathlib import Path

import pytest

from engine.environment import ray
from engine.run_folder import RunFolder
from engine.tune import TuneSettings
from launch.client_run import _bring_home, _result, _storage, _what_travels
from launch.head import Desk
from launch.results_archive import pack
from search_spaces.errors import BandsmithError, CalibrationError, InputError
from search_spaces.problem import Problem

PROBLEM = Problem(iterations=64, participations=4, epsilon=4.0, delta=1e-3)


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """The folder of a run that has begun."""
    folder = tmp_path / "before"
    folder.mkdir()
    sqlite3.connect(folder / "study.db").close()
    (folder / "log.txt").write_text("first\n")
    return RunFolder(path=folder)


def test_a_new_run_sends_only_where_it_begins(run, tmp_path):
    settings = TuneSettings(problem=PROBLEM, address="ray://h:1", autoscaling=True, py_modules=("m.py",), out=tmp_path / "new")
    sent, there = _what_travels(settings, RunFolder.planned(settings.out))
    assert sent == {} and there == TuneSettings(problem=PROBLEM, out=Path("run/new"))
    sent, there = _what_travels(TuneSettings(problem=PROBLEM, warm_start=run.path), RunFolder.planned(tmp_path / "new"))
    assert list(sent) == [str(there.warm_start)] == ["warm_start/before"] and there.out == Path("run/new")


def test_a_resumed_run_goes_to_the_desk_and_back(run):
    sent, there = _what_travels(TuneSettings(resume=run.path, address="ray://h:1"), run)
    desk = Desk(sent)
    assert there == TuneSettings(resume=Path("run/before")) and (desk.place() / there.resume / "study.db").exists()
    (desk.place() / there.resume / "log.txt").write_text("first\nsecond\n")
    _bring_home(desk.archive(str(there.resume)), run, replace=True)
    assert run.log.read_text() == "first\nsecond\n" and run.study.exists()
    desk.close()
    assert [path.name for path in run.path.parent.iterdir()] == ["before"]
    assert not desk.place().exists() and desk.archive(str(there.resume)) is None


def test_what_the_search_says_is_heard_once():
    desk = Desk({})
    desk.tell("search", 1, 2)
    assert desk.told() == [("search", 1, 2)] and desk.told() == []
    desk.close()


def test_a_folder_is_replaced_only_by_a_whole_one(run):
    archive = pack(run.path)
    with pytest.raises(BandsmithError, match="whole archive"):
        _bring_home(archive[:-1], run, replace=True)
    with pytest.raises(InputError, match="not to exist"):
        _bring_home(archive, run, replace=False)
    assert [path.name for path in run.path.parent.iterdir()] == ["before"] and run.log.read_text() == "first\n"


def test_a_password_stays_at_home(run, tmp_path):
    new = RunFolder.planned(tmp_path / "new")
    assert _storage(new, "postgresql://me:hunter2@db/studies") == "postgresql://me@db/studies"
    assert _storage(run, None) is None and _storage(run, str(run.study)) is None


@pytest.mark.parametrize("storage", ["other.db", "sqlite:///other.db", "journal:new/log"])
def test_a_study_in_a_file_that_the_head_does_not_have_is_refused(bandsmith, folder, storage):
    outcome = bandsmith(f"tune --iterations 64 --participations 4 --epsilon 1 --delta 1e-5 --address ray://127.0.0.1:1 --storage {storage}")
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1 and "no other file is reached" in outcome.err
    assert list(folder.iterdir()) == []


def test_an_existing_folder_is_refused_before_anything_runs(bandsmith, folder):
    (folder / "old").mkdir()
    outcome = bandsmith("tune --iterations 64 --participations 4 --epsilon 1 --delta 1e-5 --address ray://127.0.0.1:1 --out old")
    assert outcome.code == 2 and outcome.out == "" and "old' not to exist" in outcome.err
    assert [path.name for path in folder.rglob("*")] == ["old"]


def test_a_folder_in_use_is_refused(bandsmith, run):
    with run.writing():
        outcome = bandsmith(f"tune --resume {run.path} --address ray://127.0.0.1:1")
    assert outcome.code == 2 and "in use by no other process" in outcome.err


def test_an_error_on_the_head_names_the_folder_here(monkeypatch):
    error = CalibrationError("None of the 3 trials in '/tmp/x/run/a' could be ranked")
    failed = ray.exceptions.RayTaskError("_search", "traceback", pickle.loads(pickle.dumps(error)))
    monkeypatch.setattr(ray, "get", lambda task: (_ for _ in ()).throw(failed))
    with pytest.raises(CalibrationError, match="^None of the 3 trials in '/home/a' could be ranked$"):
        _result(None, there=Path("/tmp/x/run/a"), here=Path("/home/a"))
