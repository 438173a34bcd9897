"""Privacy loss distributions of Gaussian mixtures on a grid, and their composition (math/balls-in-bins.md, section (e), composition).

The mass of every cell of losses goes to its two ends so that the masses under both laws are kept. This interpolates the convex function
γ → H_γ linearly between grid points, so the result dominates. `remove`: upper law the mixture, lower law N(0, σ²); `add`: the other way
round.
"""

import dataclasses
import math

import numpy as np
import scipy.fft
from scipy.special import ndtr

from accountants.balls_in_bins.conversion import smallest_epsilon
from accountants.balls_in_bins.hazards import Mixture
from accountants.gaussian import interval_probabilities

_REACH = 9.5
"""Standard deviations kept; Φ(−9.5) = 1e-21 is what each step adds to the mass at infinity."""

_TABLE = 2001
_NEWTON_STEPS = 3
_DIRECT = 200
_FFT_ROUNDING = 4.0 * np.finfo(np.float64).eps
"""Relative L2 error of one transform per log2 of its length, a few times the usual bound."""

_TAIL = 1e-16
_ROUND_UP = 1e-9
_LOSS_ROUNDING = 1e-9
"""Losses at the ends of cells are off by less than 1e-13 each; this covers 10⁴ steps."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LossDistribution:
    """Mass under the upper law of the losses interval·(first + 0, 1, …), and at infinity."""

    interval: float
    first: int
    mass: np.ndarray
    infinity: float

    def delta(self, epsilon: float) -> float:
        """δ(ε) = mass at infinity + Σ_{loss > ε} mass·(1 − e^{ε−loss}), rounded up."""
        epsilon -= _LOSS_ROUNDING
        start = max(0, math.floor(epsilon / self.interval) - self.first)
        losses = self.interval * (self.first + np.arange(start, len(self.mass)))
        paid = float(self.mass[start:] @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
        return min(1.0, (self.infinity + paid) * (1 + _ROUND_UP))

    def epsilon(self, delta: float) -> float:
        """The smallest ε >= 0 found with `delta` at most δ; infinite if the mass at infinity is more than δ."""
        if self.infinity * (1 + _ROUND_UP) > delta:
            return math.inf
        return smallest_epsilon(self.delta, delta, start=self.interval)


def _ends(mixture: Mixture, sigma: float, direction: str) -> np.ndarray:
    """Where the upper law has its mass."""
    return np.array([-_REACH * sigma, _REACH * sigma + (mixture.means[-1] if direction == "remove" else 0.0)])


def loss_range(mixture: Mixture, *, sigma: float, direction: str) -> float:
    """The width of the losses within reach."""
    return float(np.diff(_log_ratio(mixture, _ends(mixture, sigma, direction), sigma)[0])[0])


def mixture_losses(mixture: Mixture, *, sigma: float, direction: str, interval: float) -> LossDistribution:
    """The loss distribution of one step."""
    if mixture.means[-1] == 0.0:
        return LossDistribution(interval=interval, first=0, mass=np.ones(1), infinity=0.0)
    # The loss at y is log(dP/dQ)(y) for remove and minus that for add.
    table = np.linspace(*_ends(mixture, sigma, direction), _TABLE)
    logs, _ = _log_ratio(mixture, table, sigma)
    first, last = math.floor(logs[0] / interval), math.ceil(logs[-1] / interval)
    grid = interval * np.arange(first, last + 1)
    y = np.interp(grid[1:-1], logs, table)
    for _ in range(_NEWTON_STEPS):
        at, slope = _log_ratio(mixture, y, sigma)
        y -= (at - grid[1:-1]) / slope
    edges = np.r_[table[0], np.clip(np.maximum.accumulate(y), table[0], table[-1]), table[-1]]
    under_mixture = mixture.weights @ interval_probabilities((edges[None, :] - mixture.means[:, None]) / sigma)
    under_null = interval_probabilities(edges[None, :] / sigma)[0]
    if direction == "remove":
        beyond = float(mixture.weights @ ndtr(-(table[-1] - mixture.means) / sigma))
        below = float(mixture.weights @ ndtr((table[0] - mixture.means) / sigma))
        return _split(interval, first, under_mixture, under_null, below, beyond)
    # Losses are −grid: reversed, with the upper law N(0, σ²); y below the table has the largest losses.
    tail = float(ndtr(table[0] / sigma))
    return _split(interval, -last, under_null[::-1], under_mixture[::-1], tail, tail)


def _split(interval: float, first: int, upper: np.ndarray, lower: np.ndarray, below: float, beyond: float) -> LossDistribution:
    """Cells between grid points first, first+1, … with their masses under both laws, each shared between its two ends."""
    with np.errstate(divide="ignore"):
        # What the upper law would have if all its mass were at the left end: e^loss times the lower law.
        least = np.exp(np.minimum(interval * (first + np.arange(len(upper))) + np.log(lower), 0.0))
    right = np.clip((upper - least) / -math.expm1(-interval), 0.0, upper)
    mass = np.zeros(len(upper) + 1)
    mass[1:] += right
    mass[:-1] += upper - right
    mass[0] += below
    return LossDistribution(interval=interval, first=first, mass=mass, infinity=beyond)


def _log_ratio(mixture: Mixture, y: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """(log dP/dQ, its derivative) at y; bins without weight are left out."""
    present = mixture.weights > 0
    means, weights = mixture.means[present], mixture.weights[present]
    exponents = (np.multiply.outer(means, y) - 0.5 * (means**2)[:, None]) / sigma**2
    largest = exponents.max(axis=0)
    terms = np.exp(exponents - largest)
    total = weights @ terms
    return largest + np.log(total), np.maximum((weights * means) @ terms / total, 1e-300) / sigma**2


def compose(parts: list[LossDistribution]) -> LossDistribution:
    """The loss distribution of all parts together, pairwise, small ones first; the grids must be the same."""
    while len(parts) > 1:
        paired = [compose_pair(one, other) for one, other in zip(parts[::2], parts[1::2])]
        parts = paired + parts[2 * len(paired) :]
    return parts[0]


def self_compose(part: LossDistribution, times: int) -> LossDistribution:
    """`times` copies of one part."""
    result, square = None, part
    while times:
        if times & 1:
            result = square if result is None else compose_pair(result, square)
        times >>= 1
        if times:
            square = compose_pair(square, square)
    return result


def compose_pair(one: LossDistribution, other: LossDistribution) -> LossDistribution:
    """Convolution; its rounding error and its cut upper tail go to infinity, its cut lower tail up to the first point kept."""
    mass, rounding = _convolve(one.mass, other.mass)
    infinity = one.infinity + other.infinity - one.infinity * other.infinity + rounding
    upper = np.cumsum(mass[::-1])
    cut_above = int(np.searchsorted(upper, _TAIL, side="right"))
    lower = np.cumsum(mass)
    cut_below = int(np.searchsorted(lower, _TAIL, side="right"))
    if cut_above:
        infinity += float(upper[cut_above - 1])
        mass = mass[:-cut_above]
    if cut_below:
        mass = mass[cut_below:].copy()
        mass[0] += float(lower[cut_below - 1])
    return LossDistribution(interval=one.interval, first=one.first + other.first + cut_below, mass=mass, infinity=infinity)


def _convolve(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, float]:
    """(convolution >= 0, bound on the sum of its absolute errors)."""
    if min(len(one), len(other)) <= _DIRECT:
        return np.convolve(one, other), 0.0
    size = scipy.fft.next_fast_len(len(one) + len(other) - 1, real=True)
    product = scipy.fft.irfft(scipy.fft.rfft(one, size) * scipy.fft.rfft(other, size), size)[: len(one) + len(other) - 1]
    norms = float(np.linalg.norm(one)) + float(np.linalg.norm(other))
    return np.maximum(product, 0.0), _FFT_ROUNDING * math.log2(size) * math.sqrt(size) * norms
