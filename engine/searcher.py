"""Ray Tune's side of the search: a searcher whose only state is the Optuna study.

Tune asks it for configurations and tells it how trials went; every outcome is written to the study at once, so that a search killed at
any moment continues from there. What is kept in memory besides only links Tune's running trials to Optuna's.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine import study as studies
from engine.configuration import Configuration, recorded_configuration, suggest
from engine.losses import Loss, loss_of
from engine.outcome import FAILURE, FINAL, PEAK_MEMORY, RMSE, RUNG, outcome_of
from engine.resources import ResourceWatch
from engine.trial_record import recorded_outcome, write_configuration
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from search_spaces.space import SearchSpace

CACHED_IN_A_ROW = 50
"""So many duplicates in a row mean that the space holds nothing new."""

GIVE_UP = 1.25
"""An unresolved trial ends early once its RMSE, which errs towards too small, is so many times the best."""

logger = logging.getLogger("bandsmith")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a search is.

    Attributes:
      done: finished trials that count.
      total: trials asked for.
      best_rmse: smallest RMSE of a COMPLETE trial, None before the first.
      best: its configuration in words.
      best_kind: `estimate` or `bound`, what its σ rests on; None where the objective does not say.
      waits: what the search waits for, where it cannot go on.
    """

    done: int
    total: int
    best_rmse: float | None
    best: str | None
    best_kind: str | None = None
    waits: str | None = None


