"""The Optuna study: the only state of a search. Opening, checking, resuming and reading it; every way a trial can end.

User attributes of the study: `format`, `problem`, `space`, `fingerprint`, `units`, `versions`, `seed`, `rungs`. Of a trial: those of
`engine.trial_record`, `reason` (of a FAIL), `cached` (number of the trial it repeats), `retry_of`, `requeued`. There are no constraints:
σ is solved for, and an unresolved trial is a FAIL.
"""

import importlib.metadata
import logging
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from engine.configuration import Configuration, configuration_attributes, first_configurations, parameters, recorded_configuration
from engine.sampler import SchemeSampler
from engine.trial_record import UNITS, write_outcome
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.space import SchemeSpace, SearchSpace

FORMAT = 2
"""How trials are written; a study written differently is refused."""

OBJECTIVE_NAME = "RMSE"
"""What dashboards call the value of a trial."""

RECORDED_PACKAGES = ("jax", "numpy", "optuna", "ray", "dp-accounting", "PLD-accounting")
WORKER, NODE, DRIVER = "worker", "node", "driver"
"""What a trial can be lost with: the process that did its work, the machine it was on, or the process that wanted it done."""

RETRIES: Mapping[str, int] = {WORKER: 1, NODE: 5, DRIVER: 5}
"""How often the same work is done again after each. A worker may have died of the work itself, a machine or a driver hardly ever does."""

logger = logging.getLogger("bandsmith")


def create_study(
    *, storage: BaseStorage, name: str, space: SearchSpace, seed: int, rungs: Sequence[int], first: Sequence[Configuration] | None = None,
    workers: int = 1, finish: bool = False,
) -> optuna.Study:
    """A new study, with the first configurations enqueued.

    Args:
      storage: see `engine.storage.open_storage`.
      name: unique in the storage.
      space: what is searched.
      seed: of the sampler and of the samples of the trials.
      rungs: sample budgets of a trial, ascending.
      first: configurations to start with, in order; None means `first_configurations`.
      workers: trials that will run at once.
      finish: whether a study of that name may be there already, left half made by a run that was killed (see `has_begun`).

    Raises:
      InputError: the name is taken, or a first configuration is not in the space.
    """
    first = first_configurations(space) if first is None else first
    queue = [(parameters(configuration, space), configuration) for configuration in first]
    try:
        study = optuna.create_study(storage=storage, study_name=name, direction="minimize", load_if_exists=finish)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise InputError(f"Expected study name {name!r} to be new in this storage; resume it or choose another.") from error
    for values, configuration in queue[len(study.get_trials(deepcopy=False)) :]:
        study.enqueue_trial(values, user_attrs=configuration_attributes(configuration))
    name_objective(study)
    described = space.to_dict()
    # The fingerprint comes last: a study that has one is whole.
    for attribute, value in {
        "format": FORMAT, "problem": described["problem"], "space": described, "units": dict(UNITS), "versions": versions(), "seed": seed, "rungs": list(rungs),
        "fingerprint": space.fingerprint(),
    }.items():
        study.set_user_attr(attribute, value)
    return _with_sampler(study, seed, workers)


def has_begun(*, storage: BaseStorage, name: str) -> bool:
    """Whether there is a study of this name that is more than the remains of a run killed while it made the study."""
    if name not in optuna.get_all_study_names(storage):
        return False
    study = optuna.load_study(study_name=name, storage=storage)
    waiting = all(trial.state is TrialState.WAITING for trial in study.get_trials(deepcopy=False))
    return "fingerprint" in study.user_attrs or not waiting


def open_study(
    *, storage: BaseStorage, name: str | None = None, space: SearchSpace | None = None, workers: int = 1
) -> optuna.Study:
    """An existing study, checked; trials that a killed search left running are failed and enqueued again, once.

    Args:
      storage: see `engine.storage.open_storage`.
      name: of the study; None means the only one in the storage.
      space: what the caller wants to search; None means whatever the study searches.
      workers: trials that will run at once.

    Raises:
      InputError: there is no such study, it is not one of ours, or it searches something else (the message lists the differences).
    """
    study = load_study(storage=storage, name=name)
    found = [] if study.direction == optuna.study.StudyDirection.MINIMIZE else ["direction: minimize here, maximize there"]
    if space is not None and space.fingerprint() != study.user_attrs["fingerprint"]:
        found += space.differences(study.user_attrs["space"]) or ["fingerprint: changed by hand"]
    if found:
        raise InputError(
            f"Expected study {study.study_name!r} to be the same search as before, but it differs in " + "; ".join(found)
            + ". A new run can begin with the best configurations of this one: --warm-start."
        )
    release_running(study, reason="interrupted")
    return _with_sampler(study, int(study.user_attrs["seed"]), workers)


