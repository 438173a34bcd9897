"""How many trials the nodes of a cluster can run at once, from what Ray says of them."""

from collections.abc import Mapping, Sequence

from search_spaces.errors import InputError

Resources = Mapping[str, float]
"""Amounts of `CPU` and `GPU` of one node, among others."""


def trials_at_once(gpus_per_trial: float, *, nodes: Sequence[Resources]) -> int:
    """How many trials of one CPU and so many GPUs these nodes can run at once, at least 1.

    Args:
      gpus_per_trial: a fraction of one GPU, or a whole number of them.
      nodes: those that are there.

    Raises:
      InputError: no node can run a trial.
    """
    at_once = sum(trials_on(node, gpus_per_trial) for node in nodes)
    if at_once > 0:
        return at_once
    gpus = max((node.get("GPU", 0) for node in nodes), default=0)
    if gpus_per_trial > gpus:
        raise InputError(f"Expected gpus_per_trial={gpus_per_trial:g} to be at most the {gpus:g} GPUs of a node of the Ray cluster.")
    raise InputError(f"Expected the Ray cluster to have a node with one CPU and the {gpus_per_trial:g} GPUs of a trial.")


def trials_on(node: Resources, gpus_per_trial: float) -> int:
    """How many trials fit on one node at once: a trial runs on one node, and a share of a GPU is of one GPU."""
    cpus, gpus = int(node.get("CPU", 0)), int(node.get("GPU", 0))
    if gpus_per_trial == 0:
        return cpus
    if gpus_per_trial < 1:
        return min(cpus, gpus * int(1 / gpus_per_trial))
    return min(cpus, int(gpus // gpus_per_trial))
