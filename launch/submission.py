"""Searches as jobs of a Ray cluster, through the port of its job server alone: submit, follow, fetch the results, stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import logging
import os
import posixpath
import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launch import results_archive
from search_spaces.errors import BandsmithError, InputError

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

FOLDER = "bandsmith_folder"
"""Key of a job's metadata: its run folder on the head node."""

ANSWER_SECONDS = 10.0
"""How long a job server may take to answer at first."""

LOST_SECONDS = 60.0
"""How long a job server may be out of reach while its job is followed."""

POLL_SECONDS = 0.5

_OVERRIDES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Variables that Ray prefers to any address it is given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a cluster.

    Attributes:
      job_id: its name there.
      status: Ray's word: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
      folder: its run folder on the head node.
      exit_code: of the command; None while it runs.
      reason: why the command was never started; else empty.
    """

    job_id: str
    status: str
    folder: str
    exit_code: int | None
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A `tune` that shall run as a job.

    Attributes:
      arguments: the words after `tune`, without those about modules, which the job is sent instead.
      folder: its run folder, relative to the head node's folder of runs unless absolute.
      py_modules: paths of the user's modules here.
    """

    arguments: tuple[str, ...]
    folder: str
    py_modules: tuple[str, ...]


def tune_request(words: Sequence[str], parameters: Mapping[str, object], *, job_id: str) -> Request:
    """What a job has to run.

    Args:
      words: what follows `tune` on the command line.
      parameters: the same, parsed.
      job_id: names the run folder if the words do not.

    Raises:
      InputError: an option that makes no sense on the cluster.
    """
    from launch import fixed_size, inputs

    if parameters["address"] not in (None, "auto"):
        raise InputError(f"Expected address={parameters['address']!r} not to be given to a job, which runs on the cluster it is submitted to.")
    if fixed_size.is_chosen(inputs.names(parameters["schemes"] or None)):
        raise InputError("Expected a search to be submitted; the scheme fixed_size is done in seconds without a cluster.")
    arguments = _without(words, "--py-modules")
    if parameters["address"] is None:
        arguments += ["--address", "auto"]
    folder = parameters["resume"] or parameters["out"]
    if folder is None:
        folder = job_id
        arguments += ["--out", job_id]
    return Request(arguments=tuple(arguments), folder=str(folder), py_modules=inputs.names(parameters["py_modules"] or None) or ())


def _without(words: Sequence[str], option: str) -> list[str]:
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        if word == option:
            del words[:1]
        elif not word.startswith(option + "="):
            kept.append(word)
    return kept


