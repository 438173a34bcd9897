"""The law of a likelihood ratio W = P/Q under Q on a geometric grid, rounded up in convex order: one law that bounds both directions.

Both divergences are expectations of convex functions of W under Q: H(P, Q) = E_Q (W − e^ε)_+ and H(Q, P) = E_Q (1 − e^ε W)_+. So a law that
is larger in convex order (a mean-preserving spread) bounds both from above. Spreads survive what is done here: a sum of independent ratios
(the mixture of n equally likely mechanisms has W = mean of n independent ratios) and a product (composition) are convex in each factor.
Every rounding below therefore splits mass between the two neighbouring grid points so that the mean is kept, which errs by the square of
the step. What lies above the grid is kept as P-mass at W = ∞, what lies below it as Q-mass at W = 0.

An allocation of 1 step out of n has W = (1/n) Σ exp(μ z_i − μ²/2); K out of n·K steps is bounded by K compositions of it, because a uniform
K-subset is one step from each group of a uniform partition into K groups, and the partition can be made public (joint convexity).
"""

import dataclasses
import math

import numpy as np
from scipy.special import ndtr

from accountants.gaussian import interval_probabilities

_POINTS = 800
"""A law is moved to half its step whenever fewer points than this carry it."""

_MOST_POINTS = 2**16
_FARTHEST = 10.0
"""Normal quantile at which one mechanism's grid ends; Φ(−10) is 1e-23."""

_TRIMMED = 1e-20
_SUBSAMPLED_CELL = 0.03
"""Step of a subsampled mechanism's law in standard deviations of log W under Q."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RatioLaw:
    """W = e^{j·step} with Q-probability masses[j − first].

    Attributes:
      step: distance of neighbouring log W, > 0.
      first: j of the first mass.
      masses: (points,) float64, >= 0.
      at_zero: Q-probability of W = 0.
      at_infinity: P-probability of W = ∞.
    """

    step: float
    first: int
    masses: np.ndarray
    at_zero: float
    at_infinity: float

    @property
    def last(self) -> int:
        """j of the last mass."""
        return self.first + self.masses.size - 1

    @property
    def ratios(self) -> np.ndarray:
        """(points,) float64: e^{j·step}."""
        return np.exp(self.step * np.arange(self.first, self.last + 1))

    def refined(self, times: int = 1) -> "RatioLaw":
        """The same law on a grid of step/2^times."""
        factor = 2**times
        masses = np.zeros(factor * (self.masses.size - 1) + 1)
        masses[::factor] = self.masses
        return dataclasses.replace(self, step=self.step / factor, first=self.first * factor, masses=masses)


def subsampled_gaussian_law(*, mu: float, probability: float) -> RatioLaw:
    """W = 1 − q + q·exp(μz − μ²/2): one step of Poisson sampling with probability q in (0, 1]."""
    log_miss, log_hit = np.log1p(-probability) if probability < 1 else -math.inf, math.log(probability)
    log_ratio = lambda z: np.logaddexp(log_miss, log_hit + mu * z - mu * mu / 2)
    bottom, top = max(log_miss, log_ratio(-_FARTHEST)), log_ratio(mu + _FARTHEST)
    z = np.linspace(-_FARTHEST, _FARTHEST, 721)
    spread = math.sqrt(np.cov(log_ratio(z), aweights=np.exp(-z * z / 2), ddof=0))
    step = max(_SUBSAMPLED_CELL * spread, (top - bottom) / _MOST_POINTS)
    first = math.floor(bottom / step)
    edges = step * np.arange(first, math.ceil(top / step) + 1)
    # W = e^edge at q·e^{μz − μ²/2} = e^edge − (1 − q); an edge below the smallest W has no such z.
    with np.errstate(divide="ignore"):
        log_excess = edges + np.log(np.maximum(-np.expm1(log_miss - edges), 0.0))
    z = (log_excess - log_hit + mu * mu / 2) / mu
    return _spread_law(step=step, first=first, z=z, mu=mu, constant=1 - probability, scale=probability)


def mean_gaussian_law(*, mu: float, steps: int) -> RatioLaw:
    """W = mean of `steps` independent exp(μz − μ²/2): 1-out-of-`steps` random allocation."""
    span = mu * (mu + 2 * _FARTHEST)
    step = span / _POINTS
    offset = mu * mu / 2 + math.log(steps)
    first = math.floor((-_FARTHEST * mu - offset) / step)
    edges = step * np.arange(first, first + _POINTS + 2)
    return _power(_spread_law(step=step, first=first, z=(edges + offset) / mu, mu=mu, constant=0.0, scale=1 / steps), steps)


def aligned(a: RatioLaw, b: RatioLaw) -> tuple[RatioLaw, RatioLaw]:
    """Two laws whose steps differ by a power of two, on the finer grid."""
    difference = round(math.log2(a.step / b.step))
    return a.refined(max(difference, 0)), b.refined(max(-difference, 0))


def _spread_law(*, step: float, first: int, z: np.ndarray, mu: float, constant: float, scale: float) -> RatioLaw:
    """The law of W = constant + scale·exp(μz − μ²/2), which passes the grid points at the given z, every cell spread to its two ends."""
    inside, below, above = _cell_probabilities(z)
    tilted, tilted_below, tilted_above = _cell_probabilities(z - mu)
    ratios = np.exp(step * np.arange(first, first + z.size))
    means = constant * inside + scale * tilted
    up = np.clip((means / ratios[:-1] - inside) / math.expm1(step), 0.0, inside)
    masses = np.zeros(z.size)
    masses[:-1] += inside - up
    masses[1:] += up
    lowest = min(below, (constant * below + scale * tilted_below) / ratios[0])
    masses[0] += lowest
    masses[-1] += above
    at_infinity = max(0.0, (constant - ratios[-1]) * above + scale * tilted_above)
    return RatioLaw(step=step, first=first, masses=masses, at_zero=below - lowest, at_infinity=at_infinity)


def _cell_probabilities(z: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Normal probabilities between neighbouring z, below the first and above the last."""
    return interval_probabilities(z), float(ndtr(z[0])), float(ndtr(-z[-1]))


