"""How many trials the nodes of a cluster can run at once, from what Ray says of them."""

import warnings
from collections.abc import Mapping, Sequence

from search_spaces.errors import InputError

Resources = Mapping[str, float]
"""Amounts of `CPU` and `GPU` of one node, among others."""


def trials_at_once(gpus_per_trial: float, *, nodes: Sequence[Resources], growth: Sequence[tuple[Resources, int]] = ()) -> int:
    """How many trials of one CPU and so many GPUs a cluster can run at once, at least 1.

    A trial runs on one node. Where an autoscaler may add nodes, those count too; a warning says so if no node can serve yet.

    Args:
      gpus_per_trial: a fraction of one GPU, or a whole number of them.
      nodes: those that are there.
      growth: what an autoscaler may grow to: kinds of nodes, and how many of each in all (negative: any number).

    Raises:
      InputError: no node can serve, or will. Ray would wait for ever.
    """
    now = sum(trials_on(node, gpus_per_trial) for node in nodes)
    possible = max(now, sum((1 if count < 0 else count) * trials_on(node, gpus_per_trial) for node, count in growth))
    if possible == 0:
        gpus = max((node.get("GPU", 0) for node in nodes), default=0)
        if gpus_per_trial > gpus:
            raise InputError(f"Expected gpus_per_trial={gpus_per_trial:g} to be at most the {gpus:g} GPUs of a node of the Ray cluster.")
        raise InputError(f"Expected the Ray cluster to have a node with the CPU and the {gpus_per_trial:g} GPUs of one trial.")
    if now == 0:
        warnings.warn("No node of the Ray cluster can run a trial yet; its autoscaler has to add one.", stacklevel=1)
    return possible


def trials_on(node: Resources, gpus_per_trial: float) -> int:
    """How many trials fit on one node at once; a share of a GPU is of one GPU, never of two."""
    cpus, gpus = int(node.get("CPU", 0)), int(node.get("GPU", 0))
    if gpus_per_trial == 0:
        return cpus
    if gpus_per_trial < 1:
        return min(cpus, gpus * int(1 / gpus_per_trial))
    return min(cpus, int(gpus // gpus_per_trial))
