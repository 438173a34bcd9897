"""The searcher, driven by hand as Ray Tune drives it: every outcome reaches the study."""

import math

import optuna
import pytest
from optuna.trial import TrialState

from engine import study as studies
from engine.configuration import Configuration, recorded_configuration
from engine.losses import Loss
from engine.outcome import FAILURE, FINAL, RMSE, RUNG
from engine.searcher import CACHED_IN_A_ROW, GIVE_UP, Progress, StudySearcher
from engine.study import create_study, open_study, study_space
from engine.trial_record import recorded_outcome
from engine.trials import best_candidates, trial_rows
from ray.tune.search import Searcher
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

FIRST = (Configuration(scheme="min_sep_ra", bandwidth=100, r=0.03), Configuration(scheme="cyclic_ra", bandwidth=32, r=0.25))


def make_study(space, *, seed=1, first=FIRST, storage=None) -> optuna.Study:
    return create_study(
        storage=storage or optuna.storages.InMemoryStorage(), name="run", space=space, seed=seed, rungs=(10, 40), first=first,
    )


def make_searcher(study, *, trials=20, workers=2, **options) -> StudySearcher:
    return StudySearcher(study=study, space=study_space(study), trials=trials, workers=workers, **options)


def report(rmse, *, final=True, rung=0) -> dict[str, object]:
    return {RMSE: rmse, "sigma": 2 * rmse, "resolved": True, "samples": 10, RUNG: rung, FINAL: final}


def run_alone(searcher: StudySearcher, objective) -> list[dict[str, object]]:
    """All suggestions of a search with one trial at a time."""
    suggested = []
    while (config := searcher.suggest(f"t{len(suggested)}")) != Searcher.FINISHED:
        searcher.on_trial_complete(f"t{len(suggested)}", report(objective(config)))
        suggested.append({name: config[name] for name in ("scheme", "bandwidth", "r")})
    return suggested


def distance(config) -> float:
    return 1.0 + math.log2(config["bandwidth"] / 64) ** 2 / 100


def test_the_enqueued_configurations_come_first_exactly(space):
    study = make_study(space)
    searcher = make_searcher(study)
    for number, wanted in enumerate(FIRST):
        config = searcher.suggest(f"t{number}")
        assert (config["scheme"], config["bandwidth"], config["r"]) == (wanted.scheme, wanted.bandwidth, wanted.r)
        assert recorded_configuration(study.get_trials()[number]) == wanted


def test_no_more_trials_at_once_than_workers_and_no_more_in_all_than_asked_for(space):
    searcher = make_searcher(make_study(space), trials=3, workers=2)
    assert searcher.suggest("a") and searcher.suggest("b")
    assert searcher.suggest("c") is None
    searcher.on_trial_complete("a", report(1.0))
    assert searcher.suggest("c")
    # The last one may yet be lost, so the search is not over while it runs.
    searcher.on_trial_complete("b", report(1.0))
    assert searcher.suggest("d") is None
    searcher.on_trial_complete("c", report(1.0))
    assert searcher.suggest("d") == Searcher.FINISHED


def test_outcomes_complete_pruned_and_failed(space):
    study = make_study(space)
    searcher = make_searcher(study, workers=4)
    for name in "abc":
        searcher.suggest(name)
    searcher.on_trial_result("a", report(1.2, final=False, rung=0))
    searcher.on_trial_complete("a", report(1.1, rung=1))
    searcher.on_trial_complete("b", report(0.5, final=False, rung=0))
    searcher.on_trial_complete("c", {FAILURE: "nan: the objective returned rmse=nan", RUNG: 0})
    complete, pruned, failed = study.get_trials()
    assert (complete.state, complete.value, complete.intermediate_values) == (TrialState.COMPLETE, 1.1, {0: 1.2})
    assert complete.user_attrs["sigma"] == 2.2
    assert (pruned.state, pruned.value) == (TrialState.PRUNED, 0.5)
    assert (failed.state, failed.user_attrs["reason"][:3]) == (TrialState.FAIL, "nan")
    # The better one was stopped early, so it is not a result.
    assert [candidate.number for candidate in best_candidates(study, count=5)] == [0]


