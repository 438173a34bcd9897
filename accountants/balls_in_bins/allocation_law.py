"""Upper bounds on H_γ of 1-of-q random allocation composed with a Gaussian mechanism (math/balls-in-bins.md, section (g), numerics).

X = e^{μz₀−μ²/2} · (1/q) Σ_i e^{v z_i − v²/2} with independent standard normal z.

The law of one summand is put on a grid by splitting the mass of every cell between its ends so that mass and mean are kept. That is a
mean-preserving spread, which can only raise E f of the sum for convex f, so one law serves both directions. The q-fold sum is one power
of a discrete Fourier transform of the exponentially tilted law; the tilt moves the accuracy to where the payoff is. `add` needs E_Q of a
payoff; `remove` needs E_Q X·(payoff/X), which is E of payoff/X <= 1 under the law where one summand is size-biased. Everything that is
cut off, wrapped around or rounded is bounded and added.
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.fft
from scipy.special import log_ndtr, ndtr, ndtri

from accountants.balls_in_bins.conversion import smallest_epsilon
from accountants.gaussian import gaussian_delta_bounds, interval_probabilities
from search_spaces.errors import NumericalError

LARGEST_GRID = {"exact": 2**20, "bound": 2**18}
"""Points of a grid without and with a Gaussian factor (which is never exact for a mechanism, so that less precision is lost)."""

_LARGEST_EPSILON = 300.0
_CAP_QUANTILES = (3.0, 8.5)
"""How many standard deviations of a summand are kept: enough to lose 1e-6 of δ or, where δ is too small to say, 1e-17."""

_FFT_ROUNDING = 8.0 * np.finfo(np.float64).eps
"""Relative L2 error of one transform per log2 of its length, several times the usual bound."""

_LOST = 1e-6
"""The part of δ that cutting off large summands may add, if the quantiles above allow."""

_LAW_ROUNDING = 1e-7
"""Relative error of δ from the masses of the cells per 10³ bins: each mass is off by about 1e-10 of itself."""

_FIRST_GRID = 2**14
_STEP = 0.02
_SMEAR = 2e-4
"""First grid, its step per standard deviation of the sum and √q, and the part of δ that the spread may add before the grid is refined."""

_TILTS = 33
_COARSE = 2048
_REFINEMENTS = 4
_EPSILON_ROUNDS = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allocation:
    """The parameters: q bins, v = noise-to-signal of one bin, μ of the Gaussian factor."""

    bins: int
    bin_mu: float
    common_mu: float

    @property
    def spread(self) -> float:
        """The standard deviation of the mean of q lognormals, √((e^{v²}−1)/q)."""
        return math.sqrt(math.expm1(min(self.bin_mu**2, 700.0)) / self.bins)

    def payoff(self, x: np.ndarray, *, direction: str, epsilon: float) -> np.ndarray:
        """E of (Gx−γ)_+/x (`remove`) or (1−γGx)_+ (`add`) over the Gaussian factor G, at x >= 0; γ = e^ε. Both are at most 1."""
        with np.errstate(divide="ignore"):
            excess = np.log(x) - epsilon if direction == "remove" else -np.log(x) - epsilon
        if self.common_mu == 0.0:
            return -np.expm1(np.minimum(-excess, 0.0))
        at_zero = 0.0 if direction == "remove" else 1.0
        _, inside = gaussian_delta_bounds(epsilon=-np.where(x > 0, excess, 0.0), mu=self.common_mu)
        return np.where(x > 0, inside, at_zero)

    def convexity(self, x: np.ndarray, *, direction: str, epsilon: float) -> np.ndarray:
        """The second derivative in x of E(Gx−γ)_+ or E(1−γGx)_+ where G is not constant, at x > 0."""
        gain = 1.0 if direction == "remove" else math.exp(epsilon)
        d = (np.log(x) - (epsilon if direction == "remove" else -epsilon)) / self.common_mu + 0.5 * self.common_mu
        return gain * np.exp(-0.5 * d**2) / (math.sqrt(2 * math.pi) * x * self.common_mu)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Grid:
    """Summands live on base + step·{0, …, cells}, sums on q·base + step·{0, …, size−1}; `bins` = q."""

    bins: int
    base: float
    step: float
    cells: int
    size: int

    @property
    def summands(self) -> np.ndarray:
        return self.base + self.step * np.arange(self.cells + 1)

    @property
    def sums(self) -> np.ndarray:
        return self.bins * self.base + self.step * np.arange(self.size)

    @property
    def reach(self) -> float:
        """Where sums wrap around."""
        return self.bins * self.base + self.step * self.size


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SumLaw:
    """A sub-law of the sum (for `remove` with one summand size-biased) for one tilt: mass(x) = tilted(x)·e^{log_scale − θx}.

    `rounding` bounds the L2 norm of the error of `tilted`; `lost` bounds the payoff missing below the grid at ε >= `smallest_epsilon`,
    `wrapped` the probability (for `remove` after size-biasing) of sums beyond the grid.
    """

    allocation: Allocation
    direction: str
    grid: _Grid
    tilted: np.ndarray
    theta: float
    log_scale: float
    rounding: float
    lost: float
    wrapped: float
    smallest_epsilon: float

    @functools.cached_property
    def _x(self) -> np.ndarray:
        return self.grid.sums

    def _paid(self, epsilon: float) -> slice:
        """Where the payoff may be positive."""
        if self.allocation.common_mu > 0:
            return slice(None)
        gamma = math.exp(epsilon if self.direction == "remove" else -epsilon)
        at = int((gamma - self._x[0]) / self.grid.step)
        return slice(max(at - 1, 0), None) if self.direction == "remove" else slice(0, max(at + 2, 0))

    def delta(self, epsilon: float) -> float:
        """An upper bound on δ at ε; 1 below `smallest_epsilon`."""
        if epsilon < self.smallest_epsilon:
            return 1.0
        paid = self._paid(epsilon)
        weights = _tilted_payoff(self.allocation, self._x[paid], self.theta, self.log_scale, direction=self.direction, epsilon=epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(self.tilted[paid] @ weights) + self.rounding * float(np.linalg.norm(weights))
        if self.direction == "remove":
            lost = self.lost + self.wrapped + _lost_above(self.allocation, float(self.grid.summands[-1]), epsilon)
        else:
            beyond = self.allocation.payoff(np.array([self.grid.reach]), direction="add", epsilon=epsilon)
            lost = self.lost + self.wrapped * float(beyond[0])
        rounding = _LAW_ROUNDING * max(1.0, self.allocation.bins / 1000)
        return min(1.0, (total + lost) * (1 + rounding)) if total < 1 else 1.0

    def smear(self, epsilon: float) -> float:
        """How much of δ the spread added, about: half its variance times the mean convexity of the payoff, relative to δ."""
        gamma = math.exp(epsilon if self.direction == "remove" else -epsilon)
        if self.allocation.common_mu > 0:
            near = slice(1, None)
            weights = self.allocation.convexity(self._x[near], direction=self.direction, epsilon=epsilon)
        else:
            at = min(max(int((gamma - self._x[0]) / self.grid.step), 1), self.grid.size - 1)
            near = slice(max(at - 4, 1), at + 5)
            count = len(self._x[near])
            weights = np.full(count, (1.0 if self.direction == "remove" else 1.0 / gamma) / (count * self.grid.step))
        if self.direction == "remove":
            weights = weights / self._x[near]
        mass = self.tilted[near] * np.exp(np.minimum(self.log_scale - self.theta * self._x[near], 600.0))
        return self.allocation.bins * self.grid.step**2 / 12.0 * float(mass @ weights) / max(self.delta(epsilon), 1e-300)


def _tilted_payoff(
    allocation: Allocation, x: np.ndarray, theta: float, log_scale: float, *, direction: str, epsilon: float
) -> np.ndarray:
    """payoff(x)·e^{log_scale − θx}: what one unit of tilted mass at x adds to δ."""
    payoff = allocation.payoff(x, direction=direction, epsilon=epsilon)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(payoff > 0, np.exp(np.log(payoff) + log_scale - theta * x), 0.0)


class AllocationBound:
    """δ(ε) of one allocation in one direction, on grids chosen near the ε of interest."""

    def __init__(self, allocation: Allocation, *, direction: str) -> None:
        self.allocation, self.direction = allocation, direction

    def law(self, epsilon: float) -> SumLaw:
        """A law whose grid and tilt suit δ(ε).

        Raises:
          NumericalError: no tilt gives a finite result.
        """
        largest = LARGEST_GRID["exact" if self.allocation.common_mu == 0 else "bound"]
        scale = min(self.allocation.spread, math.exp(epsilon if self.direction == "remove" else -epsilon))
        law = self._law(epsilon, _STEP * scale / math.sqrt(self.allocation.bins), _FIRST_GRID)
        for _ in range(_REFINEMENTS):
            smear = law.smear(epsilon)
            if smear <= _SMEAR or law.grid.size >= largest:
                break
            law = self._law(epsilon, law.grid.step * max(0.2, 0.8 * math.sqrt(_SMEAR / smear)), largest)
        return law

    def epsilon(self, delta: float, *, start: float) -> float:
        """The smallest ε found at which `law(ε).delta(ε)` is at most δ; grid and tilt follow the ε found before, at first `start`."""
        found, at = math.inf, start
        for _ in range(_EPSILON_ROUNDS):
            law = self.law(at)
            found = smallest_epsilon(law.delta, delta, start=at, smallest=law.smallest_epsilon, largest=_LARGEST_EPSILON)
            if abs(found - at) <= 0.05 * at or at > _LARGEST_EPSILON:
                break
            # A grid for a small ε cuts off what a large one needs.
            at = 2.0 * at + 1.0 if math.isinf(found) else found
        nudge = 1e-7
        while found <= _LARGEST_EPSILON and self.law(found).delta(found) > delta:
            found, nudge = found * (1 + nudge) + 1e-12, nudge * 4
        return found if found <= _LARGEST_EPSILON else math.inf

    def _law(self, epsilon: float, step: float, largest: int) -> SumLaw:
        allocation = self.allocation
        smallest = max(0.0, 0.5 * epsilon - 1.0) if self.direction == "add" else 0.0
        grid = _grid(allocation, epsilon, smallest, self.direction, step, largest)
        mass, below = _grid_law(allocation, grid)
        top, lost = float(grid.summands[-1]), 0.0
        if self.direction == "remove":
            mass[0] += below
        else:
            lost = allocation.bins * below
            # One summand that alone ends the payoff may be left out; others are moved down to the top, where they pay more.
            if allocation.common_mu > 0 or top < math.exp(-smallest):
                mass[-1] += float(ndtr(-_z(allocation, np.array(top))))
        wrapped = _wrapped(allocation, *_coarse(mass, grid), grid.reach, direction=self.direction)
        theta = _best_tilt(allocation, mass, grid, epsilon=epsilon, direction=self.direction)
        return _power_law(allocation, mass, grid, theta, direction=self.direction, lost=lost, wrapped=wrapped, smallest=smallest)


def _grid(allocation: Allocation, epsilon: float, smallest_epsilon: float, direction: str, step: float, largest: int) -> _Grid:
    v, q = allocation.bin_mu, allocation.bins
    base = math.exp(-_CAP_QUANTILES[1] * v - 0.5 * v**2) / q if v < 0.5 else 0.0
    top = _largest_summand(allocation, epsilon, smallest_epsilon, direction)
    length = max(2.0 * top, 1.0 + 12.0 * min(allocation.spread, 1.0) + top) - q * base
    step = max(step, length / largest)
    cells = max(2, math.ceil((top - base) / step))
    size = scipy.fft.next_fast_len(max(math.ceil(length / step), 2 * cells), real=True)
    return _Grid(bins=q, base=base, step=step, cells=cells, size=size)


def _largest_summand(allocation: Allocation, epsilon: float, smallest_epsilon: float, direction: str) -> float:
    """Where a single summand is cut off: its quantile under the law that matters, and for `add` not beyond where the payoff ends."""
    v, q = allocation.bin_mu, allocation.bins
    if direction == "add":
        limit = math.exp(-smallest_epsilon) if allocation.common_mu == 0 else min(max(3.0, math.exp(4.0 * allocation.common_mu)), 50.0)
        return min(math.exp(min(_CAP_QUANTILES[1] * v, 60.0)) / q, limit)
    gamma = math.exp(epsilon)
    # δ is at least that of the size-biased summand alone, the others being 0.
    least = float(gaussian_delta_bounds(epsilon=epsilon + math.log(q), mu=math.hypot(v, allocation.common_mu))[0])
    quantile = min(max(-float(ndtri(max(_LOST * least, 1e-300))), _CAP_QUANTILES[0]), _CAP_QUANTILES[1])
    biased = math.exp(min(0.5 * v**2 + quantile * v, 60.0)) / q
    # Beyond several γ the payoff of one large summand is known well enough, and only two large ones at once are lost.
    quantile = min(max(-float(ndtri(max(_LOST * least / q, 1e-300))), _CAP_QUANTILES[0]), _CAP_QUANTILES[1])
    known = 2.0 * gamma * math.exp(6.0 * allocation.common_mu)
    return min(biased, max(known, math.exp(min(-0.5 * v**2 + quantile * v, 60.0)) / q))


def _z(allocation: Allocation, x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return (np.log(allocation.bins * x) + 0.5 * allocation.bin_mu**2) / allocation.bin_mu


def _grid_law(allocation: Allocation, grid: _Grid) -> tuple[np.ndarray, float]:
    """(cells+1,) mass of one summand e^{vz−v²/2}/q within the grid, cells split to keep mass and mean; and the mass below the grid."""
    edges = grid.summands
    z = _z(allocation, edges)
    mass = interval_probabilities(z)
    mean = interval_probabilities(z - allocation.bin_mu) / allocation.bins
    right = np.clip((mean - edges[:-1] * mass) / grid.step, 0.0, mass)
    law = np.zeros(grid.cells + 1)
    law[1:] += right
    law[:-1] += mass - right
    return law, float(ndtr(z[0]))


def _lost_above(allocation: Allocation, top: float, epsilon: float) -> float:
    """The `remove` payoff where a summand exceeds `top`: E[X(1−γ/X)_+; some Y_i > top] <= q·E[Y_1(1−γ/X)_+; Y_1 > top] + (q−1)·P(Y > top).

    Without a Gaussian factor and for top >= γ the other summands may be replaced by their mean a = (q−1)/q (Jensen's inequality) and
    1/(y+a) by 1/y − a/y²; otherwise the payoff over X is at most 1.
    """
    v, q, gamma = allocation.bin_mu, allocation.bins, math.exp(epsilon)
    z = float(_z(allocation, np.array(top)))
    biased, plain = float(ndtr(v - z)), float(ndtr(-z))
    lost = biased
    if allocation.common_mu == 0.0 and top >= gamma:
        inverse_square = q * math.exp(min(v**2 + float(log_ndtr(-z - v)), 600.0))
        lost = min(biased, biased - gamma * q * plain + gamma * (q - 1) * inverse_square + 1e-12 * biased)
    return max(lost, 0.0) + (q - 1) * plain


def _coarse(mass: np.ndarray, grid: _Grid) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, mass) of the law spread, mean by mean, onto about `_COARSE` nodes: its exponential moments are above those of the law."""
    block = -(-len(mass) // _COARSE)
    index, part = np.divmod(np.arange(len(mass)), block)
    coarse = np.bincount(index, mass * (1 - part / block), index[-1] + 2)
    coarse[1:] += np.bincount(index, mass * (part / block), index[-1] + 1)
    return grid.base + grid.step * block * np.arange(len(coarse)), coarse


def _exponential_moments(thetas: np.ndarray, nodes: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log E e^{θY}, the tilted laws of mass 1, one row per θ)."""
    with np.errstate(divide="ignore"):
        logs = np.multiply.outer(thetas, nodes) + np.log(mass)
    largest = logs.max(axis=1, keepdims=True)
    rows = np.exp(logs - largest)
    totals = rows.sum(axis=1, keepdims=True)
    return (largest + np.log(totals))[:, 0], rows / totals


def _wrapped(allocation: Allocation, nodes: np.ndarray, mass: np.ndarray, reach: float, *, direction: str) -> float:
    """E[X; X >= reach] (`remove`) or P(X >= reach), by Chernoff's bound: what wraps around to where it may pay too little."""
    thetas = np.geomspace(0.1, 600.0, 60) / (nodes[-1] - nodes[0])
    logs, rows = _exponential_moments(thetas, nodes, mass)
    bounds = allocation.bins * logs - thetas * reach
    if direction == "remove":
        bounds += np.log(allocation.bins * (rows @ nodes))
    return math.exp(min(float(bounds.min()), 0.0)) * (1 + 1e-9)


def _best_tilt(allocation: Allocation, mass: np.ndarray, grid: _Grid, *, epsilon: float, direction: str) -> float:
    """The θ at which rounding and wrapped mass add least to δ, on coarse grids (the choice affects tightness only)."""
    nodes, coarse = _coarse(mass, grid)
    top = 12.0 / min(allocation.spread, 1.0)
    if direction == "remove":
        top = min(600.0 / (nodes[-1] - nodes[0]), top)
    thetas = np.sort((1.0 if direction == "remove" else -1.0) * np.r_[0.0, np.geomspace(1e-3, 1.0, _TILTS) * top])
    logs, rows = _exponential_moments(thetas, nodes, coarse)
    log_scales = allocation.bins * logs
    if direction == "remove":
        log_scales += np.log(allocation.bins * (rows @ nodes))
    # Tilted mass beyond the grid, by Chernoff's bound with the larger tilts.
    gaps = thetas[None, :] - thetas[:, None]
    beyond = np.where(gaps > 0, log_scales[None, :] - log_scales[:, None] - gaps * grid.reach, 0.0).min(axis=1)
    sums = grid.sums[:: max(1, grid.size // _COARSE)]
    errors = []
    for theta, log_scale, wrapped, row in zip(thetas, log_scales, beyond, rows):
        weights = _tilted_payoff(allocation, sums, theta, log_scale, direction=direction, epsilon=epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = _FFT_ROUNDING * math.log2(grid.size) * allocation.bins * float(np.linalg.norm(row))
            noise = rounding * float(np.linalg.norm(weights)) * math.sqrt(grid.size / len(sums))
            errors.append(noise + math.exp(wrapped) * float(weights.max()))
    if not np.isfinite(errors).any():
        raise NumericalError(f"No tilt of the sum of {allocation.bins} summands gives a finite bound at epsilon={epsilon}.")
    return float(thetas[int(np.nanargmin(errors))])


def _power_law(
    allocation: Allocation, mass: np.ndarray, grid: _Grid, theta: float, *, direction: str, lost: float, wrapped: float, smallest: float
) -> SumLaw:
    logs, rows = _exponential_moments(np.array([theta]), grid.summands, mass)
    tilted, log_scale = rows[0], allocation.bins * float(logs[0])
    spectrum = _power(scipy.fft.rfft(tilted, grid.size), allocation.bins - (direction == "remove"))
    norms = allocation.bins * float(np.linalg.norm(tilted))
    if direction == "remove":
        biased = tilted * grid.summands
        log_scale += math.log(allocation.bins * float(biased.sum()))
        biased /= biased.sum()
        spectrum *= scipy.fft.rfft(biased, grid.size)
        norms += float(np.linalg.norm(biased))
    total = scipy.fft.irfft(spectrum, grid.size)
    per_transform = _FFT_ROUNDING * math.log2(grid.size)
    norm = float(np.linalg.norm(total))
    rounding = per_transform * (norms + norm) + _FFT_ROUNDING * allocation.bins * norm
    if not np.isfinite(total).all():
        raise NumericalError(f"The sum of {allocation.bins} summands is not finite on a grid of {grid.size} points.")
    return SumLaw(
        allocation=allocation, direction=direction, grid=grid, tilted=np.maximum(total, 0.0), theta=theta,
        log_scale=log_scale, rounding=rounding, lost=lost, wrapped=wrapped, smallest_epsilon=smallest,
    )


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    result, square = np.ones_like(values), values
    while exponent:
        if exponent & 1:
            result = result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result
