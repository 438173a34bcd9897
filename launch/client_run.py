"""A search through Ray's client, `ray://`: all of it runs on the cluster's head (`launch.head`), and its run folder comes home at the end.

Ray Tune does not run behind the client: it would move itself to the head, and take our search along without its study. All of it ends with
the connection.
"""

import contextlib
import dataclasses
import os
import pickle
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.environment import start_ray
from engine.interruption import Interruption
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.storage import location
from engine.tune import TuneResult, TuneSettings
from launch import results_archive
from launch.head import Desk, search
from launch.progress import Report
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from search_spaces.errors import BandsmithError, InputError, RunError

POLL_SECONDS = 1.0

STOP_SECONDS = 60.0
"""How long an interrupted search may take to write down where it is."""

RUN, WARM_START = "run", "warm_start"
"""Folders at the desk; each holds one run folder, by the name it has at home."""


def tune(settings: TuneSettings, *, progress: Report | None = None) -> TuneResult:
    """`engine.tune.tune` on the cluster at `settings.address`, which begins with `ray://`; arguments and errors as there.

    Raises:
      InputError: also if a study is in a file outside its run folder.
      RunError: also if the connection is lost, and the search with it.
    """
    settings.space()
    home = RunFolder.existing(settings.resume) if settings.resume else RunFolder.planned(settings.out)
    with home.writing() if settings.resume else contextlib.nullcontext():
        sent, there = _what_travels(settings, home)
        with start_ray(
            workers=settings.workers, address=settings.address, gpus_per_trial=settings.gpus_per_trial, cache_directory=home.compiled,
            py_modules=settings.py_modules, autoscaling=settings.autoscaling, through_client=True,
        ) as workers:
            if not settings.resume:
                # A place that cannot be written is bad input, and found before anything runs.
                RunFolder.create(home.path).path.rmdir()
            return _run(dataclasses.replace(there, workers=workers), home, sent, grows=settings.autoscaling, progress=progress)


def _what_travels(settings: TuneSettings, home: RunFolder) -> tuple[dict[str, str], TuneSettings]:
    """Archives for the desk, and settings with paths relative to it."""
    path = Path(RUN, home.path.name)
    there = dataclasses.replace(settings, address=None, autoscaling=False, py_modules=(), storage=_storage(home, settings.storage))
    if settings.resume:
        sent, there = {str(path): results_archive.pack(home.path)}, dataclasses.replace(there, resume=path)
    else:
        sent, there = {}, dataclasses.replace(there, out=path)
    if settings.warm_start:
        warm = RunFolder.existing(settings.warm_start)
        _storage(warm, None)
        there = dataclasses.replace(there, warm_start=Path(WARM_START, warm.path.name))
        sent[str(there.warm_start)] = results_archive.pack(warm.path)
    return sent, there


def _storage(folder: RunFolder, given: str | None) -> str | None:
    """The storage as the head is told it, without its password; None for the folder's own."""
    place = location(run_storage(folder, given=given).spec)
    if place == location(folder.study):
        return None
    if place.startswith(("sqlite:", "journal:")):
        raise InputError(f"Expected storage={place!r} to be the run folder's own or a database server: through ray:// no other file is reached.")
    return place


def _run(settings: TuneSettings, home: RunFolder, sent: dict[str, str], *, grows: bool, progress: Report | None) -> TuneResult:
    on_head = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    desk = ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=on_head).remote(sent)
    place = ray.get(desk.place.remote())
    run = place / (settings.resume or settings.out)
    interruption = Interruption()
    with _while_connected(run), interruption.deferred():
        pickled = pickle.dumps(settings)
        task = ray.remote(num_cpus=0, max_retries=0)(search).options(scheduling_strategy=on_head).remote(pickled, place, desk, grows)
        _follow(task, desk, interruption, progress)
        if (archive := ray.get(desk.archive.remote(str(run.relative_to(place))))) is not None:
            try:
                _bring_home(archive, home, replace=settings.resume is not None)
            except (BandsmithError, OSError) as error:
                raise RunError(f"{str(error).rstrip('.')}; the run folder is {str(run)!r} on the cluster's head.") from error
        ray.get(desk.close.remote())
        # What an interrupted task ends with, if it has ended, says no more than the signal does, which takes effect here.
        return None if interruption.received else _result(task, there=run, here=home.path)


def _follow(task: ray.ObjectRef, desk: "ray.actor.ActorHandle", interruption: Interruption, progress: Report | None) -> None:
    """Passes on where the search stands until it ends; after a signal, asks it to."""
    deadline, running = None, True
    while running and (deadline is None or time.monotonic() < deadline):
        running = not ray.wait([task], timeout=POLL_SECONDS)[0]
        for standing in ray.get(desk.told.remote()):
            if progress is not None:
                progress(*standing)
        if interruption.received and deadline is None:
            ray.cancel(task, force=False, recursive=False)
            deadline = time.monotonic() + STOP_SECONDS


def _result(task: ray.ObjectRef, *, there: Path, here: Path) -> TuneResult:
    """The task's result or its error, with paths as they are at home."""
    try:
        result = pickle.loads(ray.get(task))
    except ray.exceptions.RayTaskError as error:
        if not isinstance(cause := error.cause, BandsmithError):
            raise
        cause.args = tuple(str(argument).replace(str(there), str(here)) for argument in cause.args)
        raise cause from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        raise RunError(f"The search's process on the cluster's head was lost: {' '.join(str(error).split())[:300]}") from error
    report = None if result.report is None else here / result.report.relative_to(there)
    return dataclasses.replace(result, folder=here, report=report)


def _bring_home(archive: str, home: RunFolder, *, replace: bool) -> None:
    """Writes the run folder here; one that is replaced stays until the other is complete."""
    if not replace:
        results_archive.unpack(archive, home.path)
        return
    fresh, old = (home.path.with_name(f".{home.path.name}.{word}-{os.getpid()}") for word in ("new", "old"))
    results_archive.unpack(archive, fresh)
    home.path.rename(old)
    try:
        fresh.rename(home.path)
    except OSError:
        old.rename(home.path)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _while_connected(run: Path) -> Iterator[None]:
    try:
        yield
    except (ConnectionError, ray.exceptions.RaySystemError) as error:
        raise RunError(
            f"The connection to the cluster was lost, and the search ended with it, in {str(run)!r} on the head; `bandsmith submit` is for "
            "long searches and needs no lasting connection."
        ) from error