class StudySearcher(Searcher):
    """Asks and tells an Optuna study.

    Args:
      study: opened by `engine.study`.
      space: what it searches.
      trials: finished trials to end with, those already in the study included.
      workers: most trials at once.
      on_progress: called after every finished trial, and while the search waits for a node.

    Attributes:
      ended: whether the search came to its own end: enough trials, or nothing new to try.
    """

    def __init__(
        self, *, study: optuna.Study, space: SearchSpace, trials: int, workers: int, on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        super().__init__(metric=RMSE, mode="min")
        self._study, self._space, self._trials, self._workers = study, space, trials, workers
        self._on_progress = on_progress
        self._running: dict[str, tuple[optuna.Trial, Configuration]] = {}
        self._known: dict[tuple, FrozenTrial] = {}
        self._done = 0
        self._best: FrozenTrial | None = None
        self.ended = False
        for trial in study.get_trials(deepcopy=False):
            self._remember(trial)

    def suggest(self, trial_id: str) -> dict[str, object] | str | None:
        """The next configuration; None while all workers are busy, FINISHED when no more are needed."""
        if len(self._running) >= self._workers:
            return None
        for _ in range(CACHED_IN_A_ROW):
            if self._done + len(self._running) >= self._trials:
                return self._end()
            trial = self._study.ask()
            configuration = suggest(trial, self._space)
            write_configuration(trial, configuration)
            known = self._known.get(configuration.key)
            if known is None:
                self._running[trial_id] = trial, configuration
                return dataclasses.asdict(configuration) | {"give_up_above": math.inf if self._best is None else GIVE_UP * self._best.value}
            self._answer_from_cache(trial, known)
        logger.info("The last %d suggestions were all known already; the search ends here.", CACHED_IN_A_ROW)
        return self._end()

    def on_trial_result(self, trial_id: str, result: Mapping[str, object]) -> None:
        """A rung was passed and the trial goes on."""
        trial, _ = self._running[trial_id]
        trial.report(result[RMSE], result[RUNG])

    def on_trial_complete(self, trial_id: str, result: Mapping[str, object] | None = None, error: bool = False) -> None:
        """A trial ended: COMPLETE only if it was fully evaluated, PRUNED if it was stopped early, else FAIL."""
        if error or trial_id not in self._running:
            # `WorkerLoss` follows with the exception.
            return
        trial, _ = self._running.pop(trial_id)
        if result is None:
            studies.fail_and_requeue(self._study, self._frozen(trial), reason="stopped before its first result", lost=studies.DRIVER)
        elif FAILURE in result:
            _keep_memory(trial, result.get(PEAK_MEMORY))
            studies.fail(self._study, trial, reason=str(result[FAILURE]))
        elif result[FINAL]:
            studies.complete(self._study, trial, outcome_of(result))
        else:
            studies.prune(self._study, trial, outcome_of(result), step=result[RUNG])
        self._finished(trial)

    def on_worker_lost(self, trial_id: str, loss: Loss) -> None:
        """A trial's worker or node died; the trial is tried again (see `engine.study.RETRIES`)."""
        if trial_id not in self._running:
            return
        trial, _ = self._running.pop(trial_id)
        _keep_memory(trial, loss.peak_memory_bytes)
        studies.fail_and_requeue(self._study, self._frozen(trial), reason=loss.reason, lost=loss.what)
        self._finished(trial)

    def tell(self, waits: str | None = None) -> None:
        """Tells how far the search is, and what it waits for."""
        if self._on_progress is not None:
            best = self._best
            self._on_progress(Progress(
                done=self._done, total=self._trials, best_rmse=best and best.value,
                best=best and recorded_configuration(best).label, best_kind=best and recorded_outcome(best).get("kind"), waits=waits,
            ))

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study is already on disk, and a second copy of its state could only disagree with it."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as for `save`; a search is resumed by a new Tune run over the same study."""

    def _end(self) -> str | None:
        # A running trial may yet be lost and enqueued again.
        self.ended = not self._running
        return Searcher.FINISHED if self.ended else None

    def _answer_from_cache(self, trial: optuna.Trial, known: FrozenTrial) -> None:
        trial.set_user_attr("cached", known.number)
        if known.state is TrialState.COMPLETE:
            studies.complete(self._study, trial, recorded_outcome(known))
        elif known.state is TrialState.PRUNED:
            studies.prune(self._study, trial, recorded_outcome(known), step=known.last_step)
        else:
            studies.fail(self._study, trial, reason=known.user_attrs["reason"])

    def _finished(self, trial: optuna.Trial) -> None:
        self._remember(self._frozen(trial))
        self.tell()

    def _remember(self, trial: FrozenTrial) -> None:
        if not studies.counts_as_trial(trial):
            return
        self._done += 1
        if (configuration := recorded_configuration(trial)) is not None:
            self._known.setdefault(configuration.key, trial)
        if trial.state is TrialState.COMPLETE and (self._best is None or trial.value < self._best.value):
            self._best = trial

    def _frozen(self, trial: optuna.Trial) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[trial.number]


class WorkerLoss(Callback):
    """Tells the searcher why a trial was lost, which Tune itself does not, and when there is no node left to run one.

    Args:
      searcher: whose trials they are.
      gpus: of one trial.
    """

    def __init__(self, searcher: StudySearcher, *, gpus: float) -> None:
        self._searcher = searcher
        self._watch = ResourceWatch(gpus=gpus, tell=searcher.tell)

    def on_step_end(self, iteration: int, trials: list, **info: object) -> None:
        """Called several times a second while trials run or wait."""
        self._watch.look()

    def on_trial_error(self, iteration: int, trials: list, trial: Trial, **info: object) -> None:
        """Called after `on_trial_complete(error=True)`."""
        loss = loss_of(_error_of(trial))
        logger.warning("%s was lost: %s", trial, loss.reason)
        self._searcher.on_worker_lost(trial.trial_id, loss)


def _error_of(trial: Trial) -> Exception | None:
    # Tune leaves the exception in a file and nowhere else.
    if trial.pickled_error_file is None:
        return None
    return ray.cloudpickle.loads(Path(trial.pickled_error_file).read_bytes())


def _keep_memory(trial: optuna.Trial, peak: object) -> None:
    if peak is not None:
        trial.set_user_attr(PEAK_MEMORY, peak)