def load_study(*, storage: BaseStorage, name: str | None = None) -> optuna.Study:
    """A study of ours as it is, for reading; nothing in it is changed. Raises as `open_study` does."""
    names = optuna.get_all_study_names(storage)
    if name is None:
        if len(names) != 1:
            raise InputError(f"Expected the storage to hold exactly one study, not {len(names)}; name the one you mean.")
        name = names[0]
    elif name not in names:
        raise InputError(f"Expected study {name!r} to be in the storage.")
    study = optuna.load_study(study_name=name, storage=storage)
    if missing := {"problem", "space", "fingerprint", "seed", "rungs"} - set(study.user_attrs):
        raise InputError(
            f"Expected study {name!r} to be one that bandsmith wrote to its end before it was used; it has no {', '.join(sorted(missing))}."
        )
    if (written := study.user_attrs.get("format")) != FORMAT:
        raise InputError(f"Expected study {name!r} to have format {FORMAT}, not {written}; another version of bandsmith wrote it.")
    return study


def study_space(study: optuna.Study) -> SearchSpace:
    """The space a study of ours searches."""
    described = study.user_attrs["space"]
    return SearchSpace(
        problem=Problem(**described["problem"]),
        schemes=tuple(
            SchemeSpace(scheme=name, bandwidths=_bandwidths_of(values)) for name, values in described["schemes"].items()
        ),
    )


def complete(study: optuna.Study, trial: optuna.Trial, outcome: Mapping[str, object]) -> None:
    """Ends a fully evaluated trial: COMPLETE with its RMSE."""
    write_outcome(trial, outcome)
    study.tell(trial, outcome["rmse"])


def prune(study: optuna.Study, trial: optuna.Trial, outcome: Mapping[str, object], *, step: int) -> None:
    """Ends a trial the scheduler stopped early: PRUNED with its last RMSE."""
    write_outcome(trial, outcome)
    trial.report(outcome["rmse"], step)
    study.tell(trial, state=TrialState.PRUNED)


def fail(study: optuna.Study, trial: optuna.Trial, *, reason: str) -> None:
    """Ends a trial without a usable result: FAIL with the reason."""
    logger.warning("Trial %d failed: %s", trial.number, reason)
    trial.set_user_attr("reason", reason)
    study.tell(trial, state=TrialState.FAIL)


def fail_and_requeue(study: optuna.Study, trial: FrozenTrial, *, reason: str, lost: str) -> bool:
    """Ends a trial that was lost: FAIL with the reason, and the same parameters again, unless that was done as often as `RETRIES` allows.

    Args:
      study: where it is.
      trial: as it was last read.
      reason: in words.
      lost: what was lost, a word of `RETRIES`.

    Returns:
      Whether it was enqueued again; if so, it does not count towards the number of trials.
    """
    # An enqueued trial that was killed before its first suggestion has no parameters yet, only those it was to get.
    values = trial.system_attrs.get("fixed_params", {}) | trial.params
    losses = [*trial.user_attrs.get("lost", "").split(), lost]
    again = bool(values) and losses.count(lost) <= RETRIES[lost]
    live = optuna.trial.Trial(study, trial._trial_id)
    # A trial that was killed before its first suggestion was nothing yet; a new one takes its place, so it does not count either.
    live.set_user_attr("requeued", again or not values)
    fail(study, live, reason=reason)
    # Enqueued last: a crash in between loses this configuration, where the other order would run it twice.
    if again:
        configuration = recorded_configuration(trial)
        kept = {} if configuration is None else configuration_attributes(configuration)
        study.enqueue_trial(values, user_attrs=kept | {"retry_of": trial.number, "lost": " ".join(losses)})
    return again


def release_running(study: optuna.Study, *, reason: str) -> int:
    """Ends every RUNNING trial by `fail_and_requeue`; returns how many there were."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in running:
        fail_and_requeue(study, trial, reason=reason, lost=DRIVER)
    return len(running)


def counts_as_trial(trial: FrozenTrial) -> bool:
    """Whether a trial counts towards the number of trials asked for: it is finished, has its own result, and is not to be done again."""
    return trial.state.is_finished() and "cached" not in trial.user_attrs and not trial.user_attrs.get("requeued", False)


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    found = {}
    for package in ("bandsmith", *RECORDED_PACKAGES):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def name_objective(study: optuna.Study) -> None:
    """Gives the value of the trials its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([OBJECTIVE_NAME])


def _with_sampler(study: optuna.Study, seed: int, workers: int) -> optuna.Study:
    # Seeded by how far the study is, or a resumed search would repeat its first random suggestions.
    entropy = np.random.SeedSequence([seed, len(study.get_trials(deepcopy=False))]).generate_state(1)
    study.sampler = SchemeSampler(seed=int(entropy[0]), workers=workers)
    return study


def _bandwidths_of(values: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    return tuple(values["list"]) if "list" in values else tuple(range(values["range"][0], values["range"][1] + 1))
