"""The two libraries that account for DP-SGD under random allocation, where they are installed; both serve one epoch.

PLD_accounting is a dependency of bandsmith. `random-allocation` needs numpy < 2.2, so it goes to an environment of its own:

    python -m venv peers && peers/bin/pip install -e . 'random-allocation==1.0.5' 'numpy<2.2'
    peers/bin/python -m benchmarks.balls_in_bins dp_sgd --out FOLDER
"""

import importlib.util
import warnings
from collections.abc import Callable, Mapping

from benchmarks.balls_in_bins.cases import Case

LARGEST_ORDER = 25
"""Largest α in the published comparison with `random-allocation`."""


def absent() -> tuple[str, ...]:
    """The peers that are not installed."""
    return tuple(name for name in ("PLD_accounting", "random_allocation") if importlib.util.find_spec(name) is None)


def _library(case: Case, *, sigma: float, delta: float, bound: str) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import PLD_accounting as library
    parameters = library.PrivacyParams(sigma=sigma, num_steps=case.bins, delta=delta)
    return float(library.gaussian_allocation_epsilon_configurable(
        params=parameters, config=library.AllocationSchemeConfig(), bound_type=library.BoundType[bound],
    ))


def _combined(case: Case, *, sigma: float, delta: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from random_allocation.comparisons.definitions import PrivacyParams, SchemeConfig
        from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined

        config = SchemeConfig(allocation_direct_alpha_orders=list(range(2, LARGEST_ORDER + 1)))
        return float(allocation_epsilon_combined(PrivacyParams(sigma=sigma, num_steps=case.bins, delta=delta), config))


ACCOUNTANTS: Mapping[str, Callable[..., float]] = {
    "PLD_accounting": lambda case, **target: _library(case, **target, bound="DOMINATES"),
    "PLD_accounting, lower": lambda case, **target: _library(case, **target, bound="IS_DOMINATED"),
    "random_allocation": _combined,
}
"""(case, σ, δ) → ε of the larger direction; the second is a lower bound."""


def partition_renyi(*, bins: int, order: int, sigma: float) -> float:
    """R_α of remove by `random-allocation`: a sum over the integer partitions of α, whose number grows exponentially."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from random_allocation.random_allocation_scheme import direct

        direct.generate_partitions.cache_clear()
        direct.allocation_RDP_remove.cache_clear()
        return float(direct.allocation_RDP_remove(order, sigma, bins))
