"""Privacy profile by Gram monotonicity (math/balls-in-bins.md, section (g)): no Rényi conversion, no bad event, exact for C = I.

H_γ is monotone in the entries of G (Kahane's convexity inequality), and it is at most that of one bin in r, evenly spaced. With g the
largest diagonal entry and c_r the largest entry at cyclic distance r or more,

    H_γ <= H_γ[ 1-of-⌊b/r⌋ allocation with v² = (g−c_r)/σ², composed with a Gaussian mechanism of μ² = c_r/σ² ],    r = 1, …, b.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from accountants.balls_in_bins.allocation_law import Allocation, AllocationBound
from accountants.balls_in_bins.conversion import Bound, best, delta_from_moments, epsilon_from_moments
from accountants.balls_in_bins.gram import lag_maxima
from accountants.balls_in_bins.renyi_dp import diagonal_moments
from accountants.balls_in_bins.renyi_truncations import strides
from accountants.gaussian import gaussian_delta_bounds, gaussian_epsilon

_RANKING_ORDER = 24
_TRIED = 4
_LARGEST_BIN_MU, _LARGEST_EPSILON = 5.0, 60.0
"""Beyond these a sum of lognormals has no useful grid, and amplification takes only about log b off ε: the Gaussian mechanism serves."""

_ROUND_UP = 1 + 1e-14


@dataclasses.dataclass(frozen=True, kw_only=True)
class StrideMajorant:
    """One stride r: `bins` = ⌊b/r⌋, `own` = g − c_r and `common` = c_r (both before division by σ²)."""

    stride: int
    bins: int
    own: float
    common: float

    def allocation(self, sigma: float) -> Allocation:
        return Allocation(
            bins=self.bins, bin_mu=math.sqrt(self.own) / sigma * _ROUND_UP, common_mu=math.sqrt(self.common) / sigma * _ROUND_UP,
        )

    def log_moments(self, sigma: float, order: int) -> np.ndarray:
        """(order+1,) upper bounds on log E_Q X^t."""
        t = np.arange(order + 1)
        inner = diagonal_moments(np.full(self.bins, self.own), sigma=sigma, order=order)
        return inner.upper_logs() + 0.5 * t * (t - 1) * self.common / sigma**2 * _ROUND_UP

    def gaussian_mu(self, sigma: float) -> float | None:
        """μ where this majorant is a plain Gaussian mechanism (one bin, or bins that all move together), else None."""
        if self.bins > 1 and self.own > 1e-12 * self.common:
            return None
        return math.sqrt(self.own + self.common) / sigma * _ROUND_UP


def stride_majorants(gram: np.ndarray) -> tuple[StrideMajorant, ...]:
    """One majorant for every number of remaining bins: the largest stride that leaves it, as c_r falls with r."""
    maxima = lag_maxima(gram)
    largest = float(maxima[0])
    # maxima is symmetric under d → b−d, so its reach from lag r to b−r is what is at cyclic distance r or more.
    found = []
    for stride in strides(len(gram)):
        common = float(maxima[stride : len(gram) - stride + 1].max(initial=0.0))
        common = min(common, largest)
        found.append(StrideMajorant(stride=stride, bins=len(gram) // stride, own=largest - common, common=common))
    return tuple(found)


def pld_delta(gram: np.ndarray, *, sigma: float, direction: str, epsilon: float) -> Bound:
    """δ at ε in one direction, minimised over the strides that moments say are the best.

    Raises:
      NumericalError: the numerical law of a sum cannot be trusted.
    """
    rank = lambda majorant: delta_from_moments(majorant.log_moments(sigma, _RANKING_ORDER), epsilon=epsilon)[0]
    return best(
        Bound(value=_delta_at(majorant, sigma, direction, epsilon), details={"stride": majorant.stride})
        for majorant in _promising(gram, rank)
    )


def pld_epsilon(gram: np.ndarray, *, sigma: float, direction: str, delta: float) -> Bound:
    """ε at δ in one direction; as `pld_delta`."""
    rank = lambda majorant: epsilon_from_moments(majorant.log_moments(sigma, _RANKING_ORDER), delta=delta)[0]
    found = Bound(value=math.inf, details={})
    for majorant in _promising(gram, rank):
        # A stride that cannot meet δ at the ε found so far cannot improve on it.
        if math.isfinite(found.value) and _delta_at(majorant, sigma, direction, found.value) > delta:
            continue
        start = max(1e-3, min(rank(majorant), found.value, 50.0))
        found = best([found, Bound(value=_epsilon_at(majorant, sigma, direction, delta, start), details={"stride": majorant.stride})])
    return found


def _delta_at(majorant: StrideMajorant, sigma: float, direction: str, epsilon: float) -> float:
    mu = majorant.gaussian_mu(sigma)
    if mu is not None:
        return float(gaussian_delta_bounds(epsilon=epsilon, mu=mu)[1])
    allocation = majorant.allocation(sigma)
    if allocation.bin_mu > _LARGEST_BIN_MU or epsilon > _LARGEST_EPSILON:
        return 1.0
    return AllocationBound(allocation, direction=direction).law(epsilon).delta(epsilon)


def _epsilon_at(majorant: StrideMajorant, sigma: float, direction: str, delta: float, start: float) -> float:
    mu = majorant.gaussian_mu(sigma)
    if mu is not None:
        return max(0.0, gaussian_epsilon(delta=delta, mu=mu))
    allocation = majorant.allocation(sigma)
    if allocation.bin_mu > _LARGEST_BIN_MU:
        return math.inf
    return AllocationBound(allocation, direction=direction).epsilon(delta, start=start)


def _promising(gram: np.ndarray, rank: Callable[[StrideMajorant], float]) -> list[StrideMajorant]:
    """The few majorants with the smallest Rényi bounds, best first, and always the plain Gaussian mechanism."""
    majorants = stride_majorants(gram)
    ranked = sorted(majorants, key=rank)[:_TRIED]
    return ranked if majorants[-1] in ranked else [*ranked, majorants[-1]]
