"""The study of a run in a browser: optuna-dashboard on the live study, behind a guard through which nothing can be changed.

It has no log-in of its own, so it answers on this machine alone unless told otherwise. Everything it shows comes from here: it needs no
network.
"""

import contextlib
import dataclasses
import ipaddress
import json
import re
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import optuna
import optuna_dashboard
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import TrialState

from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.storage import opened_storage
from engine.study import load_study, name_objective
from search_spaces import checks
from search_spaces.errors import InputError

PORT = 8080
"""Where it answers unless another port is asked for; any free one if this is taken."""

READING = ("GET", "HEAD")
"""Methods that change nothing, in HTTP and in optuna-dashboard."""

LOCAL_NAMES = ("localhost",)
"""Names of this machine, besides its loopback addresses."""

ANSWER_SECONDS = 60.0
"""How long the first answer may take."""

Application = Callable[[dict[str, object], Callable[..., object]], Iterable[bytes]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DashboardSettings:
    """What is served, to whom.

    Attributes:
      run: folder of a run; None with `storage` alone, all of which is shown then.
      storage: see `engine.run_storage.run_storage`; needed for a password that the environment does not hold, or without `run`.
      host: address to answer on.
      port: 0 for any free one; None for `PORT`, or any free one if that is taken.
      allow_remote: whether `host` may be reached from other machines.
      writable: whether whoever reaches it may change and delete studies.
      most_trials: show a copy with so many trials at most, made at the start; None shows the study itself, as it is at any moment.

    Raises:
      InputError: a value out of range, or two that exclude each other.
    """

    run: Path | None = None
    storage: str | None = dataclasses.field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int | None = None
    allow_remote: bool = False
    writable: bool = False
    most_trials: int | None = None

    def __post_init__(self) -> None:
        if self.run is None and self.storage is None:
            raise InputError("Expected the folder of a run, or a storage, to be given.")
        if self.port is not None and checks.integer(at_least=0, port=self.port) > 65535:
            raise InputError(f"Expected port={self.port} to be at most 65535.")
        if not is_loopback(self.host) and not self.allow_remote:
            raise InputError(
                f"Expected host={self.host!r} to be a loopback address such as 127.0.0.1: there is no log-in, so any other address must be "
                "allowed explicitly (--allow-remote)."
            )
        if self.most_trials is not None:
            checks.integer(most_trials=self.most_trials)
            if self.writable or self.run is None:
                raise InputError(f"Expected most_trials={self.most_trials} to be given with a run, and not to be writable: it shows a copy.")


@contextlib.contextmanager
def dashboard(settings: DashboardSettings) -> Iterator[str]:
    """The dashboard for the length of the block, which gets its address once it answers.

    Raises:
      InputError: there is no such run or storage, or the address cannot be used.
    """
    with _shown(settings) as (storage, path):
        application = optuna_dashboard.wsgi(storage)
        application = application if settings.writable else read_only(application)
        # Where strangers may come anyway, any name of this machine will do.
        application = application if settings.allow_remote else local_only(application)
        with _server(settings, application) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
            thread.start()
            try:
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                _expect_answer(server)
                yield f"http://{host}:{server.server_port}/dashboard{path}"
            finally:
                server.shutdown()
                thread.join()


def serve(settings: DashboardSettings, *, on_ready: Callable[[str], None]) -> None:
    """Serves the dashboard until Ctrl-C or SIGTERM, either of which ends it normally; raises as `dashboard` does.

    Args:
      settings: what to serve.
      on_ready: told the address once it answers.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with dashboard(settings) as address:
            on_ready(address)
            ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOCAL_NAMES


def read_only(application: Application) -> Application:
    """The application without any request that could change something."""
    def guarded(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in READING:
            return _refusal(start_response, "This dashboard is read-only; start it with --writable to change studies.")
        return application(environ, start_response)

    return guarded


def local_only(application: Application) -> Application:
    """The application for requests that name this machine as their host.

    A page from elsewhere can make its own name point to this machine, and would then read what is here through the browser of its visitor.
    """
    def guarded(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        host = re.sub(r":\d+$", "", str(environ.get("HTTP_HOST", "")))
        if not is_loopback(host.strip("[]")):
            return _refusal(start_response, "This dashboard answers to names of this machine only.")
        return application(environ, start_response)

    return guarded


def thinned(study: optuna.Study, *, most_trials: int) -> BaseStorage:
    """A copy in memory with at most so many trials: the best half of them by RMSE, and others spread evenly over the history.

    Trials are numbered anew there; the attribute `trial` keeps the number each has in the study.
    """
    trials = study.get_trials()
    ranked = sorted((trial for trial in trials if trial.state is TrialState.COMPLETE), key=lambda trial: trial.value)
    kept = {trial.number for trial in ranked[: (most_trials + 1) // 2]}
    others = [trial.number for trial in trials if trial.number not in kept]
    wanted = min(most_trials - len(kept), len(others))
    kept.update(others[index * len(others) // wanted] for index in range(wanted))
    storage = InMemoryStorage()
    copy = optuna.create_study(storage=storage, study_name=study.study_name, directions=study.directions)
    name_objective(copy)
    for name, value in study.user_attrs.items():
        copy.set_user_attr(name, value)
    for number in sorted(kept):
        trials[number].user_attrs["trial"] = number
        storage.create_new_trial(copy._study_id, template_trial=trials[number])
    return storage


@contextlib.contextmanager
def _shown(settings: DashboardSettings) -> Iterator[tuple[BaseStorage, str]]:
    """The storage to show, and where in it the study of the run is."""
    spec, name = settings.storage, None
    if settings.run is not None:
        place = run_storage(RunFolder.existing(settings.run), given=settings.storage)
        if not place.begun:
            raise InputError(f"Expected {str(settings.run)!r} to be the folder of a run with a study.")
        spec, name = place.spec, place.study
    with opened_storage(spec, read_only=not settings.writable) as opened:
        # One that reads finished trials once: the dashboard asks for all of them every few seconds.
        storage = optuna.storages.get_storage(opened)
        if settings.run is None:
            yield storage, ""
            return
        study = load_study(storage=storage, name=name)
        # Read once now, so that the first page need not wait for it.
        study.get_trials(deepcopy=False)
        if settings.most_trials is not None:
            yield thinned(study, most_trials=settings.most_trials), "/studies/0"
        else:
            yield storage, f"/studies/{study._study_id}"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerOfVersion6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal is for the address alone."""


@contextlib.contextmanager
def _server(settings: DashboardSettings, application: Application) -> Iterator[WSGIServer]:
    kind = _ServerOfVersion6 if ":" in settings.host else _Server
    ports = (PORT, 0) if settings.port is None else (settings.port,)
    for port in ports:
        try:
            server = make_server(settings.host, port, application, server_class=kind, handler_class=_QuietHandler)
            break
        except OSError as error:
            if port == ports[-1]:
                raise InputError(f"Expected host={settings.host!r} and port={port} to be free to answer on: {error.strerror}.") from error
    with server:
        yield server


def _expect_answer(server: WSGIServer) -> None:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.server_address[0], server.server_address[0])
    url = f"http://[{host}]" if ":" in host else f"http://{host}"
    with urllib.request.urlopen(f"{url}:{server.server_port}/api/studies", timeout=ANSWER_SECONDS) as answer:
        json.load(answer)


def _refusal(start_response: Callable[..., object], reason: str) -> list[bytes]:
    body = json.dumps({"reason": reason}).encode()
    start_response("403 Forbidden", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