def _power(law: RatioLaw, times: int) -> RatioLaw:
    """The law of the sum of `times` independent copies, by repeated doubling."""
    total = None
    while True:
        if times & 1:
            total = law if total is None else _sum(*aligned(total, law))
        times >>= 1
        if not times:
            return total
        law = _sum(law, law)


def _sum(a: RatioLaw, b: RatioLaw) -> RatioLaw:
    """The law of the sum of two independent ratios on one grid.

    log(e^{i·step} + e^{(i+lag)·step}) − max(i, i+lag)·step depends on the lag alone, so all pairs of one lag move by one shift and split in
    one proportion: a loop over lags, not over pairs.
    """
    # Both orders of a pair of equal laws are the same, so half of the lags serve.
    lags = np.arange(0 if a is b else b.first - a.last, b.last - a.first + 1)
    weights = np.where((lags > 0) & (a is b), 2.0, 1.0)
    gains = np.log1p(np.exp(-a.step * np.abs(lags)))
    shifts = np.floor(gains / a.step).astype(int)
    ups = np.clip(np.expm1(gains - a.step * shifts) / math.expm1(a.step), 0.0, 1.0)
    starts = np.maximum(a.first, b.first - lags)
    stops = np.minimum(a.last, b.last - lags) + 1
    targets = starts + np.maximum(lags, 0) + shifts
    first = int(targets.min())
    masses = np.zeros(int((targets + stops - starts).max()) + 1 - first)
    for lag, weight, up, start, stop, target in zip(lags, weights, ups, starts, stops, targets - first):
        pairs = a.masses[start - a.first : stop - a.first] * b.masses[start + lag - b.first : stop + lag - b.first]
        pairs *= weight
        upper = up * pairs
        masses[target : target + pairs.size] += pairs - upper
        masses[target + 1 : target + 1 + pairs.size] += upper
    return _refined_if_narrow(_trimmed(_with_zeros(a, b, RatioLaw(
        step=a.step, first=first, masses=masses, at_zero=a.at_zero * b.at_zero, at_infinity=a.at_infinity + b.at_infinity
    ))))


def _with_zeros(a: RatioLaw, b: RatioLaw, both: RatioLaw) -> RatioLaw:
    """Adds to the law of the sum the pairs of which one is 0, spread to 0 and to the last point (their mass is tiny)."""
    mass = a.masses.sum() * b.at_zero + b.masses.sum() * a.at_zero
    mean = (a.masses @ a.ratios) * b.at_zero + (b.masses @ b.ratios) * a.at_zero
    masses = both.masses.copy()
    highest = mean / both.ratios[-1]
    masses[-1] += highest
    return dataclasses.replace(both, masses=masses, at_zero=both.at_zero + max(0.0, mass - highest))


def _refined_if_narrow(law: RatioLaw) -> RatioLaw:
    return law if law.masses.size >= _POINTS else law.refined()


def _trimmed(law: RatioLaw) -> RatioLaw:
    """The law without its outermost points, whose mass and mean go to the new ends, to W = 0 and to W = ∞."""
    ratios = law.ratios
    moments = law.masses * ratios
    low = int(np.searchsorted(np.cumsum(law.masses), _TRIMMED))
    high = law.masses.size - int(np.searchsorted(np.cumsum(moments[::-1]), _TRIMMED * moments.sum()))
    below, above = law.masses[:low].sum(), law.masses[high:].sum()
    lowest = min(below, moments[:low].sum() / ratios[low])
    masses = law.masses[low:high].copy()
    masses[0] += lowest
    masses[-1] += above
    return dataclasses.replace(
        law, first=law.first + low, masses=masses,
        at_zero=law.at_zero + below - lowest,
        at_infinity=law.at_infinity + max(0.0, moments[high:].sum() - above * ratios[high - 1]),
    )
