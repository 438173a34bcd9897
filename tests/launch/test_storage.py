"""`tune --storage` and `--warm-start`: what is refused, and that no password is ever printed."""

import sys

import pytest

TUNE = "tune --iterations 64 --participations 4 --epsilon 1 --delta 1e-5 --trials 2 --out new"


def test_a_password_on_the_command_line_is_refused(bandsmith, folder):
    outcome = bandsmith(f"{TUNE} --storage postgresql://user:hunter2@127.0.0.1:1/db")
    assert outcome.code == 2 and outcome.out == "" and "hunter2" not in outcome.err
    assert "postgresql://user@127.0.0.1:1/db" in outcome.err and "PGPASSWORD" in outcome.err and "BANDSMITH_STORAGE" in outcome.err


@pytest.mark.parametrize("driver", ["installed", "missing"])
def test_a_storage_that_does_not_open_is_bad_input_before_anything_is_written(bandsmith, folder, monkeypatch, driver):
    monkeypatch.setenv("BANDSMITH_STORAGE", "postgresql://user:hunter2@127.0.0.1:1/db")
    if driver == "missing":
        monkeypatch.setitem(sys.modules, "psycopg", None)
    outcome = bandsmith(TUNE)
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1
    assert "postgresql://user@127.0.0.1:1/db" in outcome.err and "hunter2" not in outcome.err
    assert driver == "installed" or "pip install 'bandsmith[postgresql]'" in outcome.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [("--storage nowhere", "storage='nowhere'"), ("--warm-start none", "'none'"), ("--warm-start .", "with a study")],
)
def test_bad_places_are_named(bandsmith, folder, options, said):
    outcome = bandsmith(f"{TUNE} {options}")
    assert outcome.code == 2 and said in outcome.err and outcome.out == ""
    assert list(folder.iterdir()) == []


def test_a_resumed_run_takes_no_warm_start(bandsmith, folder):
    outcome = bandsmith("tune --resume . --warm-start .")
    assert outcome.code == 2 and "only one of" in outcome.err


def test_a_password_is_not_submitted_to_a_cluster(bandsmith, folder):
    outcome = bandsmith(f"submit -- {TUNE} --storage postgresql://user:hunter2@127.0.0.1:1/db")
    assert outcome.code == 2 and "without its password" in outcome.err and "hunter2" not in outcome.err
