"""The study: opening, refusing, resuming, and every way a trial can end."""

import dataclasses
import json

import optuna
import pytest
from optuna.trial import TrialState

from engine import study as studies
from engine.configuration import Configuration, suggest
from engine.storage import open_storage
from engine.study import create_study, load_study, open_study, study_space
from engine.trial_record import write_configuration
from engine.trials import COLUMNS
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace
from tests.engine.objectives import smooth

FIRST = (Configuration(scheme="min_sep_ra", bandwidth=100, r=0.03), Configuration(scheme="cyclic_ra", bandwidth=32, r=0.25))


@pytest.fixture
def storage(tmp_path):
    return open_storage(tmp_path / "study.db")


@pytest.fixture
def study(storage, space):
    return create_study(storage=storage, name="run", space=space, seed=1, rungs=(10, 40), first=FIRST)


def ask(study: optuna.Study) -> tuple[optuna.Trial, Configuration]:
    trial = study.ask()
    return trial, suggest(trial, study_space(study))


def states(study: optuna.Study) -> list[str]:
    return [trial.state.name for trial in study.get_trials(deepcopy=False)]


def test_the_study_says_what_it_searched(study, space):
    attributes = study.user_attrs
    assert attributes["problem"] == dataclasses.asdict(space.problem)
    assert attributes["fingerprint"] == space.fingerprint()
    assert attributes["seed"] == 1 and attributes["rungs"] == [10, 40]
    assert attributes["versions"]["optuna"] == optuna.__version__
    assert study.metric_names == ["RMSE"]


def test_every_column_has_a_unit_and_is_one_number_or_word(study):
    trial, configuration = ask(study)
    write_configuration(trial, configuration)
    studies.complete(study, trial, dataclasses.asdict(smooth(None, **dataclasses.asdict(configuration), samples=10, seed=0)))
    kept = study.get_trials()[0]
    assert {"scheme", "bandwidth", "r", "sigma", "rmse_standard_error", "samples", "seconds", "device"} < kept.user_attrs.keys()
    assert all(isinstance(value, (str, int, float)) for value in kept.user_attrs.values())
    units = study.user_attrs["units"]
    # The two that say so themselves, and the RMSE, which is the value.
    assert set(COLUMNS) | kept.user_attrs.keys() == set(units) - {"value", "resolved", "requeued"} | {"number", "state", "rmse"}
    # What a dashboard shows of an attribute.
    assert len(json.dumps(units)) <= 1024


def test_a_study_of_another_version_is_refused(study, storage):
    study.set_user_attr("format", 1)
    with pytest.raises(InputError, match="format 2, not 1"):
        load_study(storage=storage)


def test_a_name_is_taken_only_once(study, storage, space):
    with pytest.raises(InputError, match="new in this storage"):
        create_study(storage=storage, name="run", space=space, seed=1, rungs=(10,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(epsilon=2), "epsilon: 2.0 here, 4.0 there"),
        (dict(iterations=512), "iterations: 512 here, 1024 there"),
        (dict(schemes=["min_sep_ra", "nested_ra", "cyclic_ra", "poisson"]), "poisson bandwidths"),
        (dict(bandwidths=[32, 64]), "min_sep_ra bandwidths"),
    ],
)
def test_another_problem_or_space_is_refused_with_the_differences(study, storage, change, said):
    problem = dict(iterations=1024, participations=4, epsilon=4, delta=1e-5)
    space = dict(schemes=["min_sep_ra", "nested_ra", "cyclic_ra"])
    for name, value in change.items():
        (problem if name in problem else space)[name] = value
    other = SearchSpace.for_problem(Problem(**problem), **space)
    with pytest.raises(InputError, match="same search as before") as caught:
        open_study(storage=storage, name="run", space=other)
    assert said in str(caught.value) and "--warm-start" in str(caught.value)


def test_the_other_direction_is_refused(storage, space):
    maximised = optuna.create_study(storage=storage, study_name="max", direction="maximize")
    attributes = {"problem": {}, "space": space.to_dict(), "fingerprint": space.fingerprint(), "seed": 0, "rungs": [1], "format": 2}
    for name, value in attributes.items():
        maximised.set_user_attr(name, value)
    with pytest.raises(InputError, match="maximize there"):
        open_study(storage=storage, name="max", space=space)


