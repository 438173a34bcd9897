"""Work that was lost, and whose fault that was: the machine's, which says nothing about the work, or perhaps the work's own."""

import dataclasses
import re

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.study import NODE, WORKER

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


def loss_of(error: BaseException | None) -> Loss:
    """What an error of Ray's says was lost."""
    text = " ".join(str(error).split())
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return _out_of_memory(text)
    if isinstance(error, (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError)) or _NODE_DIED in text:
        return Loss(what=NODE, reason=f"node died: {text[-200:]}")
    if getattr(error, "preempted", False):
        return Loss(what=NODE, reason=f"node died: preempted, {text[-200:]}")
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
