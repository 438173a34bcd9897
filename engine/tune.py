"""The whole job: search, certify the best few, and write the best certified strategy."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import SQLAlchemyError

from engine.certification import CERTIFICATES, CertifiedStrategy, Progress, certify_best, ray_drawer
from engine.configuration import Configuration
from engine.environment import gpu_demand, start_ray
from engine.files import read_json, readable_json, write_atomically
from engine.interruption import terminable
from engine.probe import probe_objective
from engine.report.build import report_at_the_end
from engine.results import write_strategy
from engine.run_folder import RunFolder
from engine.search import SearchResult, SearchSettings, run_search
from engine.run_storage import run_storage
from engine.storage import opened_storage
from engine.study import load_study, study_space
from engine.trainable import OBJECTIVE
from engine.warm_start import warm_configurations
from ray.tune import TuneError
from search_spaces import checks
from search_spaces.errors import CalibrationError, InputError, RunError
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

CERTIFIED_CHOICES = 3
"""How many of the best configurations enter the certificate's list."""

logger = logging.getLogger("bandsmith")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """What a run is asked to do.

    Attributes:
      problem: the target; None only with `resume`, where the study knows.
      schemes, bandwidths: restrict the search; None means all.
      trials: finished trials to end with; None means `engine.search.TRIALS`, and on `resume` what the run was started with.
      certificate: a word of `engine.certification.CERTIFICATES`; None means `tilted`, and on `resume` what the run was last asked for.
      max_samples: the most samples of one certifying test; None means that certificate's default, and on `resume` as with `certificate`.
      seed: of all random numbers; on `resume` the study's own is used.
      workers: trials and certifying tasks at once; None means one per CPU core, or as many as the cluster can run.
      gpus_per_trial: GPUs of each.
      out: folder to write, which must not exist; None means runs/ with a time stamp.
      resume: folder of an interrupted run to continue.
      warm_start: folder of an earlier run whose best configurations are tried first.
      storage: see `engine.storage.KINDS`; None means SQLite in the folder, and on `resume` the run's own.
      address: of a Ray cluster; None starts a local one.
      autoscaling: whether that cluster adds nodes by itself; `workers` is given then.
      objective: what ranks the trials, as `module:function`; None means `engine.trainable.OBJECTIVE`, and on `resume` what the run was
        started with. Nothing that is certified rests on it.
      py_modules: paths of the packages, modules or wheels that workers import besides the project.

    Raises:
      InputError: a value out of range, or two that exclude each other.
    """

    problem: Problem | None = None
    schemes: tuple[str, ...] | None = None
    bandwidths: tuple[int, ...] | None = None
    trials: int | None = None
    certificate: str | None = None
    max_samples: int | None = None
    seed: int = 0
    workers: int | None = None
    gpus_per_trial: float = 0.0
    out: Path | None = None
    resume: Path | None = None
    warm_start: Path | None = None
    storage: str | None = dataclasses.field(default=None, repr=False)
    address: str | None = None
    autoscaling: bool = False
    objective: str | None = None
    py_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.trials is not None:
            checks.integer(trials=self.trials)
        gpu_demand(self.gpus_per_trial)
        checks.integer(at_least=0, seed=self.seed)
        if self.certificate is not None:
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
      report: the page about it; None where that could not be written.
    """

    folder: Path
    search: SearchResult
    certified: CertifiedStrategy
    report: Path | None = None

    def to_dict(self) -> dict[str, object]:
        """The strategy document, the folder and the numbers of trials, as plain JSON values."""
        names = ("done", "total", "failed", "seconds")
        search = {name: getattr(self.search, name) for name in names} | {"states": dict(self.search.states)}
        report = None if self.report is None else str(self.report)
        return self.certified.to_dict() | {"folder": str(self.folder), "search": search, "report": report}


def tune(settings: TuneSettings, *, progress: Progress | None = None) -> TuneResult:
    """Run the whole job; the folder holds `strategy.json`, `trials.csv`, the study, the log and the report afterwards.

    Args:
      settings: what to do.
      progress: told (text, done, total) where the work stands.

    Raises:
      InputError: the settings do not fit each other, the folder, the study or the cluster.
      CalibrationError: no configuration could be ranked, or no test within the allowed samples certifies the target.
      CertificateError: the certificate cannot be made.
      RunError: the run's files cannot be written, or its study cannot be reached; it can be resumed.
      KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM; it can be resumed.
    """
    space = settings.space()
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
        workers=settings.workers, address=settings.address, gpus_per_trial=settings.gpus_per_trial, cache_directory=folder.compiled,
        py_modules=settings.py_modules, autoscaling=settings.autoscaling,
    ) as workers:
        if settings.objective is not None or settings.address is not None:
            probe_objective(settings.objective or OBJECTIVE, gpus_per_trial=settings.gpus_per_trial)
        if not settings.resume:
            RunFolder.create(folder.path)
        with folder.writing(), terminable(), _resumable(folder):
            certification = _certification_settings(settings, folder)
            search = _search(settings, folder, space, first, workers, progress)
            certified = _certify(settings, folder, search, workers, progress, **certification)
            write_strategy(folder.strategy, certified.document())
            if progress is not None:
                progress("report", 0, 1)
            report = report_at_the_end(folder.path, storage=settings.storage)
    return TuneResult(folder=folder.path, search=search, certified=certified, report=None if report is None else report.page)


@contextlib.contextmanager
def _resumable(folder: RunFolder) -> Iterator[None]:
    """What stops a run from outside, such as a full disk, becomes one sentence that says how it goes on."""
    try:
        yield
    except (OSError, StorageInternalError, SQLAlchemyError, TuneError) as error:
        logger.error("The run stopped.", exc_info=error)
        innermost = error
        # Of a library's error the cause says more; of an error with a file, the error itself.
        while not getattr(innermost, "filename", None) and (cause := innermost.__cause__ or innermost.__context__) is not None:
            innermost = cause
        raise RunError(
            f"The run in {str(folder.path)!r} stopped: {' '.join(str(innermost).split())[:300]}. What it has done is kept; "
            f"once that is mended, it goes on with --resume"
        ) from error


def _certification_settings(settings: TuneSettings, folder: RunFolder) -> dict[str, object]:
    """`certificate` and `max_samples` as asked for, else as the run was last asked for; kept in the folder."""
    kept = read_json(folder.settings, argument="settings.json") if folder.settings.exists() else {}
    certificate = settings.certificate or kept.get("certificate", CERTIFICATES[0])
    # The number that was given for one certificate says nothing about another.
    before = kept.get("max_samples") if certificate == kept.get("certificate") else None
    wanted = {"certificate": certificate, "max_samples": settings.max_samples or before}
    if wanted != kept:
        write_atomically(folder.settings, readable_json(wanted))
    return wanted


def _certify(
    settings: TuneSettings, folder: RunFolder, search: SearchResult, workers: int, progress: Progress | None, *, certificate: str,
    max_samples: int | None,
) -> CertifiedStrategy:
    if not search.best:
        raise CalibrationError(
            f"None of the {search.done} trials in {str(folder.path)!r} could be ranked, {search.failed} failed; see the column reason of "
            "its trials.csv."
        )
    with opened_storage(run_storage(folder, given=settings.storage).spec) as storage:
        study = load_study(storage=storage, name=search.study_name)
        problem, seed = study_space(study).problem, study.user_attrs["seed"]
    choices = [(one.configuration.batch_scheme(problem), one.configuration.strategy(problem)) for one in search.best[:CERTIFIED_CHOICES]]
    return certify_best(
        problem, choices, certificate=certificate, seed=seed, max_samples=max_samples, progress=progress,
        draw=ray_drawer(workers, gpus=settings.gpus_per_trial), folder=folder.certification,
    )


def _search(
    settings: TuneSettings, folder: RunFolder, space: SearchSpace | None, first: tuple[Configuration, ...] | None, workers: int,
    progress: Progress | None,
) -> SearchResult:
    def tell(state) -> None:
        best = "" if state.best_rmse is None else f", best RMSE {state.best_rmse:.4f} ({state.best_kind or 'estimate'}, {state.best})"
        waits = "" if state.waits is None else f", {state.waits}"
        progress(f"search{best}{waits}", state.done, state.total)

    return run_search(
        SearchSettings(
            folder=folder, space=space, trials=settings.trials, seed=settings.seed, workers=workers, gpus_per_trial=settings.gpus_per_trial,
            address=settings.address, storage=settings.storage, objective=settings.objective, first=first, resume=settings.resume is not None,
        ),
        on_progress=None if progress is None else tell,
    )
