"""`bandsmith report`: what it writes and prints, and what it refuses."""

import pytest

from tests.engine.report import runs


@pytest.fixture
def unfinished(folder):
    return runs.make_unfinished(folder / "unfinished")


def test_an_unfinished_run_is_reported_and_named_so(bandsmith, unfinished):
    outcome = bandsmith("report unfinished")
    assert outcome.code == 0, outcome.err
    assert "report.html" in outcome.out and "no strategy yet" in outcome.out and outcome.err == ""
    assert (unfinished / "report" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_out_and_json(bandsmith, unfinished, folder):
    made = bandsmith("report unfinished --out elsewhere/page --json")
    assert made.code == 0, made.err
    assert made.json["page"] == str(folder / "elsewhere" / "page" / "report.html") and made.json["finished"] is False
    assert [name for name in made.json["figures"] if name.endswith("search_history.png")]
    assert not (unfinished / "report").exists()


@pytest.mark.parametrize(("command", "words"), [
    ("report missing", "missing"), ("report empty", "empty"), ("report", "DIR"), ("report damaged", "strategy.json"),
    ("report empty --storage nowhere", "nowhere"),
])
def test_a_bad_folder_is_bad_input(bandsmith, folder, command, words):
    (folder / "empty").mkdir()
    (folder / "damaged").mkdir()
    (folder / "damaged" / "strategy.json").write_text("{}")
    outcome = bandsmith(command)
    assert outcome.code == 2 and outcome.out == "" and outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1
    assert words in outcome.err and not list((folder / "empty").iterdir())


def test_a_place_that_cannot_be_written_is_a_failure(bandsmith, unfinished, folder):
    (folder / "file").write_text("")
    outcome = bandsmith("report unfinished --out file/page")
    assert outcome.code == 1 and outcome.out == "" and outcome.err.count("\n") == 1
