"""The whole job on a small problem: the files it leaves, and that a resumed run ends where an undisturbed one does."""

import csv
import dataclasses
import json

import pytest

from engine.results import read_strategy
from engine.tune import TuneSettings, tune
from engine.verification import verify
from launch.cli import main
from search_spaces.errors import InputError
from tests.engine.conftest import SMALL_PROBLEM as PROBLEM


def settings(path, **changes) -> TuneSettings:
    return TuneSettings(**dict(problem=PROBLEM, schemes=("nested_ra", "cyclic_poisson"), out=path) | changes)


@pytest.fixture
def finished(finished_run):
    return finished_run


def test_the_folder_holds_strategy_trials_study_and_log(finished):
    result, _ = finished
    names = {path.name for path in result.folder.iterdir() if not path.name.startswith(".")}
    assert names == {"strategy.json", "trials.csv", "study.db", "log.txt", "settings.json", "certification", "report"}
    with open(result.folder / "trials.csv") as file:
        assert len(list(csv.DictReader(file))) >= 6


def test_the_winner_is_certified_and_verifies(finished):
    result, _ = finished
    document = read_strategy(result.folder / "strategy.json")
    assert document["rmse"] == pytest.approx(result.certified.mechanism.rmse)
    assert {one["kind"] for one in document["evidence"][:2]} <= {"certified", "bound"}
    assert verify(result.folder / "strategy.json", seed=5).holds
    assert result.to_dict()["search"]["done"] == 6


def test_progress_is_told(finished):
    _, told = finished
    assert any(text.startswith("search") for text, *_ in told) and any(text.startswith("certify") for text, *_ in told)
    assert all(0 <= done <= total for _, done, total in told)


def test_resuming_a_finished_run_gives_the_same_strategy(finished):
    result, _ = finished
    before = read_strategy(result.folder / "strategy.json")
    again = tune(TuneSettings(resume=result.folder, trials=6, workers=2))
    assert again.search.done == 6
    after = read_strategy(again.folder / "strategy.json")
    for name in ("scheme", "bandwidth", "coefficients", "sigma", "rmse", "seeds", "certificate"):
        assert after[name] == before[name]


def test_refusals_name_the_argument_and_write_nothing(tmp_path):
    for changes, named in [
        ({"trials": 0}, "trials=0"), ({"seed": -1}, "seed=-1"), ({"certificate": "none"}, "certificate='none'"), ({"workers": 0}, "workers=0"),
        ({"schemes": ("round_robin",)}, "round_robin"), ({"bandwidths": (3,)}, "3"), ({"resume": tmp_path, "out": tmp_path}, "only one of"),
        ({"problem": None}, "Expected a problem"),
    ]:
        with pytest.raises(InputError, match=named):
            tune(settings(tmp_path / "run", **changes))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_how_many_trials_failed(finished, monkeypatch, capsys):
    result, _ = finished
    failed = dataclasses.replace(result, search=dataclasses.replace(result.search, failed=2))
    monkeypatch.setattr("engine.tune.tune", lambda settings, progress: failed)
    assert main(["tune", "--resume", str(result.folder)]) == 0
    assert "trials.csv (6 trials, 2 failed)" in capsys.readouterr().out
    assert main(["tune", "--resume", str(result.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["search"]["failed"] == 2


def test_a_search_of_which_every_trial_fails_exits_with_their_number(ray_session, tmp_path, capsys):
    code = main([
        "tune", "--iterations", "16", "--participations", "2", "--epsilon", "2", "--delta", "1e-2", "--schemes", "min_sep_ra",
        "--bandwidths", "1", "--objective", "tests.engine.objectives:troubled", "--trials", "1", "--workers", "2",
        "--out", str(tmp_path / "run"),
    ])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]
    assert code == 1 and "None of the 1 trials" in line and "1 failed" in line
    with open(tmp_path / "run" / "trials.csv") as file:
        assert [row["reason"] for row in csv.DictReader(file)] == ["nan: the objective returned rmse=nan"]
