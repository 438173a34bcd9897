"""The environment that Ray reads when it is imported, and the Ray session of a run.

Everything in `engine` that needs Ray imports this module first: importing it decides the variables below, and Ray and Ray Tune read most
of them once. A value the user has set is never overwritten.
"""

import contextlib
import dataclasses
import logging
import os
import secrets
import socket
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from engine.capacity import trials_at_once
from engine.runtime_environment import NODE_CACHE, in_job, runtime_environment, user_modules
from search_spaces import checks
from search_spaces.errors import InputError

RAY_ENVIRONMENT: Mapping[str, str] = {
    # Otherwise a local cluster is open to every user of the machine ("disabled"), or Ray writes a token file into HOME (unset).
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would warn that it stops hiding GPUs from workers that asked for none; `worker_environment` keeps those off the GPU instead.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Silence, on stdout above all: it belongs to `--json`.
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "10",
    # A trial without its metric is that trial's failure (`engine.searcher`), not the end of the whole search.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # The Optuna study is the only state; Tune's own snapshots are never read, so they are written once, at the end.
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",
    # Ctrl-C is ours (`engine.interruption`): Tune would end its loop quietly and let the run go on.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # Workers stay in the directory of the driver: relative paths mean the same everywhere.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}

GPU_MEMORY_SHARE = 0.9
"""Part of its GPU fraction a worker's allocator may take; the rest is for the CUDA context and compiled programs."""

TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Variables that hold what one needs to log in to a cluster."""

CONNECT_SECONDS = 10.0
"""How long an existing cluster may take to accept a connection."""

CLIENT = "ray://"
"""How an address of Ray's client begins."""

AUTHENTICATION = "RAY_AUTH_MODE"

for _name, _value in RAY_ENVIRONMENT.items():
    # A submitted job has its cluster's way of logging in, which may be none.
    if _name != AUTHENTICATION or not in_job():
        os.environ.setdefault(_name, _value)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray


def worker_environment(*, gpus_per_trial: float = 0.0, cache_directory: Path | None = None) -> dict[str, str]:
    """Environment variables of the workers, set before they import JAX; later they would have no effect.

    float64 is not decided here: the accountants switch it on themselves, wherever they run.

    Args:
      gpus_per_trial: GPUs per worker; 0 keeps workers on the CPU even where a GPU is visible.
      cache_directory: where compiled programs are kept, so that a fresh worker does not compile again; None means nowhere.
    """
    environment = {}
    if gpus_per_trial == 0:
        environment["JAX_PLATFORMS"] = "cpu"
    elif gpus_per_trial < 1:
        environment |= {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_CLIENT_MEM_FRACTION": f"{GPU_MEMORY_SHARE * gpus_per_trial:.4f}",
            # The older name of the same setting; JAX refuses to start where both are set.
            "XLA_PYTHON_CLIENT_MEM_FRACTION": "",
        }
    if cache_directory is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache_directory),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }
    return environment


@contextlib.contextmanager
def start_ray(
    *, workers: int | None, address: str | None = None, gpus_per_trial: float = 0.0, cache_directory: Path | None = None,
    py_modules: Sequence[str] = (), autoscaling: bool = False, through_client: bool = False,
) -> Iterator[int]:
    """A Ray session for the length of the block: a new local one, one at `address`, or the one this process already has.

    Yields how many tasks or actors run at once.

    Args:
      workers: how many one-CPU tasks or actors run at once; None means one per CPU core of this machine, or as many as the cluster can run.
      address: of a running cluster, `auto` or host:port; None starts a local one that ends with the block.
      gpus_per_trial: GPUs each worker asks for; a fraction shares one GPU.
      cache_directory: see `worker_environment`; the nodes of a cluster keep compiled programs in a directory of their own.
      py_modules: paths of the user's packages, modules or wheels, which the workers shall be able to import.
      autoscaling: whether the cluster adds nodes by itself, so that a demand is waited for that none of its nodes can meet now.
      through_client: whether `address` is ray://host:port, of Ray's client. Ray Tune does not run behind it (see `launch.client_run`).

    Raises:
      InputError: a value out of range, a demand no node can meet (Ray would wait for ever), or no way to log in to the cluster.
    """
    workers = None if workers is None else checks.integer(workers=workers)
    gpus_per_trial = gpu_demand(gpus_per_trial)
    if autoscaling and (workers is None or address is None):
        raise InputError("Expected autoscaling to be of a cluster with an address, and workers to be given: nobody else knows how many may run.")
    if ray.is_initialized():
        at_once = None if _session.grows else _trials_at_once(gpus_per_trial)
        yield workers or at_once
        return
    _session.grows = autoscaling
    try:
        if address is None:
            workers = workers or os.cpu_count() or 1
            environment = worker_environment(gpus_per_trial=gpus_per_trial, cache_directory=cache_directory)
            _start_local(workers, {"env_vars": environment} | user_modules(py_modules))
            _trials_at_once(gpus_per_trial)
        else:
            environment = worker_environment(gpus_per_trial=gpus_per_trial, cache_directory=cache_directory and NODE_CACHE)
            with tempfile.TemporaryDirectory() as folder:
                _connect(address, runtime_environment(Path(folder), variables=environment, py_modules=py_modules), through_client)
            if not autoscaling:
                workers = _cluster_workers(workers, _trials_at_once(gpus_per_trial))
        yield workers
    finally:
        _session.grows = False
        ray.shutdown()


