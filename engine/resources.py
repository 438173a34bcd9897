"""Whether a cluster still has a node on which work can run; where it has none, that is said, since Ray waits without a word."""

import logging
import time
from collections.abc import Callable

import engine.environment  # noqa: F401 (before ray, always)
import ray

PERIOD_SECONDS = 2.0
"""How often a cluster is asked."""

logger = logging.getLogger("bandsmith")


def missing_resources(*, gpus: float) -> str | None:
    """What a cluster lacks for a task of one CPU and `gpus` GPUs, in words; None while one of its nodes can run it."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= gpus for node in nodes):
        return None
    wanted = "1 CPU" + (f" and {gpus:g} GPU" if gpus else "")
    return f"waiting for a node with {wanted}, of which the cluster has none"


class ResourceWatch:
    """Looks now and then what is missing; a change is logged, and what is missing is told as long as it is.

    Args:
      gpus: of one task.
      tell: told what is missing.
    """

    def __init__(self, *, gpus: float, tell: Callable[[str], None] | None = None) -> None:
        self._gpus, self._tell = gpus, tell
        self._missing: str | None = None
        self._next = time.monotonic() + PERIOD_SECONDS

    def look(self) -> None:
        """Asks the cluster, unless it was asked a moment ago."""
        if time.monotonic() < self._next:
            return
        missing = missing_resources(gpus=self._gpus)
        if missing != self._missing:
            logger.warning("The work is %s.", missing) if missing else logger.info("The cluster has such a node again.")
        self._missing = missing
        if missing and self._tell is not None:
            self._tell(missing)
        self._next = time.monotonic() + PERIOD_SECONDS
