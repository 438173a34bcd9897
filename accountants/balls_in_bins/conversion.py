"""From moments and Gaussian bounds to (ε, δ) (math/balls-in-bins.md, sections (c) and (d)); everything is rounded up."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import scipy.optimize

ROUND_UP = 1e-12
"""Relative inflation that covers the few dozen float64 roundings of a closed form."""

_STEPS_PER_ORDER = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """An upper bound (δ at a given ε, or ε at a given δ) and how it was found, in plain JSON values."""

    value: float
    details: Mapping[str, object]


def best(bounds: Iterable[Bound]) -> Bound:
    """The smallest of several bounds on the same number."""
    return min(bounds, key=lambda bound: bound.value)


def smallest_epsilon(
    delta_at: Callable[[float], float], delta: float, *, start: float = 1e-3, smallest: float = 0.0, largest: float = 1e6
) -> float:
    """An ε in [smallest, largest] at which `delta_at` was itself found to be at most δ, next to the last one where it was not.

    `delta_at` should not increase; where it does, the result is still an ε whose own δ was checked. Infinite if nothing up to `largest`
    will do.
    """
    if delta_at(smallest) <= delta:
        return smallest
    low, high = smallest, max(start, 1.01 * smallest)
    while delta_at(high) > delta:
        low, high = high, 2.0 * high
        if high > largest:
            return math.inf
    excess = lambda epsilon: math.log(max(delta_at(epsilon), 1e-300) / delta)
    root = scipy.optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-10) if excess(high) < 0 else high
    nudge = 1e-10
    while (found := min(high, root * (1 + nudge))) < high and delta_at(found) > delta:
        nudge *= 4.0
    return found


def real_orders(order: int) -> np.ndarray:
    """Real α in (1, order] at which conversions look: the integers and equal steps between them."""
    return 1.0 + np.arange(1, _STEPS_PER_ORDER * (order - 1) + 1) / _STEPS_PER_ORDER


def interpolated(log_moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(α, upper bounds on log E_Q X^α) at `real_orders`: log E_Q X^α is convex in α, so chords between integers are above it."""
    orders = real_orders(len(log_moments) - 1)
    below = np.minimum(orders.astype(int), len(log_moments) - 2)
    part = orders - below
    with np.errstate(invalid="ignore"):
        chords = (1 - part) * log_moments[below] + part * log_moments[below + 1]
    logs = np.where(part == 0, log_moments[below], np.where(part == 1, log_moments[below + 1], chords))
    return orders, np.where(np.isnan(logs), np.inf, logs)


def delta_from_moments(log_moments: np.ndarray, *, epsilon: float) -> tuple[float, float]:
    """(δ, the α that gives it): δ = min_α e^{log E_Q X^α − (α−1)ε} (1−1/α)^α / (α−1).

    Args:
      log_moments: (A+1,) upper bounds on log E_Q X^t, t = 0..A; infinite ones are not used.
      epsilon: ε >= 0.
    """
    orders, logs = interpolated(log_moments)
    log_delta = logs - (orders - 1) * epsilon + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    at = int(np.argmin(log_delta))
    return float(min(1.0, math.exp(min(0.0, log_delta[at] + ROUND_UP * (1 + orders[at] * epsilon))))), float(orders[at])


def epsilon_from_moments(log_moments: np.ndarray, *, delta: float) -> tuple[float, float]:
    """(ε, the α that gives it): the inverse of `delta_from_moments`; ε is infinite if no moment is finite."""
    orders, logs = interpolated(log_moments)
    epsilons = (logs + orders * np.log1p(-1 / orders) - math.log(delta) - np.log(orders - 1)) / (orders - 1)
    at = int(np.argmin(epsilons))
    return float(max(0.0, epsilons[at] + ROUND_UP * (1 + abs(epsilons[at])))), float(orders[at])
