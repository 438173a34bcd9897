"""Where a study is kept: every kind opens, several at once do no harm, what was cut off is mended, and no message shows a password."""

import pickle
import sys
import threading
import types
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import _file as journal_file
from optuna.trial import TrialState

from engine import storage as storages
from engine import study as studies
from engine.configuration import Configuration, suggest
from engine.storage import has_secret, location, open_storage, opened_storage
from engine.study import create_study, load_study, open_study, study_space
from search_spaces.errors import InputError

FIRST = (Configuration(scheme="min_sep_ra", bandwidth=100, r=0.03), Configuration(scheme="cyclic_ra", bandwidth=32, r=0.25))
SPECS = ("{}/study.db", "journal:{}/study.log", "sqlite:///{}/other.db")


def begin(storage, space) -> optuna.Study:
    return create_study(storage=storage, name="run", space=space, seed=1, rungs=(10,), first=FIRST)


def finish_one(study: optuna.Study) -> None:
    trial = study.ask()
    suggest(trial, study_space(study))
    studies.complete(study, trial, {"rmse": 0.9})


def values(study: optuna.Study) -> list[float]:
    return [trial.value for trial in study.get_trials(states=(TrialState.COMPLETE,))]


@pytest.mark.parametrize("spec", SPECS)
def test_every_storage_keeps_the_study(tmp_path, space, spec):
    spec = spec.format(tmp_path)
    finish_one(begin(open_storage(spec), space))
    for again in (spec, location(spec)):
        study = load_study(storage=open_storage(again), name="run")
        assert values(study) == [0.9] and study_space(study) == space


@pytest.mark.parametrize("spec", SPECS)
def test_a_storage_opened_for_reading_can_be_watched_and_refuses_every_write(tmp_path, space, spec):
    spec = spec.format(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        open_storage(spec, read_only=True)
    assert list(tmp_path.iterdir()) == []
    written = begin(open_storage(spec), space)
    with opened_storage(spec, read_only=True) as storage:
        watched = load_study(storage=storage, name="run")
        finish_one(written)
        assert values(watched) == [0.9]
        delete = lambda: optuna.delete_study(study_name="run", storage=storage)
        for change in (watched.ask, lambda: watched.set_user_attr("x", 1), delete):
            with pytest.raises((PermissionError, optuna.exceptions.StorageInternalError)):
                change()
    assert values(load_study(storage=open_storage(spec))) == [0.9]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("postgresql://user:secret@host:5432/runs?sslmode=require&sslpassword=secret2", "postgresql://user@host:5432/runs?sslmode=require"),
        ("postgres://user:sec%2Fret@host/runs", "postgresql://user@host/runs"),
        ("postgresql://user:sec/ret@host/runs", "postgresql://user@host/runs"),
        ("postgresql+psycopg://host/runs?user=u&password=secret", "postgresql://host/runs?user=u"),
        ("mysql+pymysql://user:secret@host/runs", "mysql+pymysql://user@host/runs"),
    ],
)
def test_a_location_has_no_password(spec, shown):
    assert location(spec) == shown and has_secret(spec)
    assert location(shown) == shown and not has_secret(shown)


def test_a_location_does_not_depend_on_the_folder_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert location("x.db") == location("sqlite:///x.db") == f"sqlite:///{tmp_path}/x.db"
    assert location("journal:runs/x.log") == f"journal:{tmp_path}/runs/x.log"


