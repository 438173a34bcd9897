"""From a Rényi bound ρ(α) per step to (ε, δ) after T steps, and the choice of the order.

Source: math/fixed-size-batches.md, section 7. ε(α) = Tρ + log(1−1/α) − log(δα)/(α−1). With κ = (α−1)ρ convex in α, (α−1)ε(α) is strictly
convex, so ε(α) is unimodal; log δ(α) = Tκ − (α−1)ε + (α−1)log(α−1) − α log α is convex itself. Either way the best integer order is found
by bisection on cost(m) <= cost(m+1). A worse order is never an invalid one.
"""

import dataclasses
import fractions
import math
from collections.abc import Callable

from accountants.fixed_size.balls import exact, precision, round_up

DEFAULT_CAP = 256
LARGEST_CAP = 1 << 15
_BITS = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderChoice:
    """The order a search chose.

    Attributes:
      order: α >= 2.
      cap: the largest order that was allowed; more than `DEFAULT_CAP` where the search had to widen it.
      at_cap: True if even `LARGEST_CAP` was the best order, so that a larger one might give less.
    """

    order: int
    cap: int
    at_cap: bool

    def describe(self) -> dict[str, object]:
        """For `Evidence.details`; says whenever the cap was touched."""
        notes = {"order": self.order, "order_cap": self.cap}
        if self.cap > DEFAULT_CAP:
            notes["order_note"] = f"the best order reaches the usual cap {DEFAULT_CAP}, so the cap was widened to {self.cap}"
        if self.at_cap:
            notes["order_note"] = f"the best order is at the largest cap {LARGEST_CAP}; the result holds, a larger order might improve it"
        return notes


def epsilon_at(order: int, rho: float, *, iterations: int, delta: float) -> float:
    """ε(α) in float64, unclipped."""
    return iterations * rho + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def log_delta_at(order: int, rho: float, *, iterations: int, epsilon: float) -> float:
    """log δ(α) in float64, unclipped."""
    return (order - 1) * (iterations * rho - epsilon + math.log1p(-1 / order)) - math.log(order)


def epsilon_bound(order: int, rho: float, *, iterations: int, delta: float) -> float:
    """ε(α) >= 0 from an upper bound `rho`, rounded up."""
    with precision(_BITS):
        ball = iterations * exact(rho) + (1 - 1 / exact(order)).log() - (exact(delta) * order).log() / (order - 1)
        return max(0.0, round_up(ball))


def delta_bound(order: int, rho: float, *, iterations: int, epsilon: float) -> float:
    """δ(α) <= 1 from an upper bound `rho`, rounded up."""
    with precision(_BITS):
        exponent = (order - 1) * (iterations * exact(rho) - exact(epsilon) + (1 - 1 / exact(order)).log())
        return min(1.0, round_up(exponent.exp() / order))


def best_order(cost: Callable[[int], float]) -> OrderChoice:
    """The integer order >= 2 with the least cost, for a unimodal cost; the cap doubles as long as the best order sits at it."""
    low, cap = 2, DEFAULT_CAP
    while True:
        order = _first_rise(cost, low, cap)
        if order < cap or cap >= LARGEST_CAP:
            return OrderChoice(order=order, cap=cap, at_cap=order == cap)
        low, cap = cap, 2 * cap


def _first_rise(cost: Callable[[int], float], low: int, high: int) -> int:
    """The smallest m in [low, high) with cost(m) <= cost(m+1), else `high`."""
    while low < high:
        middle = (low + high) // 2
        if cost(middle) <= cost(middle + 1):
            high = middle
        else:
            low = middle + 1
    return low


def certified_gap(iterations: int, scale: float) -> float:
    """γ per step such that the slack in ε after all T steps is 10⁻⁷·scale, scale > 0."""
    return float(fractions.Fraction(scale) / (10**7 * iterations))