@pytest.mark.parametrize("what", [studies.WORKER, studies.NODE])
def test_a_loss_costs_no_trial_and_a_node_more_retries_than_a_worker(space, what):
    study = make_study(space, first=FIRST[:1])
    searcher = make_searcher(study, trials=1, workers=1)
    attempts = 1 + studies.RETRIES[what]
    for attempt in range(attempts):
        config = searcher.suggest(f"t{attempt}")
        assert config["bandwidth"] == 100
        searcher.on_trial_complete(f"t{attempt}", None, error=True)
        searcher.on_worker_lost(f"t{attempt}", Loss(what=what, reason="oom: killed", peak_memory_bytes=7))
    assert searcher.suggest("last") == Searcher.FINISHED
    trials = study.get_trials()
    assert [trial.state.name for trial in trials] == ["FAIL"] * attempts
    assert [trial.user_attrs.get("retry_of") for trial in trials] == [None, *range(attempts - 1)]
    assert [studies.counts_as_trial(trial) for trial in trials] == [False] * (attempts - 1) + [True]
    assert {row["peak_memory_bytes"] for row in trial_rows(study)} == {7} and attempts == {studies.WORKER: 2, studies.NODE: 6}[what]


def test_duplicates_are_answered_from_the_study_without_a_worker(problem):
    space = SearchSpace.for_problem(problem, schemes=["cyclic_ra"], bandwidths=[32, 64])
    study = make_study(space, first=())
    searcher = make_searcher(study, trials=50, workers=1)
    suggested = run_alone(searcher, distance)
    assert sorted(config["bandwidth"] for config in suggested) == [32, 64]
    cached = [trial for trial in study.get_trials() if "cached" in trial.user_attrs]
    assert CACHED_IN_A_ROW <= len(cached) == len(study.get_trials()) - 2
    for trial in cached:
        original = study.get_trials()[trial.user_attrs["cached"]]
        assert recorded_configuration(trial) == recorded_configuration(original)
        assert (trial.state, trial.value) == (original.state, original.value)
        assert recorded_outcome(trial) == recorded_outcome(original)


@pytest.mark.parametrize("end", [report(0.5, final=False), {FAILURE: "infinite: the objective returned rmse=inf", RUNG: 0}])
def test_a_duplicate_ends_as_the_first_one_did(problem, end):
    space = SearchSpace.for_problem(problem, schemes=["cyclic_ra"], bandwidths=[32])
    study = make_study(space, first=())
    searcher = make_searcher(study, workers=1)
    searcher.suggest("a")
    searcher.on_trial_complete("a", end)
    assert searcher.suggest("b") == Searcher.FINISHED
    first, *others = study.get_trials()
    assert {(trial.state, trial.value) for trial in others} == {(first.state, first.value)}


def test_one_worker_and_one_seed_give_one_sequence(space):
    first = run_alone(make_searcher(make_study(space), workers=1), distance)
    assert first == run_alone(make_searcher(make_study(space), workers=1), distance)
    assert first != run_alone(make_searcher(make_study(space, seed=2), workers=1), distance)
    assert len(first) == 20


def test_the_search_gets_better_than_its_beginning(space):
    suggested = run_alone(make_searcher(make_study(space, first=FIRST[:1]), trials=40, workers=1), distance)
    late = sum(distance(config) for config in suggested[-15:]) / 15
    assert late < sum(distance(config) for config in suggested[:12]) / 12


def test_a_resumed_search_counts_and_knows_what_was_done(tmp_path, space):
    storage = optuna.storages.InMemoryStorage()
    searcher = make_searcher(make_study(space, storage=storage), trials=5, workers=2)
    searcher.suggest("a")
    searcher.on_trial_complete("a", report(1.0))
    searcher.suggest("killed")
    resumed = make_searcher(open_study(storage=storage, space=space), trials=5, workers=1)
    suggested = run_alone(resumed, distance)
    assert len(suggested) == 4
    assert {"scheme": "cyclic_ra", "bandwidth": 32, "r": 0.25} in suggested
    assert all((config["bandwidth"], config["r"]) != (100, 0.03) for config in suggested)


def test_a_worker_is_told_when_to_give_up(space):
    searcher = make_searcher(make_study(space))
    assert searcher.suggest("a")["give_up_above"] == math.inf
    searcher.on_trial_complete("a", report(2.0))
    assert searcher.suggest("b")["give_up_above"] == GIVE_UP * 2.0


def test_progress_is_told_after_every_trial(space):
    told: list[Progress] = []
    searcher = make_searcher(make_study(space), trials=2, on_progress=told.append)
    for name in "ab":
        searcher.suggest(name)
    searcher.on_trial_complete("a", {FAILURE: "nan: …", RUNG: 0})
    searcher.on_trial_complete("b", report(1.5))
    assert told == [
        Progress(done=1, total=2, best_rmse=None, best=None),
        Progress(done=2, total=2, best_rmse=1.5, best="cyclic_ra b=32 r=0.25"),
    ]


def test_tune_may_save_and_restore_it_without_effect(tmp_path, space):
    searcher = make_searcher(make_study(space))
    searcher.save_to_dir(str(tmp_path))
    assert not list(tmp_path.iterdir())
    searcher.restore(str(tmp_path / "none"))
    assert searcher.suggest("a")["bandwidth"] == 100
