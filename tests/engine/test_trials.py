"""The table of trials and the best of them."""

import csv

import optuna
import pytest

from engine import study as studies
from engine.configuration import Configuration, configuration_attributes, suggest
from engine.study import create_study
from engine.trial_record import write_configuration
from engine.trials import COLUMNS, best_candidates, best_per_scheme, trial_rows, write_trials

FIRST = tuple(
    Configuration(scheme=scheme, bandwidth=bandwidth, r=0.01)
    for scheme, bandwidth in (("min_sep_ra", 100), ("min_sep_ra", 50), ("nested_ra", 64), ("cyclic_ra", 32), ("min_sep_ra", 25), ("nested_ra", 8))
)
"""Ends: complete 0.9, complete 0.8, pruned 0.1, complete 1.3, failed, still running."""


@pytest.fixture
def study(space):
    study = create_study(storage=optuna.storages.InMemoryStorage(), name="run", space=space, seed=0, rungs=(10,), first=FIRST)
    trials = []
    for _ in FIRST:
        trial = study.ask()
        configuration = suggest(trial, space)
        write_configuration(trial, configuration)
        trials.append(trial)
    for trial, rmse in ((trials[0], 0.9), (trials[1], 0.8), (trials[3], 1.3)):
        studies.complete(study, trial, {"rmse": rmse, "sigma": 0.1 + 0.2, "kind": "estimate", "samples": 10, "seconds": 1.5})
    studies.prune(study, trials[2], {"rmse": 0.1}, step=0)
    studies.fail(study, trials[4], reason='error: ValueError: "quoted", with a comma')
    return study


def test_the_best_are_complete_and_in_order(study):
    assert [(candidate.number, candidate.rmse) for candidate in best_candidates(study, count=9)] == [(1, 0.8), (0, 0.9), (3, 1.3)]
    assert [candidate.configuration for candidate in best_candidates(study, count=2)] == [FIRST[1], FIRST[0]]
    assert best_candidates(study, count=0) == ()


def test_repeated_configurations_count_once(study, space):
    study.enqueue_trial({}, user_attrs=configuration_attributes(FIRST[1]) | {"cached": 1})
    trial = study.ask()
    studies.complete(study, trial, {"rmse": 0.8})
    assert [candidate.number for candidate in best_candidates(study, count=9)] == [1, 0, 3]


def test_the_best_of_every_scheme_that_has_one(study):
    assert {scheme: candidate.number for scheme, candidate in best_per_scheme(study).items()} == {"min_sep_ra": 1, "cyclic_ra": 3}


def test_nothing_complete_means_nothing_best(space):
    study = create_study(storage=optuna.storages.InMemoryStorage(), name="run", space=space, seed=0, rungs=(10,))
    assert best_candidates(study, count=3) == () and best_per_scheme(study) == {}


def test_the_table_has_every_trial_and_full_precision(study, tmp_path):
    write_trials(tmp_path / "trials.csv", study)
    with open(tmp_path / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["state"] for row in rows] == ["COMPLETE", "COMPLETE", "PRUNED", "COMPLETE", "FAIL", "RUNNING"]
    assert [int(row["number"]) for row in rows] == list(range(6))
    assert float(rows[0]["sigma"]) == 0.1 + 0.2 and rows[0]["reason"] == ""
    assert rows[4]["reason"] == 'error: ValueError: "quoted", with a comma' and rows[4]["rmse"] == ""
    assert (rows[2]["scheme"], rows[2]["bandwidth"], rows[2]["r"]) == ("nested_ra", "64", "0.01")
    assert [row["rmse"] for row in trial_rows(study)][:3] == [0.9, 0.8, 0.1]
