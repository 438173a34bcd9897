"""What is read of a run, and what is refused."""

import json
import shutil

import pytest

from engine.report.contents import read_contents
from engine.results import read_strategy
from search_spaces.errors import InputError
from tests.engine.report import runs


def test_a_finished_run(contents, finished):
    document = read_strategy(finished / "strategy.json")
    assert contents.strategy.document == document
    assert contents.strategy.sha256 == json.loads((finished / "strategy.json").read_text())["sha256"]
    assert [row["state"] for row in contents.search.rows] == ["COMPLETE", "PRUNED", "COMPLETE", "COMPLETE", "FAIL", "COMPLETE", "RUNNING"]
    assert {scheme: best.rmse for scheme, best in contents.search.best.items()} == {"min_sep_ra": 1.125, "nested_ra": 1.25, "cyclic_ra": 1.75}
    assert contents.problem == runs.PROBLEM


def test_the_guarantee_is_one_statement_per_direction_and_never_an_estimate(contents):
    guarantee = {one.direction: one for one in contents.strategy.guarantee}
    assert set(guarantee) == {"remove", "add"} and "estimate" not in {one.kind for one in guarantee.values()}
    assert all(one.epsilon <= 2.0 and one.delta <= 1e-2 for one in guarantee.values())


def test_reading_changes_nothing_in_the_study(tmp_path, unfinished):
    folder = shutil.copytree(unfinished, tmp_path / "copy")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    read_contents(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_study_elsewhere(tmp_path, finished):
    folder, elsewhere = tmp_path / finished.name, tmp_path / "elsewhere.db"
    folder.mkdir()
    shutil.copy(finished / "strategy.json", folder)
    shutil.copy(finished / "study.db", elsewhere)
    assert read_contents(folder).search is None
    assert len(read_contents(folder, storage=f"sqlite:///{elsewhere}").search.rows) == len(runs.ENDS)


@pytest.mark.parametrize(("name", "text", "words"), [
    (None, None, "neither|strategy file or a study"), ("strategy.json", "{}", "strategy.json"), ("strategy.json", "no JSON", "strategy.json"),
    ("study.db", "no database, just text" * 99, "study.db"),
])
def test_a_folder_without_a_run_is_refused(tmp_path, name, text, words):
    if name is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_contents(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="missing"):
        read_contents(tmp_path / "missing")