def is_client(address: str | None) -> bool:
    """Whether an address is that of Ray's client."""
    return address is not None and address.startswith(CLIENT)


@contextlib.contextmanager
def running_session(*, grows: bool) -> Iterator[None]:
    """Within the block, the session this process has without having started it counts as one whose cluster adds nodes by itself, or not."""
    _session.grows = grows
    try:
        yield
    finally:
        _session.grows = False


def gpu_demand(gpus_per_trial: object) -> float:
    """GPUs of one trial: a fraction of one, or a whole number of them.

    Raises:
      InputError: anything else.
    """
    demand = checks.non_negative(gpus_per_trial=gpus_per_trial)
    if demand > 1 and demand != int(demand):
        raise InputError(f"Expected gpus_per_trial={demand} to be a fraction of one GPU or a whole number of them.")
    return demand


@dataclasses.dataclass
class _Session:
    """What those who use a running session have to know of it.

    Attributes:
      grows: whether its cluster adds nodes by itself.
    """

    grows: bool = False


_session = _Session()


def _trials_at_once(gpus_per_trial: float) -> int:
    return trials_at_once(gpus_per_trial, nodes=[node["Resources"] for node in ray.nodes() if node["Alive"]])


def _cluster_workers(wanted: int | None, at_once: int) -> int:
    if wanted is not None and wanted > at_once:
        warnings.warn(f"The Ray cluster can run {at_once} of workers={wanted} trials at once; the others wait.", stacklevel=1)
    return wanted or at_once


def _start_local(workers: int, runtime_env: Mapping[str, object]) -> None:
    if not any(name in os.environ for name in TOKENS):
        # A token for this session alone; Ray's processes inherit it.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    _init(address="local", num_cpus=workers, include_dashboard=False, runtime_env=runtime_env)


def _connect(address: str, runtime_env: Mapping[str, object], through_client: bool) -> None:
    if is_client(address) != through_client:
        wanted = "ray://host:port of Ray's client" if through_client else "auto or host:port of a cluster's head"
        raise InputError(f"Expected address={address!r} to be {wanted}.")
    _check_reachable(address)
    try:
        _init(address=address, runtime_env=runtime_env)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.AuthenticationError) as error:
        raise InputError(
            f"Expected address={address!r} to be a Ray cluster that lets us in (its token in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, "
            f"or RAY_AUTH_MODE=disabled where it has none): {' '.join(str(error).split())[:300]}"
        ) from error
    # Otherwise Ray's client says on stderr that its connection is lost, before we do; it sets the level itself when it connects.
    logging.getLogger("ray.util.client.logsclient").setLevel(logging.ERROR)


def _init(**options: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    # What Ray's daemons have to say (of a worker that died, for one) would be printed on stdout, whatever `log_to_driver` is.
    ray._private.worker._worker_logs_enabled = False


def _check_reachable(address: str) -> None:
    # Ray itself keeps trying for minutes.
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise InputError(f"Expected address={address!r} to be a running Ray cluster, but nothing answers there ({error}).") from error
