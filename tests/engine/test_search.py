"""Whole searches on Ray: failures stay with their trial, early stops, lost workers, killed drivers, silence."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from engine.configuration import Configuration, first_configurations, parameters
from engine.run_folder import RunFolder
from engine.search import SearchSettings, open_or_create, run_search
from engine.storage import opened_storage
from engine.study import load_study
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace
from tests.engine.sweep import settings as sweep_settings

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run")


def search(folder, objective, *, space=None, progress=None, **settings):
    with folder.writing():
        return run_search(
            SearchSettings(folder=folder, space=space, objective=f"tests.engine.objectives:{objective}", **settings), on_progress=progress,
        )


def trials_of(folder) -> list[optuna.trial.FrozenTrial]:
    with opened_storage(folder.study) as storage:
        return load_study(storage=storage).get_trials()


def at_bandwidths(*bandwidths: int) -> tuple[Configuration, ...]:
    return tuple(Configuration(scheme="min_sep_ra", bandwidth=b, r=0.0 if b == 1 else 0.01) for b in bandwidths)


def test_failures_stay_with_their_trial_and_the_search_goes_on(ray_session, folder, space, capfd):
    told = []
    result = search(
        folder, "troubled", space=space, trials=12, first=at_bandwidths(1, 2, 4, 8, 16, 32, 100), progress=told.append,
    )
    trials = trials_of(folder)
    kinds = [trial.user_attrs["reason"].split(":")[0] for trial in trials[:6]]
    assert kinds == ["nan", "error", "missing metric", "infinite", "unresolved", "oom"]
    assert {trial.state for trial in trials[:6]} == {TrialState.FAIL}
    assert trials[6].user_attrs["bandwidth"] == 100
    assert result.done == 12 and result.states.get("RUNNING", 0) == 0
    assert result.failed == sum(trial.state is TrialState.FAIL and "cached" not in trial.user_attrs for trial in trials) >= 6
    assert result.best and result.best[0].rmse == min(trial.value for trial in trials if trial.state is TrialState.COMPLETE)
    assert [progress.done for progress in told] == list(range(1, 13))
    assert folder.trials.read_text().count("\n") == 1 + len(trials)
    assert "no such luck" in folder.log.read_text()
    assert not folder.temporary.exists()
    assert capfd.readouterr() == ("", "")


def test_bad_trials_are_stopped_early(ray_session, folder, problem):
    space = SearchSpace.for_problem(problem, schemes=["min_sep_ra"])
    result = search(folder, "smooth", space=space, trials=8, workers=1, first=at_bandwidths(64, 128, 4, 3, 2), rungs=(10, 40, 160))
    trials = trials_of(folder)
    assert trials[0].state is TrialState.COMPLETE and trials[0].intermediate_values.keys() == {0, 1}
    assert trials[0].user_attrs["samples"] == 160
    for trial in trials[2:5]:
        assert trial.state is TrialState.PRUNED and trial.user_attrs["samples"] == 10
        assert trial.value == trial.intermediate_values[0]
    assert all(trials[candidate.number].state is TrialState.COMPLETE for candidate in result.best)


def test_a_trial_that_kills_its_worker_is_retried_once_and_given_up(ray_session, folder, problem, capfd):
    space = SearchSpace.for_problem(problem, schemes=["min_sep_ra"], bandwidths=[1, 50, 100])
    result = search(folder, "lethal", space=space, trials=4, workers=2, first=at_bandwidths(1, 100, 50))
    lost = [trial for trial in trials_of(folder) if trial.user_attrs.get("reason", "").startswith("worker died")]
    assert [trial.user_attrs["bandwidth"] for trial in lost] == [1, 1]
    assert lost[1].user_attrs["retry_of"] == lost[0].number
    assert result.done == 4 and result.states["FAIL"] == 2
    assert result.best
    assert capfd.readouterr().out == ""


def test_a_search_out_of_time_is_resumed_and_knows_its_space(ray_session, folder, space):
    short = search(folder, "slow", space=space, trials=400, time_budget_seconds=4)
    assert short.done < 400 and "RUNNING" not in short.states
    resumed = search(folder, "smooth", trials=short.done + 5, resume=True)
    assert resumed.done == short.done + 5 and "RUNNING" not in resumed.states


def begin(folder, space, **settings) -> str:
    """Makes or opens the study of a search and returns its name."""
    with folder.writing(), opened_storage(folder.study) as storage:
        return open_or_create(SearchSettings(folder=folder, space=space, trials=1, **settings), storage).study_name


def test_resuming_with_another_space_is_refused_before_anything_runs(folder, space, problem):
    begin(folder, space)
    other = SearchSpace.for_problem(problem, schemes=["min_sep_ra"])
    with pytest.raises(InputError, match="nested_ra bandwidths: absent here"):
        search(folder, "smooth", space=other, trials=1, resume=True)
    assert not folder.trials.exists()


def test_a_folder_may_be_renamed_between_runs(folder, space):
    assert begin(folder, space) == "run"
    folder.path.rename(folder.path.with_name("renamed"))
    renamed = RunFolder.existing(folder.path.with_name("renamed"))
    assert begin(renamed, space, resume=True) == begin(renamed, None, resume=True) == "run"


@pytest.mark.parametrize("remains", ["nothing", "empty study", "half its first configurations"])
def test_a_run_killed_while_it_made_its_study_begins_on_resume(folder, space, remains):
    if remains != "nothing":
        with opened_storage(folder.study) as storage:
            study = optuna.create_study(storage=storage, study_name="run")
            if remains != "empty study":
                study.enqueue_trial(parameters(first_configurations(space)[0], space))
    with pytest.raises(InputError, match="'run'"):
        begin(folder, None, resume=True)
    assert begin(folder, space, resume=True) == "run"
    assert [trial.state for trial in trials_of(folder)] == [TrialState.WAITING] * len(space.schemes)
    with pytest.raises(InputError, match="new in this storage"):
        begin(folder, space)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(trials=0), "trials=0"), (dict(workers=0), "workers=0"), (dict(seed=-1), "seed=-1"), (dict(rungs=()), "rungs="),
        (dict(rungs=(10, 10)), "rungs="), (dict(rungs=(0,)), "rungs=0"), (dict(reduction_factor=1), "reduction_factor=1"),
        (dict(time_budget_seconds=0), "time_budget_seconds=0"), (dict(space=None), "space"),
    ],
)
def test_bad_settings_are_named(folder, space, settings, said):
    with pytest.raises(InputError, match=said):
        SearchSettings(**dict(folder=folder, space=space) | settings)


def signal_when(folder: Path, finished: int, log: Path, sent: signal.Signals) -> int:
    """Starts a search of 40 trials, sends its driver a signal once so many trials have finished, and returns its exit status."""
    with open(log, "wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.sweep", str(folder), "40", "tests.engine.objectives:slow"],
            cwd=REPOSITORY, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdout=output, start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 100
        while count_finished(folder) < finished:
            assert driver.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        driver.send_signal(sent)
        return driver.wait(timeout=60)
    finally:
        driver.kill()


def count_finished(folder: Path) -> int:
    """By a query that creates nothing: a second `open_storage` would make the tables under the driver's hands."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{folder}/study.db?mode=ro", uri=True)) as database:
            (count,) = database.execute("SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED', 'FAIL')").fetchone()
    except sqlite3.OperationalError:
        return -1
    return count


