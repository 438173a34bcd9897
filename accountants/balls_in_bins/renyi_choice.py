"""The Rényi accountant's own choice of truncation, bandwidth, stride, order and conversion, by a fixed budget of operations.

Directions are converted separately (math/balls-in-bins.md, section (d)): the maximum of the two directions' own minima over α is never more
than the conversion of a common maximum. Every candidate is a bound, so the smallest one may be kept; the details say which one it was.
"""

import dataclasses
import math

import numpy as np

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.conversion import Bound, best, delta_from_moments, epsilon_from_moments
from accountants.balls_in_bins.gram import cyclic_bandwidth
from accountants.balls_in_bins.renyi_add import shifted_gaussian_delta, shifted_gaussian_epsilon
from accountants.balls_in_bins.renyi_truncations import Majorant
from accountants.balls_in_bins.shifted_moments import ShiftedMoments, shifted_moments
from search_spaces import checks

BUDGET = 3e8
"""Multiplications for one bound: one to two seconds on one core."""

_FIRST_BUDGET = 1e6
_PRECISE_SHARE = 0.1
_LARGEST_ORDERS = {1: 128}
_LARGEST_ORDER = 96
_FIRST_ORDER = 24
_LARGEST_SHIFTED_ORDERS = {1: 40}
_LARGEST_SHIFTED_ORDER = 20
_BANDWIDTHS = (1, 2, 3, 4)
_STRIDES_TRIED = 12
_KEPT = 3
_LARGEST_EPSILON = 100.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of every candidate: δ at `epsilon`, or ε at `delta` (exactly one is given), at σ."""

    sigma: float
    epsilon: float | None = None
    delta: float | None = None

    def from_moments(self, log_moments: np.ndarray) -> tuple[float, float]:
        """(answer, α)."""
        if self.delta is not None:
            return epsilon_from_moments(log_moments, delta=self.delta)
        return delta_from_moments(log_moments, epsilon=self.epsilon)

    def from_shifted_moments(self, table: ShiftedMoments, direction: str) -> tuple[float, int]:
        """(answer, m)."""
        if self.delta is not None:
            return table.epsilon(direction=direction, delta=self.delta, largest=_LARGEST_EPSILON)
        return table.delta(direction=direction, epsilon=self.epsilon)

    def from_gaussian(self, gram: np.ndarray) -> float:
        """The shifted-Gaussian answer of the add direction."""
        if self.delta is not None:
            return shifted_gaussian_epsilon(gram, sigma=self.sigma, delta=self.delta)
        return shifted_gaussian_delta(gram, sigma=self.sigma, epsilon=self.epsilon)


def largest_order(majorant: Majorant, *, budget: float, at_most: int) -> int:
    """The largest α <= at_most whose exact sum costs at most `budget` multiplications; at least 2."""
    wraps = truncations.wraps(majorant.band, bandwidth=majorant.bandwidth)
    order = 2
    while order < at_most and truncations.operations(
        bins=len(majorant.band), bandwidth=majorant.bandwidth, order=order + 1, wraps=wraps
    ) <= budget:
        order += 1
    return order


def renyi_bounds(
    gram: np.ndarray, *, sigma: float, epsilon: float | None = None, delta: float | None = None, budget: float = BUDGET
) -> tuple[Bound, Bound]:
    """The Rényi accountant's bounds for `remove` and `add`: on δ at ε, or on ε at δ.

    Args:
      gram: (b, b) float64, the Gram matrix.
      sigma: σ > 0.
      epsilon, delta: exactly one of them.
      budget: multiplications per candidate that is pursued.

    Raises:
      InputError: σ or the budget is not positive.
    """
    question = Question(sigma=checks.positive(sigma=sigma), epsilon=epsilon, delta=delta)
    budget = checks.positive(budget=budget)
    finalists = _finalists(gram, question, budget)
    remove = [_renyi(majorant, question, order) for majorant, order in finalists]
    add = [Bound(value=question.from_gaussian(gram), details={"conversion": "shifted_gaussian"})]
    for majorant, _ in finalists:
        table, order = _shifted_table(majorant, question, budget)
        for direction, bounds in (("remove", remove), ("add", add)):
            value, m = question.from_shifted_moments(table, direction)
            bounds.append(Bound(value=value, details={**majorant.describe, "conversion": "shifted_moments", "order": order, "alpha": m}))
    return best(remove), best(add)


def _renyi(majorant: Majorant, question: Question, order: int) -> Bound:
    value, alpha = question.from_moments(majorant.moments(sigma=question.sigma, order=order).upper_logs())
    return Bound(value=value, details={**majorant.describe, "conversion": "renyi", "order": order, "alpha": alpha})


def _shifted_table(majorant: Majorant, question: Question, budget: float) -> tuple[ShiftedMoments, int]:
    at_most = _LARGEST_SHIFTED_ORDERS.get(majorant.bandwidth, _LARGEST_SHIFTED_ORDER)
    order = largest_order(majorant, budget=_PRECISE_SHARE * budget, at_most=at_most)
    return shifted_moments(majorant, sigma=question.sigma, order=order), order


def _finalists(gram: np.ndarray, question: Question, budget: float) -> list[tuple[Majorant, int]]:
    """The majorants to pursue with their orders, best first, from a first round with small orders."""
    ranked = []
    for majorant in _candidates(gram, budget):
        order = largest_order(majorant, budget=_FIRST_BUDGET, at_most=_FIRST_ORDER)
        first = _renyi(majorant, question, order)
        ranked.append((first.value, first.details["alpha"] < order - 1, majorant, order))
    ranked.sort(key=lambda entry: entry[0])
    finalists = []
    # Small orders flatter a narrow band, so the exact sum goes on whatever its rank.
    for _, settled, majorant, order in ranked[:_KEPT] + [entry for entry in ranked[_KEPT:] if entry[2].method == "exact"]:
        if not settled:
            order = largest_order(majorant, budget=budget, at_most=_LARGEST_ORDERS.get(majorant.bandwidth, _LARGEST_ORDER))
        finalists.append((majorant, order))
    return finalists


def _candidates(gram: np.ndarray, budget: float) -> list[Majorant]:
    """The exact sum if α = 6 is within the budget, and shifted truncations of all bins or of one bin in r."""
    whole = truncations.exact(gram)
    found: list[Majorant] = []
    if truncations.operations(
        bins=len(gram), bandwidth=whole.bandwidth, order=6, wraps=truncations.wraps(gram, bandwidth=whole.bandwidth)
    ) <= budget:
        found.append(whole)
    for stride in _strides(len(gram), whole.bandwidth):
        thinned = truncations.thinned_gram(gram, stride=stride)
        band = cyclic_bandwidth(thinned)
        for bandwidth in sorted({min(bandwidth, band) for bandwidth in _BANDWIDTHS}):
            if stride == 1 and bandwidth == band:
                continue
            majorant = truncations.shifted(thinned, bandwidth=bandwidth)
            found.append(majorant if stride == 1 else dataclasses.replace(majorant, method="thinned", stride=stride))
    return found or [truncations.shifted(gram, bandwidth=1)]


def _strides(bins: int, bandwidth: int) -> list[int]:
    """1, the bandwidth, and strides spread evenly in logarithm."""
    every = truncations.strides(bins)
    at = np.unique(np.round(np.linspace(0, len(every) - 1, min(len(every), _STRIDES_TRIED))).astype(int))
    return sorted({1, min(bandwidth, bins)} | {every[i] for i in at})