def connect(address: str) -> JobSubmissionClient:
    """A client of the job server at `address`.

    Raises:
      InputError: the extra is not installed, nothing answers there, or it does not let us in.
    """
    if any(importlib.util.find_spec(name) is None for name in ("aiohttp", "requests")):
        raise InputError("Expected the extra `cluster` to be installed, which job submission needs: pip install 'bandsmith[cluster]'.")
    if not address.startswith(("http://", "https://")):
        raise InputError(f"Expected dashboard-address={address!r} to be http://host:port of a Ray cluster's job server.")
    import engine.environment  # noqa: F401 (before ray, always)
    import requests

    import ray
    from ray.job_submission import JobSubmissionClient

    for module in ("dashboard_sdk", "job.sdk"):
        logging.getLogger(f"ray.dashboard.modules.{module}").setLevel(logging.ERROR)
    try:
        requests.get(address.rstrip("/") + "/api/version", timeout=ANSWER_SECONDS)
        with _without_overrides():
            return JobSubmissionClient(address)
    except ray.exceptions.AuthenticationError as error:
        raise InputError(
            f"Expected dashboard-address={address!r} to let us in; its token belongs in RAY_AUTH_TOKEN, or its path in RAY_AUTH_TOKEN_PATH."
        ) from error
    except (requests.RequestException, ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[-200:]
        raise InputError(f"Expected dashboard-address={address!r} to be a Ray cluster's job server, but: {reason}.") from error


@contextlib.contextmanager
def _without_overrides() -> Iterator[None]:
    hidden = {name: os.environ.pop(name) for name in _OVERRIDES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def new_job_id() -> str:
    """A name for a job: the time, and something that keeps it unique."""
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{secrets.token_hex(3)}"


def submit(client: JobSubmissionClient, request: Request, *, job_id: str, head_folder: str) -> Job:
    """Sends the project and the user's modules, and starts the job.

    Args:
      client: see `connect`.
      request: see `tune_request`.
      job_id: its name, which no other job there has.
      head_folder: folder of runs on the head node; paths in the request are relative to it.

    Raises:
      InputError: the job server refuses it.
    """
    if _info(client, job_id) is not None:
        raise InputError(f"Expected job-id={job_id!r} to be no job of this cluster yet; come back to it with: {come_back(job_id)}")
    folder = posixpath.join(head_folder, request.folder)
    place = _shell_path(head_folder)
    command = shlex.join(("python", "-m", "launch.cli", "tune", *request.arguments))
    return _start(
        client, f"mkdir -p {place} && cd {place} && exec {command}", job_id=job_id, py_modules=request.py_modules, metadata={FOLDER: folder},
    )


def _shell_path(path: str) -> str:
    return '"$HOME"/' + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


def _start(
    client: JobSubmissionClient, entrypoint: str, *, job_id: str, metadata: dict[str, str], py_modules: Sequence[str] = (),
) -> Job:
    from engine.runtime_environment import job_to_submit

    with tempfile.TemporaryDirectory() as folder:
        environment = job_to_submit(Path(folder), py_modules=py_modules)
        try:
            client.submit_job(entrypoint=entrypoint, submission_id=job_id, runtime_env=environment, metadata=metadata)
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[-200:]
            raise InputError(f"Expected job-id={job_id!r} to be accepted by the job server: {reason}") from error
    return job(client, job_id)


def job(client: JobSubmissionClient, job_id: str) -> Job:
    """What the cluster says of a job.

    Raises:
      InputError: it has no such job.
    """
    info = _info(client, job_id)
    if info is None:
        raise InputError(f"Expected job-id={job_id!r} to be a job of this cluster.")
    return Job(
        job_id=job_id, status=str(info.status.value), folder=(info.metadata or {}).get(FOLDER, ""),
        exit_code=_exit_code(info) if info.status.is_terminal() else None,
        reason=" ".join(info.message.split())[:300] if info.status.value == "FAILED" and info.driver_exit_code is None else "",
    )


def _info(client: JobSubmissionClient, job_id: str) -> JobDetails | None:
    try:
        return client.get_job_info(job_id)
    except RuntimeError as error:
        if "404" in str(error):
            return None
        raise BandsmithError(f"The job server fails: {' '.join(str(error).split())[-200:]}") from error


def _exit_code(info: JobDetails) -> int:
    if info.status.value == "SUCCEEDED":
        return 0
    return info.driver_exit_code if info.driver_exit_code in (1, 2) else 1


def follow(client: JobSubmissionClient, job_id: str, *, write: Callable[[str], object]) -> Job:
    """Passes on what the job prints until it ends; a connection that breaks is made again.

    Raises:
      BandsmithError: the job server has been out of reach for `LOST_SECONDS`.
    """
    printed, answered = 0, time.monotonic()
    while True:
        try:
            printed = asyncio.run(_tail(client, job_id, printed, write))
            now = job(client, job_id)
            answered = time.monotonic()
            if now.exit_code is not None:
                # What a connection that broke has not brought.
                write(client.get_job_logs(job_id)[printed:])
                return now
        except OSError as error:
            if time.monotonic() - answered > LOST_SECONDS:
                raise BandsmithError(f"The job server is out of reach; come back with: {come_back(job_id)}") from error
        time.sleep(POLL_SECONDS)


async def _tail(client: JobSubmissionClient, job_id: str, printed: int, write: Callable[[str], object]) -> int:
    """Writes the output beyond the first `printed` characters; returns how many are written now."""
    seen = 0
    # A broken connection is an error of many kinds; whether the job has ended is asked afterwards.
    with contextlib.suppress(Exception):
        async for text in client.tail_job_logs(job_id):
            write(text[max(0, printed - seen):])
            seen += len(text)
            printed = max(printed, seen)
    return printed


def come_back(job_id: str) -> str:
    """The command that follows a job again and fetches its results."""
    return f"bandsmith submit --fetch {job_id}"


def fetch(client: JobSubmissionClient, one: Job, out: Path) -> bool:
    """Writes the job's run folder to `out`; false if the job has none.

    A second, tiny job on the head node prints the folder, so that only the job server's port is needed.

    Raises:
      InputError: `out` exists or cannot be made.
      BandsmithError: what arrives is not whole.
    """
    if not one.folder:
        raise InputError(f"Expected job-id={one.job_id!r} to be a job that `bandsmith submit` has started.")
    packing = f"{one.job_id}-fetch-{secrets.token_hex(3)}"
    entrypoint = shlex.join(("python", "-m", "launch.results_archive", one.folder))
    _start(client, entrypoint, job_id=packing, metadata={FOLDER: one.folder})
    try:
        while (state := client.get_job_info(packing)) and not state.status.is_terminal():
            time.sleep(POLL_SECONDS)
        text = client.get_job_logs(packing)
    finally:
        # A packing that was interrupted still runs, and stays in the list of jobs.
        with contextlib.suppress(RuntimeError):
            client.delete_job(packing)
    if state.driver_exit_code == results_archive.MISSING:
        return False
    results_archive.unpack(text, out)
    return True


def stop(client: JobSubmissionClient, job_id: str) -> Job:
    """Ends a job; its study stays, and `tune --resume` continues it.

    Raises:
      InputError: the cluster has no such job.
    """
    job(client, job_id)
    client.stop_job(job_id)
    while (now := job(client, job_id)).exit_code is None:
        time.sleep(POLL_SECONDS)
    return now
