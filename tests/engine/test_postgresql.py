"""Studies in a real PostgreSQL server: two sweeps at once, a resumed one, tables made at the same moment, a password that stays secret."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

import ray
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.search import SearchSettings, run_search
from engine.storage import location, open_storage, opened_storage
from engine.study import load_study
from engine.trials import COLUMNS
from search_spaces.errors import InputError
from tests.engine.test_storage import begin, finish_one, open_at_once, values

REPOSITORY = Path(__file__).parents[2]
TRIALS = 8


def files_with(secret: str, *folders: Path) -> list[Path]:
    """The files that hold a secret; those that go away meanwhile are passed over."""
    found = []
    for folder, _, names in (entry for top in folders for entry in os.walk(top)):
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes():
                    found.append(path)
    return found


@pytest.fixture(scope="module")
def swept(postgresql, ray_session, tmp_path_factory):
    """Two sweeps of two processes, begun at the same moment in one empty database, and what could be read of the password meanwhile."""
    folder = tmp_path_factory.mktemp("postgresql")
    database = postgresql.new_database("sweeps")
    address = ray.get_runtime_context().gcs_address
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "BANDSMITH_STORAGE": postgresql.url(database)}
    sweeps, leaks, pickles = [], [], 0
    for name in ("first", "second"):
        with open(folder / f"{name}.out", "wb") as output:
            sweeps.append(subprocess.Popen(
                [sys.executable, "-m", "tests.engine.storage_sweep", str(folder / name), str(TRIALS), address],
                cwd=REPOSITORY, env=environment, stdout=output, stderr=output,
            ))
    try:
        deadline = time.monotonic() + 300
        while any(sweep.poll() is None for sweep in sweeps):
            assert time.monotonic() < deadline
            leaks += files_with(postgresql.password, folder)
            pickles += len(list(folder.glob("*/tmp/tune/tuner.pkl")))
            time.sleep(0.1)
    finally:
        for sweep in sweeps:
            sweep.kill()
            sweep.wait()
    assert [sweep.returncode for sweep in sweeps] == [0, 0], "\n".join(path.read_text() for path in folder.glob("*.out"))
    assert pickles > 0
    leaks += files_with(postgresql.password, folder, Path(ray._private.worker._global_node.get_session_dir_path()))
    return folder, database, leaks


@pytest.mark.slow
def test_two_sweeps_at_once_end_with_exactly_their_trials(swept, postgresql):
    _, database, _ = swept
    with opened_storage(postgresql.url(database), read_only=True) as storage:
        assert sorted(optuna.get_all_study_names(storage)) == ["first", "second"]
        for name in ("first", "second"):
            trials = load_study(storage=storage, name=name).get_trials()
            own = [trial for trial in trials if "cached" not in trial.user_attrs]
            assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED} and len(own) == TRIALS
            assert [trial.number for trial in trials] == list(range(len(trials)))
            assert all(trial.user_attrs.keys() <= set(COLUMNS) for trial in trials)


@pytest.mark.slow
def test_the_password_is_in_no_file_of_the_run_or_of_ray(swept, postgresql):
    folder, database, leaks = swept
    assert leaks == []
    assert (folder / "first.out").read_text() == ""
    kept = run_storage(RunFolder.existing(folder / "first"))
    assert (kept.spec, kept.study, kept.begun) == (postgresql.location(database), "first", True)


@pytest.mark.slow
def test_a_run_is_resumed_where_its_storage_is_and_needs_only_the_password(swept, postgresql, monkeypatch):
    path, database, _ = swept
    moved = path / "renamed"
    (path / "second").rename(moved)
    folder = RunFolder.existing(moved)
    settings = dict(folder=folder, space=None, trials=TRIALS + 2, workers=1, objective="tests.engine.objectives:smooth", resume=True)
    with pytest.raises(InputError, match="PGPASSWORD"), folder.writing():
        run_search(SearchSettings(**settings))
    with pytest.raises(InputError, match="to be that of the run"), folder.writing():
        run_search(SearchSettings(**settings, storage=postgresql.url("postgres")))
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    with folder.writing():
        result = run_search(SearchSettings(**settings))
    assert result.study_name == "second" and result.done == TRIALS + 2
    assert not folder.study.exists() and files_with(postgresql.password, moved) == []


def test_tables_can_be_made_by_several_at_the_same_moment(postgresql):
    for attempt in range(2):
        url = postgresql.url(postgresql.new_database(f"race{attempt}"))
        open_at_once(lambda: open_storage(url))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_wrong_password_is_not_repeated(postgresql, read_only):
    with pytest.raises(InputError, match="password authentication failed .* PGPASSWORD") as caught:
        open_storage(postgresql.url("postgres").replace(postgresql.password, "not-this-one"), read_only=read_only)
    assert "not-this-one" not in str(caught.value)


def test_a_study_opened_for_reading_cannot_be_changed(postgresql, space):
    url = postgresql.url(postgresql.new_database("reading"))
    with opened_storage(url) as storage:
        study = begin(storage, space)
        with opened_storage(url, read_only=True) as reading:
            watched = load_study(storage=reading, name="run")
            finish_one(study)
            assert values(watched) == [0.9]
            with pytest.raises(optuna.exceptions.StorageInternalError) as caught:
                optuna.delete_study(study_name="run", storage=reading)
            assert "read-only transaction" in str(caught.value.__cause__)
            assert values(study) == [0.9]
    assert location(url) == postgresql.location("reading")
