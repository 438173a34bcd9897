"""One trial on a worker, without Ray: rungs, failures, reuse."""

import dataclasses
import math

import pytest

from engine.outcome import FAILURE, FINAL, OUTCOME_FIELDS, PEAK_MEMORY, RESOURCE, RMSE, RUNG, outcome_of
from engine.trainable import PilotTrial, load_objective
from ray.tune.result import DONE
from search_spaces.errors import InputError
from tests.engine.objectives import smooth

RUNGS = (10, 20, 50)


def make_config(problem, *, objective="smooth", scheme="min_sep_ra", bandwidth=64, r=0.03, give_up_above=math.inf) -> dict[str, object]:
    return {
        "scheme": scheme, "bandwidth": bandwidth, "r": r, "problem": dataclasses.asdict(problem), "rungs": list(RUNGS), "seed": 3,
        "reduction_factor": 4, "objective": f"tests.engine.objectives:{objective}", "give_up_above": give_up_above,
    }


def make_trial(problem, **settings) -> PilotTrial:
    # Without Trainable.__init__, which makes a results folder in HOME.
    trial = PilotTrial.__new__(PilotTrial)
    trial.setup(make_config(problem, **settings))
    return trial


def test_each_step_is_the_next_rung(problem):
    trial = make_trial(problem)
    reports = [trial.step() for _ in RUNGS]
    assert [report["samples"] for report in reports] == list(RUNGS)
    assert [report[RUNG] for report in reports] == [0, 1, 2]
    assert [report[RESOURCE] for report in reports] == [1, 4, 16]
    assert [report[DONE] for report in reports] == [report[FINAL] for report in reports] == [False, False, True]
    expected = smooth(problem, scheme="min_sep_ra", bandwidth=64, r=0.03, samples=50, seed=3)
    assert outcome_of(reports[-1]) == dataclasses.asdict(expected) | {PEAK_MEMORY: reports[-1][PEAK_MEMORY]}


def test_a_bound_is_done_at_the_first_rung(problem):
    report = make_trial(problem, scheme="cyclic_ra").step()
    assert report[DONE] and report[FINAL] and report[RUNG] == 0 and report["kind"] == "bound"


@pytest.mark.parametrize(
    ("bandwidth", "reason"),
    [
        (1, "nan: "), (2, "error: ValueError: no such luck at all"), (4, "missing metric: "), (8, "infinite: "),
        (16, "unresolved: "), (32, "oom: "),
    ],
)
def test_a_failure_is_reported_with_its_reason_and_ends_the_trial(problem, bandwidth, reason):
    report = make_trial(problem, objective="troubled", bandwidth=bandwidth).step()
    assert report[FAILURE].startswith(reason) and report[DONE] and RMSE not in report


@pytest.mark.parametrize("value", ["0.9", None, True])
def test_an_objective_that_returns_no_number_fails(problem, monkeypatch, value):
    trial = make_trial(problem)
    monkeypatch.setattr(trial, "_objective", lambda *arguments, **settings: {"rmse": value})
    assert trial.step()[FAILURE].startswith("not a number: ")


def test_an_unresolved_estimate_is_not_reported_until_it_resolves(problem, monkeypatch):
    trial = make_trial(problem)
    outcomes = lambda *arguments, samples, **settings: {"rmse": 1.0, "resolved": samples >= 20, "samples": samples}
    monkeypatch.setattr(trial, "_objective", outcomes)
    report = trial.step()
    assert report[RUNG] == 1 and report["samples"] == 20 and not report[DONE]
    assert trial.step()[FINAL]


def test_an_unresolved_estimate_that_is_far_too_large_ends_the_trial_unranked(problem):
    report = make_trial(problem, objective="troubled", bandwidth=16, give_up_above=0.4).step()
    assert report[DONE] and not report[FINAL] and report[RUNG] == 0
    assert RESOURCE not in report and FAILURE not in report


def test_a_reused_actor_starts_the_next_trial_from_the_first_rung(problem):
    trial = make_trial(problem)
    for _ in RUNGS:
        trial.step()
    assert trial.reset_config(make_config(problem, bandwidth=128))
    report = trial.step()
    assert report["samples"] == RUNGS[0]
    assert report[RMSE] == smooth(problem, scheme="min_sep_ra", bandwidth=128, r=0.03, samples=RUNGS[0], seed=3).rmse


@pytest.mark.parametrize("path", ["", "engine.objective", "no.such.module:f", "engine.objective:nothing", "engine.outcome:RMSE", ":f"])
def test_an_objective_that_cannot_be_found_is_refused(path):
    with pytest.raises(InputError, match="module:function"):
        load_objective(path)


def test_the_fields_of_an_outcome_are_what_a_report_carries():
    assert outcome_of({name: 1 for name in (*OUTCOME_FIELDS, RUNG, "config")}) == {name: 1 for name in OUTCOME_FIELDS}


def test_the_peak_memory_is_that_of_this_trial(problem, monkeypatch):
    trial = make_trial(problem)

    def hungry(*arguments, **settings):
        held = b"1" * 300_000_000
        return {RMSE: float(len(held))}

    monkeypatch.setattr(trial, "_objective", hungry)
    much = trial.step()[PEAK_MEMORY]
    trial.reset_config(make_config(problem))
    assert much - trial.step()[PEAK_MEMORY] > 200_000_000


def test_a_failure_says_how_much_memory_it_had(problem):
    report = make_trial(problem, objective="troubled", bandwidth=32).step()
    assert report[FAILURE].startswith("oom: ") and report[PEAK_MEMORY] > 10_000_000
