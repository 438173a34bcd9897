"""Work that was lost, and whose fault that was: the machine's, which says nothing about the work, or perhaps the work's own."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.study import NODE, WORKER
from ray.air.execution._internal.actor_manager import RayActorManager

GIBIBYTE = 2**30

_NODE_DIED = "its node has died"
"""What Ray says of an actor whose machine is gone; it has no exception of its own for that."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """One loss.

    Attributes:
      what: a word of `engine.study.RETRIES`.
      reason: in words, one line; starts with its kind (`oom`, `worker died`, `node died`, `worker lost`).
      peak_memory_bytes: what a worker that was killed for its memory held then; None where nobody says.
    """

    what: str
    reason: str
    peak_memory_bytes: int | None = None


class ActorLost(ray.exceptions.RayActorError):
    """An error that Ray raises for an actor that is gone, though it is none of its actor errors; `cause` is that error."""

    def __init__(self, cause: ray.exceptions.RayError) -> None:
        super().__init__(error_msg=str(cause))
        self.cause = cause


@contextlib.contextmanager
def losses_stay_with_their_trial() -> Iterator[None]:
    """Ray Tune (2.60) ends a whole search when a worker is killed for its memory, since it knows actor errors only; so it is given one."""
    original = RayActorManager._actor_task_failed

    def task_failed(manager: RayActorManager, tracked_actor_task: object, exception: Exception) -> None:
        known = (ray.exceptions.RayActorError, ray.exceptions.RayTaskError)
        lost = isinstance(exception, ray.exceptions.RayError) and not isinstance(exception, known)
        original(manager, tracked_actor_task, ActorLost(exception) if lost else exception)

    RayActorManager._actor_task_failed = task_failed
    try:
        yield
    finally:
        RayActorManager._actor_task_failed = original


def loss_of(error: BaseException | None) -> Loss:
    """What an error of Ray's says was lost."""
    if isinstance(error, ActorLost):
        error = error.cause
    text = " ".join(str(error).split())
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return _out_of_memory(text)
    if isinstance(error, (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError)):
        return Loss(what=NODE, reason=f"node died: {text[:200]}")
    # Of a worker that died alone its node says so at once; where nobody says anything, the node is gone or cannot be reached.
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return Loss(what=NODE, reason=f"node died or cannot be reached: {text[:200]}")
    if _NODE_DIED in text or getattr(error, "preempted", False):
        return Loss(what=NODE, reason=f"node died: {text[-200:]}")
    if isinstance(error, (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError)):
        return Loss(what=WORKER, reason=f"worker died: {text[-200:]}")
    return Loss(what=WORKER, reason=f"worker lost: {type(error).__name__}: {text[:200]}")


def _out_of_memory(text: str) -> Loss:
    usage = re.search(r"Memory on the node \([^)]*\) was (\S+) used / (\S+) limit", text)
    _, _, selected = text.partition("Selected to kill:")
    held = [float(amount) for amount in re.findall(r"actual memory used=([\d.]+)GB", selected)]
    reason = "oom: the worker was killed because the machine ran out of memory"
    if held:
        reason += f"; it held {max(held):.2f} GiB"
    if usage:
        reason += f"; the machine used {usage[1]} of {usage[2]}"
    return Loss(what=WORKER, reason=reason, peak_memory_bytes=round(max(held) * GIBIBYTE) if held else None)