@pytest.mark.parametrize(
    "spec",
    [
        "somewhere", "journal:", "sqlite://", "sqlite:////no/such/folder/x.db", "journal:/no/such/x.log", "postgresql://user:secret@127.0.0.1:1/db",
        "postgresql://user:se@cret@host/db", "postgresql://user:secret@host:port/db", "nosuchdatabase://user:secret@host/db",
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_sentence_without_the_password(spec):
    with pytest.raises(InputError, match="storage=") as caught:
        open_storage(spec)
    said = str(caught.value)
    assert "secret" not in said and "cret@" not in said and "\n" not in said
    assert caught.value.__cause__ is None


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install 'bandsmith\[postgresql\]'") as caught:
        open_storage("postgresql://user:secret@127.0.0.1/db")
    assert "secret" not in str(caught.value)


def test_a_pickled_storage_has_no_password(tmp_path):
    """Ray Tune writes the search, with its storage, to a file."""
    storage = open_storage(tmp_path / "study.db")
    storage.url = "postgresql+psycopg://user:secret@host/db"
    pickled = pickle.dumps(storage)
    assert b"secret" not in pickled and b"user@host/db" in pickled


def test_a_storage_can_be_made_by_several_at_the_same_moment(tmp_path):
    for attempt in range(3):
        open_at_once(lambda: open_storage(tmp_path / f"{attempt}.db"))


def open_at_once(open_one, *, count: int = 3) -> None:
    """Opens from several threads, each with its own connection, at the same moment; fails if one fails."""
    barrier, failures = threading.Barrier(count), []

    def opened() -> None:
        barrier.wait()
        try:
            storage = open_one()
            storage.remove_session()
            storage.engine.dispose()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=opened) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []


def test_a_journal_whose_last_line_was_cut_off_is_mended_and_goes_on(tmp_path, space):
    path = tmp_path / "study.log"
    finish_one(begin(open_storage(f"journal:{path}"), space))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "worker' + b"x" * 5000)
    with opened_storage(f"journal:{path}", read_only=True) as storage:
        assert values(load_study(storage=storage)) == [0.9]
    with pytest.warns(UserWarning, match=r"last line .* was cut off .* is dropped: '\{\"op_code\": 4, .*\(5022 bytes\)"):
        study = open_study(storage=open_storage(f"journal:{path}"), space=space)
    assert path.read_bytes().startswith(whole)
    finish_one(study)
    assert values(open_study(storage=open_storage(f"journal:{path}"))) == [0.9, 0.9]


def test_a_journal_of_one_cut_off_line_is_empty(tmp_path):
    path = tmp_path / "study.log"
    path.write_bytes(b'{"op')
    with pytest.warns(UserWarning, match="cut off"):
        storage = open_storage(f"journal:{path}")
    assert optuna.get_all_study_names(storage) == [] and path.read_bytes() == b""


@pytest.mark.parametrize("spec", ["journal:{}/study.log", "journal:study.log", "journal:inner/study.log"])
def test_a_lock_left_by_a_killed_process_is_taken_after_the_grace_period(tmp_path, monkeypatch, spec):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    spec = spec.format(tmp_path)
    open_storage(spec)
    path = Path(location(spec).removeprefix("journal:"))
    path.with_name("study.log.lock").symlink_to(path)
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        assert clock[0] < 5 * storages.GRACE_SECONDS

    monkeypatch.setattr(journal_file, "time", types.SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    optuna.create_study(storage=open_storage(spec), study_name="again")
    assert clock[0] > storages.GRACE_SECONDS
    assert not path.with_name("study.log.lock").is_symlink()


def test_a_study_on_a_network_file_system_is_warned_of(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text("disk / ext4 rw 0 0\nhost:/x /home nfs4 rw 0 0\ndisk /home/me/fast xfs rw 0 0\n")
    kinds = {"/tmp/run": "ext4", "/home/me": "nfs4", "/home/me/fast/run": "xfs", "/homestead": "ext4"}
    assert {path: storages.file_system(Path(path), mounts=mounts) for path in kinds} == kinds
    assert storages.file_system(tmp_path, mounts=tmp_path / "none") is None

    monkeypatch.setattr(storages, "file_system", lambda directory: "nfs4")
    for spec in (tmp_path / "study.db", f"journal:{tmp_path}/study.log"):
        with pytest.warns(UserWarning, match="network file system"):
            open_storage(spec)
