"""The search: Ray Tune trials on reused actors, driven by the Optuna study, bad ones stopped early."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping

import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState

import engine.environment  # noqa: F401 (before ray, always)
from engine.configuration import Configuration
from engine.environment import start_ray
from engine.interruption import Interruption
from engine.losses import losses_stay_with_their_trial
from engine.outcome import RESOURCE, RMSE
from engine.probe import probe_objective
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.searcher import Progress, StudySearcher, WorkerLoss
from engine.storage import opened_storage
from engine.study import counts_as_trial, create_study, has_begun, open_study, release_running, study_space
from engine.trainable import OBJECTIVE, PilotTrial
from engine.trials import Candidate, best_candidates, write_trials
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler
from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.space import SearchSpace

TRIALS = 60
"""Trials of a search that nobody gave a number."""

WANTED = "trials"
"""User attribute of the study: how many trials it was last asked to end with."""

CHOSEN = "objective"
"""User attribute of the study: what its trials run."""

ENDED = "ended"
"""User attribute of the study: with how many trials wanted the search came to its own end, so that there is no more to do."""

logger = logging.getLogger("bandsmith")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Everything a search depends on.

    Attributes:
      folder: where the run is written.
      space: what is searched; None only with `resume`, where the study knows.
      trials: finished trials to end with, those of earlier runs of the study included; None means as many as the study was started with, or
        `TRIALS`.
      seed: of the sampler and of the samples; the study's own on `resume`.
      workers: trials at once, one CPU each. With one worker a seed fixes the whole sequence; with more, also the order in which trials end matters.
      rungs: sample budgets of a trial, ascending; the study's own on `resume`.
      reduction_factor: only about one in so many trials goes on from a rung to the next.
      gpus_per_trial: GPUs of one trial; a fraction shares one.
      address: of a Ray cluster, None for a local one.
      storage: of the study (see `engine.storage.KINDS`); None for that of the run if it has begun, else SQLite in the folder.
      study_name: None means the folder's name, and on `resume` the only study in the folder.
      time_budget_seconds: stop after this long; trials in flight are enqueued again for `resume`.
      first: configurations to begin with; None means one known to be good for each scheme.
      objective: `module:function` on the workers' path (see `engine.trainable.OBJECTIVE`); None means that one, and on `resume` the study's own.
      resume: continue the study instead of making one.
    """

    folder: RunFolder
    space: SearchSpace | None
    trials: int | None = None
    seed: int = 0
    workers: int = 2
    rungs: tuple[int, ...] = (1024, 4096, 16384)
    reduction_factor: int = 4
    gpus_per_trial: float = 0.0
    address: str | None = None
    storage: str | None = dataclasses.field(default=None, repr=False)
    study_name: str | None = None
    time_budget_seconds: float | None = None
    first: tuple[Configuration, ...] | None = None
    objective: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.trials is not None:
            checks.integer(trials=self.trials)
        checks.integer(at_least=0, seed=self.seed)
        checks.integer(workers=self.workers)
        checks.integer(at_least=2, reduction_factor=self.reduction_factor)
        if self.time_budget_seconds is not None:
            checks.positive(time_budget_seconds=self.time_budget_seconds)
        budgets = [checks.integer(rungs=samples) for samples in self.rungs]
        if not budgets or budgets != sorted(set(budgets)):
            raise InputError(f"Expected rungs={self.rungs!r} to be ascending sample budgets, at least one.")
        if self.space is None and not self.resume:
            raise InputError("Expected space to be given, unless a study is resumed.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
      study_name: of the Optuna study.
      done: finished trials that count.
      total: trials asked for; more than `done` if the search ran out of time or found nothing new to try.
      failed: those of `done` that failed.
      states: number of trials by Optuna state.
      best: the best candidates by RMSE, best first; empty if no trial was fully evaluated.
      seconds: wall time of this run of the search, Ray's start included.
    """

    study_name: str
    done: int
    total: int
    failed: int
    states: Mapping[str, int]
    best: tuple[Candidate, ...]
    seconds: float


def run_search(settings: SearchSettings, *, on_progress: Callable[[Progress], None] | None = None) -> SearchResult:
    """Runs the search until its budget is spent, and writes the table of trials.

    Call it inside `settings.folder.writing()`. A Ray session that is running already is used and left running.

    Raises:
      InputError: the settings do not fit the study, the folder or the cluster.
      KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM; the study can be resumed and the table of trials is written, as after any error.
    """
    started = time.monotonic()
    with opened_storage(run_storage(settings.folder, given=settings.storage).spec) as storage:
        study = open_or_create(settings, storage)
        space = study_space(study)
        trials = settings.trials or study.user_attrs.get(WANTED, TRIALS)
        study.set_user_attr(WANTED, trials)
        _choose_objective(study, settings.objective)
        searcher = StudySearcher(study=study, space=space, trials=trials, workers=settings.workers, on_progress=on_progress)
        logger.info("Study %s: %d trials wanted, seed %s.", study.study_name, trials, study.user_attrs["seed"])
        if study.user_attrs.get(ENDED) == trials:
            write_trials(settings.folder.trials, study)
        else:
            _search(settings, study, space, searcher)
            if searcher.ended:
                study.set_user_attr(ENDED, trials)
        return _result(study, trials, time.monotonic() - started)


def _search(settings: SearchSettings, study: optuna.Study, space: SearchSpace, searcher: StudySearcher) -> None:
    with start_ray(
        workers=settings.workers, address=settings.address, gpus_per_trial=settings.gpus_per_trial,
        cache_directory=settings.folder.compiled,
    ):
        probe_objective(study.user_attrs[CHOSEN], gpus_per_trial=settings.gpus_per_trial)
        interruption = Interruption()
        with interruption.deferred():
            try:
                with losses_stay_with_their_trial():
                    _tuner(settings, study, space, searcher, interruption).fit()
            finally:
                # Out of time, interrupted or an error: what was in flight is tried again when the search is resumed.
                release_running(study, reason="interrupted")
                write_trials(settings.folder.trials, study)


def _choose_objective(study: optuna.Study, wanted: str | None) -> None:
    before = study.user_attrs.get(CHOSEN)
    objective = wanted or before or OBJECTIVE
    if before is not None and objective != before:
        logger.warning("Trials from here on run %s, earlier ones ran %s: their values may not be comparable.", objective, before)
    study.set_user_attr(CHOSEN, objective)


def open_or_create(settings: SearchSettings, storage: BaseStorage) -> optuna.Study:
    """The study of a search: the existing one on `resume`, else a new one. Raises as `open_study` and `create_study` do."""
    place = run_storage(settings.folder, given=settings.storage)
    name = settings.study_name or place.study_name(storage)
    if settings.resume and (settings.space is None or has_begun(storage=storage, name=name)):
        study = open_study(storage=storage, name=name, space=settings.space, workers=settings.workers)
    else:
        study = create_study(
            storage=storage, name=name, space=settings.space, seed=settings.seed, rungs=settings.rungs, first=settings.first,
            workers=settings.workers, finish=settings.resume,
        )
    # Afterwards, so that a folder never points to a study that another run made.
    place.keep(name)
    return study


def _tuner(settings: SearchSettings, study: optuna.Study, space: SearchSpace, searcher: StudySearcher, interruption: Interruption) -> tune.Tuner:
    rungs = study.user_attrs["rungs"]
    factor = settings.reduction_factor
    fixed = {
        "problem": dataclasses.asdict(space.problem), "rungs": rungs, "seed": study.user_attrs["seed"], "reduction_factor": factor,
        "objective": study.user_attrs[CHOSEN],
    }
    return tune.Tuner(
        tune.with_resources(PilotTrial, {"CPU": 1, "GPU": settings.gpus_per_trial}),
        param_space=fixed,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            # The rungs of the scheduler are powers of its factor, whatever the sample budgets are.
            scheduler=AsyncHyperBandScheduler(
                time_attr=RESOURCE, metric=RMSE, mode="min", grace_period=1, max_t=factor ** len(rungs), reduction_factor=factor,
            ),
            num_samples=-1, reuse_actors=True, time_budget_s=settings.time_budget_seconds,
            trial_name_creator=trial_name, trial_dirname_creator=_trial_directory,
        ),
        run_config=tune.RunConfig(
            name="tune", storage_path=str(settings.folder.temporary), verbose=0, stop=interruption,
            callbacks=[WorkerLoss(searcher, gpus=settings.gpus_per_trial)],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def trial_name(trial: Trial) -> str:
    """Scheme, b and r, and Tune's identifier, which keeps it unique."""
    values = trial.config
    return f"{values['scheme']}-b{values['bandwidth']}-r{values['r']:.4f}-{trial.trial_id}"


def _trial_directory(trial: Trial) -> str:
    return trial.trial_id


def _result(study: optuna.Study, total: int, seconds: float) -> SearchResult:
    trials = study.get_trials(deepcopy=False)
    states: dict[str, int] = {}
    for trial in trials:
        states[trial.state.name] = states.get(trial.state.name, 0) + 1
    counted = [trial for trial in trials if counts_as_trial(trial)]
    return SearchResult(
        study_name=study.study_name, done=len(counted), total=total, states=states,
        failed=sum(trial.state is TrialState.FAIL for trial in counted),
        best=best_candidates(study, count=len(trials)), seconds=seconds,
    )
