"""The whole job on a small problem: the files it leaves, and that a resumed run ends where an undisturbed one does."""

import csv

import pytest

from engine.results import read_strategy
from engine.tune import TuneSettings, tune
from engine.verification import verify
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
