"""Whether a worker can import what trials run, asked before anything is written."""

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.trainable import load_objective
from search_spaces.errors import InputError


def probe_objective(objective: str, *, gpus_per_trial: float = 0.0) -> None:
    """Import the objective on one worker of the running session, where trials will run.

    Args:
      objective: `module:function`.
      gpus_per_trial: as the trials ask for, so that a node is asked that may get one.

    Raises:
      InputError: it cannot be imported there.
    """
    task = ray.remote(num_cpus=1, num_gpus=gpus_per_trial, max_retries=0)(_import)
    try:
        ray.get(task.remote(objective))
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        reason = " ".join(str(error if cause is None else cause).split())
        if isinstance(cause, InputError):
            raise InputError(f"{reason.rstrip('.')}, on a worker.") from None
        raise InputError(f"Expected objective={objective!r} to be importable on a worker: {reason[-300:]}") from None


def _import(objective: str) -> None:
    load_objective(objective)
