"""Run folders: one writer at a time, scratch space that goes away, a log that keeps the terminal clean."""

import logging
import shutil

import pytest

from engine import run_folder
from engine.run_folder import RunFolder
from search_spaces.errors import InputError


def test_an_existing_folder_is_not_taken_for_a_new_run(tmp_path):
    with pytest.raises(InputError, match="not to exist"):
        RunFolder.create(tmp_path)


def test_a_missing_folder_cannot_be_resumed(tmp_path):
    with pytest.raises(InputError, match="to exist"):
        RunFolder.existing(tmp_path / "none")


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can write"):
        RunFolder.create(tmp_path / "file" / "run")


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    with folder.writing():
        with pytest.raises(InputError, match="no other process"):
            with RunFolder.existing(folder.path).writing():
                pass
    with folder.writing():
        pass


def test_scratch_space_is_removed_also_what_a_killed_run_left(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.compiled.mkdir(parents=True)
    with folder.writing():
        assert not folder.temporary.exists()
        folder.compiled.mkdir(parents=True)
    assert not folder.temporary.exists()


def test_messages_go_to_the_log_and_not_to_the_terminal(tmp_path, capfd):
    folder = RunFolder.create(tmp_path / "run")
    before = logging.getLogger("ray").handlers[:]
    with folder.writing():
        logging.getLogger("bandsmith").info("one")
        logging.getLogger("optuna.trial").warning("two")
        logging.getLogger("ray.tune").error("three")
    text = folder.log.read_text()
    assert [line.split(": ", 1)[1] for line in text.splitlines()] == ["one", "two", "three"]
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("ray").handlers == before


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**40, 2**40 - 2**20, 2**20))
    with pytest.raises(InputError, match="at least 16 MiB free, not 1.0"):
        RunFolder.create(tmp_path / "some" / "run")
    with pytest.raises(InputError, match="16 MiB"), RunFolder.existing(tmp_path).writing():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_stops_nothing_and_prints_nothing(tmp_path, capfd):
    folder = RunFolder.create(tmp_path / "run")
    with folder.writing():
        (handler,) = logging.getLogger("bandsmith").handlers
        handler.setStream(open("/dev/full", "w")).close()
        logging.getLogger("bandsmith").error("lost")
    assert capfd.readouterr() == ("", "")
