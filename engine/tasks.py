"""Ray tasks whose results depend neither on where nor on how often they run: one whose node or worker was lost is done again."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.losses import loss_of
from engine.resources import PERIOD_SECONDS, ResourceWatch
from engine.study import RETRIES
from search_spaces.errors import CertificateError

LOST = (
    ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError, ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError,
)

logger = logging.getLogger("bandsmith")


def results(
    function: Callable[..., object], *arguments: object, items: Sequence[object], gpus: float = 0.0,
    on_wait: Callable[[str], None] | None = None,
) -> Iterator[object]:
    """`function(*arguments, item)` of every item, in the order in which they are done.

    Ray's own retries are off: it repeats a task that runs out of memory for ever.

    Raises:
      CertificateError: an item's task was lost more often than `engine.study.RETRIES` allows.
    """
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(function)
    shared = [ray.put(argument) for argument in arguments]
    waiting = {task.remote(*shared, item): (item, Counter()) for item in items}
    watch = ResourceWatch(gpus=gpus, tell=on_wait)
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=PERIOD_SECONDS)
            watch.look()
            for reference in done:
                item, losses = waiting.pop(reference)
                try:
                    result = ray.get(reference)
                except LOST as error:
                    _count(losses, error)
                    waiting[task.remote(*shared, item)] = item, losses
                    continue
                yield result
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def _count(losses: Counter, error: Exception) -> None:
    loss = loss_of(error)
    losses[loss.what] += 1
    if losses[loss.what] > RETRIES[loss.what]:
        raise CertificateError(f"A chunk of certifying samples was lost {losses[loss.what]} times: {loss.reason}") from error
    logger.warning("A chunk of certifying samples was lost and is drawn again: %s", loss.reason)