def test_a_study_of_someone_else_is_refused(storage):
    optuna.create_study(storage=storage, study_name="theirs")
    with pytest.raises(InputError, match="bandsmith wrote"):
        open_study(storage=storage)


def test_the_only_study_needs_no_name_and_one_of_two_does(study, storage):
    assert open_study(storage=storage).study_name == "run"
    optuna.create_study(storage=storage, study_name="second")
    with pytest.raises(InputError, match="exactly one study"):
        open_study(storage=storage)
    with pytest.raises(InputError, match="'third'"):
        open_study(storage=storage, name="third")


def test_interrupted_trials_fail_and_are_tried_again_a_few_times(study, storage, space):
    ask(study)
    second = open_study(storage=storage, space=space)
    assert states(second) == ["FAIL", "WAITING", "WAITING"]
    assert second.get_trials()[0].user_attrs["reason"] == "interrupted"
    asked = [ask(second) for _ in range(2)]
    assert [configuration for _, configuration in asked] == [FIRST[1], FIRST[0]]
    assert asked[1][0].user_attrs["retry_of"] == 0

    most = studies.RETRIES[studies.DRIVER]
    for _ in range(most):
        last = open_study(storage=storage, space=space)
        for _ in last.get_trials(states=(TrialState.WAITING,)):
            ask(last)
    last = open_study(storage=storage, space=space)
    again = [trial for trial in last.get_trials() if trial.user_attrs["bandwidth"] == FIRST[0].bandwidth]
    assert [trial.user_attrs["requeued"] for trial in again] == [True] * most + [False]
    assert [trial.user_attrs.get("retry_of") for trial in again] == [None, *(trial.number for trial in again[:-1])]


def test_a_trial_that_was_nothing_yet_is_not_tried_again_and_does_not_count(study, storage, space):
    for _ in FIRST:
        ask(study)
    nothing = study.ask()
    resumed = open_study(storage=storage, space=space)
    lost = resumed.get_trials()[nothing.number]
    assert lost.state is TrialState.FAIL and lost.user_attrs["reason"] == "interrupted"
    assert not studies.counts_as_trial(lost)
    assert nothing.number not in [trial.user_attrs.get("retry_of") for trial in resumed.get_trials()]


def test_a_trial_killed_before_its_first_suggestion_keeps_what_was_enqueued(study, storage, space):
    study.ask()
    again = open_study(storage=storage, space=space)
    configurations = [ask(again)[1] for _ in range(2)]
    assert set(configurations) == set(FIRST)


def test_reading_a_study_changes_nothing(study, storage):
    ask(study)
    load_study(storage=storage)
    assert states(study) == ["RUNNING", "WAITING"]


def test_what_counts_as_a_trial(study):
    for _ in range(2):
        ask(study)
    studies.release_running(study, reason="interrupted")
    assert [studies.counts_as_trial(trial) for trial in study.get_trials()] == [False] * 4
    trial, _ = ask(study)
    studies.fail(study, trial, reason="nan: no number")
    trial, _ = ask(study)
    studies.prune(study, trial, {"rmse": 2.0}, step=0)
    assert [studies.counts_as_trial(trial) for trial in study.get_trials()] == [False, False, True, True]
    trial = study.ask()
    trial.set_user_attr("cached", 3)
    studies.complete(study, trial, {"rmse": 2.0})
    assert not studies.counts_as_trial(study.get_trials()[4])
    assert study.get_trials()[3].value == 2.0 and study.get_trials()[3].state is TrialState.PRUNED


def test_a_resumed_search_does_not_repeat_its_random_suggestions(storage, problem):
    space = SearchSpace.for_problem(problem, schemes=["min_sep_ra"])
    created = create_study(storage=storage, name="r", space=space, seed=1, rungs=(10,), first=())
    before = [ask(created)[1] for _ in range(4)]
    for trial in created.get_trials(states=(TrialState.RUNNING,)):
        studies.complete(created, optuna.trial.Trial(created, trial._trial_id), {"rmse": 1.0})
    resumed = open_study(storage=storage, space=space)
    assert not {c.key for c in before} & {ask(resumed)[1].key for _ in range(4)}
