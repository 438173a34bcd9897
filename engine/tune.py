"""The whole job: search, certify the best few, and write the best certified strategy."""

import dataclasses
import os
from pathlib import Path

from engine.certification import CERTIFICATES, CertifiedStrategy, Progress, certify_best, ray_drawer
from engine.configuration import Configuration
from engine.environment import gpu_demand, start_ray
from engine.results import write_strategy
from engine.run_folder import RunFolder
from engine.search import SearchResult, SearchSettings, run_search
from engine.run_storage import run_storage
from engine.storage import opened_storage
from engine.study import load_study, study_space
from engine.warm_start import warm_configurations
from search_spaces import checks
from search_spaces.errors import CalibrationError, InputError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

CERTIFIED_CHOICES = 3
"""How many of the best configurations enter the certificate's list."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """What a run is asked to do.

    Attributes:
      problem: the target; None only with `resume`, where the study knows.
      schemes, bandwidths: restrict the search; None means all.
      trials: finished trials to end with; None means `engine.search.TRIALS`, and on `resume` what the run was started with.
      certificate: a word of `engine.certification.CERTIFICATES`.
      max_samples: the most samples of one certifying test; None means that certificate's default.
      seed: of all random numbers; on `resume` the study's own is used.
      workers: trials and certifying tasks at once; None means one per CPU core.
      gpus_per_trial: GPUs of each.
      out: folder to write, which must not exist; None means runs/ with a time stamp.
      resume: folder of an interrupted run to continue.
      warm_start: folder of an earlier run whose best configurations are tried first.
      storage: see `engine.storage.KINDS`; None means SQLite in the folder, and on `resume` the run's own.
      address: of a Ray cluster; None starts a local one.

    Raises:
      InputError: a value out of range, or two that exclude each other.
    """

    problem: Problem | None = None
    schemes: tuple[str, ...] | None = None
    bandwidths: tuple[int, ...] | None = None
    trials: int | None = None
    certificate: str = "tilted"
    max_samples: int | None = None
    seed: int = 0
    workers: int | None = None
    gpus_per_trial: float = 0.0
    out: Path | None = None
    resume: Path | None = None
    warm_start: Path | None = None
    storage: str | None = dataclasses.field(default=None, repr=False)
    address: str | None = None

    def __post_init__(self) -> None:
        if self.trials is not None:
            checks.integer(trials=self.trials)
        gpu_demand(self.gpus_per_trial)
        checks.integer(at_least=0, seed=self.seed)
        checks.one_of(CERTIFICATES, certificate=self.certificate)
        if self.workers is not None:
            checks.integer(workers=self.workers)
        if self.max_samples is not None:
            checks.integer(max_samples=self.max_samples)
        if self.out is not None and self.resume is not None:
            raise InputError(f"Expected only one of out={str(self.out)!r} and resume={str(self.resume)!r} to be given.")
        if self.warm_start is not None and self.resume is not None:
            raise InputError(f"Expected only one of warm_start={str(self.warm_start)!r} and resume={str(self.resume)!r} to be given.")
        if self.problem is None and self.resume is None:
            raise InputError("Expected a problem to be given, unless a run is resumed.")

    def space(self) -> SearchSpace | None:
        """What is searched; None where the study of a resumed run knows.

        Raises:
          InputError: the schemes or bandwidths do not fit the problem.
        """
        if self.problem is None:
            return None
        return SearchSpace.for_problem(self.problem, schemes=self.schemes, bandwidths=self.bandwidths)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneResult:
    """What a run ended with.

    Attributes:
      folder: where everything is written.
      search: what the search found.
      certified: the best certified strategy.
    """

    folder: Path
    search: SearchResult
    certified: CertifiedStrategy

    def to_dict(self) -> dict[str, object]:
        """The strategy document, the folder and the numbers of trials, as plain JSON values."""
        search = {"done": self.search.done, "total": self.search.total, "states": dict(self.search.states), "seconds": self.search.seconds}
        return self.certified.to_dict() | {"folder": str(self.folder), "search": search}


def tune(settings: TuneSettings, *, progress: Progress | None = None) -> TuneResult:
    """Run the whole job; the folder holds `strategy.json`, `trials.csv`, the study and the log afterwards.

    Args:
      settings: what to do.
      progress: told (text, done, total) where the work stands.

    Raises:
      InputError: the settings do not fit each other, the folder, the study or the cluster.
      CalibrationError: no configuration could be ranked, or no test within the allowed samples certifies the target.
      CertificateError: the certificate cannot be made.
    """
    space = settings.space()
    workers = settings.workers or os.cpu_count() or 1
    folder = RunFolder.existing(settings.resume) if settings.resume else RunFolder.planned(settings.out)
    place = run_storage(folder, given=settings.storage)
    if place.begun or settings.storage is not None:
        # Before anything is written: a storage that does not open is bad input.
        with opened_storage(place.spec):
            pass
    elif space is None:
        raise InputError(f"Expected run folder {str(folder.path)!r} to hold a study to resume; give the problem to start one.")
    first = None if settings.warm_start is None else warm_configurations(RunFolder.existing(settings.warm_start), space)
    with start_ray(
        workers=workers, address=settings.address, gpus_per_trial=settings.gpus_per_trial, cache_directory=folder.compiled,
    ):
        if not settings.resume:
            RunFolder.create(folder.path)
        with folder.writing():
            search = _search(settings, folder, space, first, workers, progress)
            certified = _certify(settings, folder, search, workers, progress)
            write_strategy(folder.strategy, certified.document())
    return TuneResult(folder=folder.path, search=search, certified=certified)


def _certify(
    settings: TuneSettings, folder: RunFolder, search: SearchResult, workers: int, progress: Progress | None,
) -> CertifiedStrategy:
    if not search.best:
        raise CalibrationError(
            f"None of the {search.done} trials in {str(folder.path)!r} could be ranked; see the column reason of its trials.csv."
        )
    with opened_storage(run_storage(folder, given=settings.storage).spec) as storage:
        study = load_study(storage=storage, name=search.study_name)
        problem, seed = study_space(study).problem, study.user_attrs["seed"]
    choices = [(one.configuration.batch_scheme(problem), one.configuration.strategy(problem)) for one in search.best[:CERTIFIED_CHOICES]]
    return certify_best(
        problem, choices, certificate=settings.certificate, seed=seed, max_samples=settings.max_samples, progress=progress,
        draw=ray_drawer(workers, gpus=settings.gpus_per_trial),
    )


def _search(
    settings: TuneSettings, folder: RunFolder, space: SearchSpace | None, first: tuple[Configuration, ...] | None, workers: int,
    progress: Progress | None,
) -> SearchResult:
    def tell(state) -> None:
        best = "" if state.best_rmse is None else f", best RMSE {state.best_rmse:.4f} (estimate)"
        progress(f"search{best}", state.done, state.total)

    return run_search(
        SearchSettings(
            folder=folder, space=space, trials=settings.trials, seed=settings.seed, workers=workers, gpus_per_trial=settings.gpus_per_trial,
            address=settings.address, storage=settings.storage, first=first, resume=settings.resume is not None,
        ),
        on_progress=None if progress is None else tell,
    )