@pytest.mark.parametrize("finished", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 13, 36))])
def test_a_killed_search_is_resumed_to_exactly_the_trials_asked_for(ray_session, tmp_path, finished):
    assert signal_when(tmp_path / "run", finished, tmp_path / "stdout", signal.SIGKILL) == -signal.SIGKILL
    assert (tmp_path / "stdout").read_bytes() == b""
    folder = RunFolder.existing(tmp_path / "run")
    with folder.writing():
        result = run_search(sweep_settings(folder, trials=40, objective="tests.engine.objectives:smooth", resume=True))
    trials = trials_of(folder)
    interrupted = [trial for trial in trials if trial.user_attrs.get("reason") == "interrupted"]
    retried = [trial.user_attrs["retry_of"] for trial in trials if "retry_of" in trial.user_attrs]
    assert result.done == 40
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}
    assert sum(trial.state is not TrialState.FAIL and "cached" not in trial.user_attrs for trial in trials) == 40
    # One that was killed between being made and its first suggestion has nothing to be tried again.
    begun = [trial.number for trial in interrupted if trial.params or "fixed_params" in trial.system_attrs]
    assert len(interrupted) <= 2 and sorted(retried) == begun
    assert [trial.number for trial in trials] == list(range(len(trials)))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_leaves_a_table_and_a_study_to_resume(tmp_path, sent):
    status = signal_when(tmp_path / "run", 5, tmp_path / "stdout", sent)
    assert status == {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: 128 + signal.SIGTERM}[sent]
    folder = RunFolder.existing(tmp_path / "run")
    trials = trials_of(folder)
    assert TrialState.RUNNING not in {trial.state for trial in trials}
    retried = [trial for trial in trials if trial.state is TrialState.WAITING and "retry_of" in trial.user_attrs]
    assert len(retried) == sum(trial.user_attrs.get("reason") == "interrupted" for trial in trials)
    assert folder.trials.read_text().count("\n") == 1 + len(trials)
    assert {path.name for path in folder.path.iterdir()} == {".lock", "log.txt", "study.db", "trials.csv"}
    assert (tmp_path / "stdout").read_bytes() == b""
