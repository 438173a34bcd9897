"""Replica programs of balls-in-bins: any Gram matrix for two to four replicas, and any number of replicas for narrow bands.

A participation vector is one of B = T/K bins, so an α-tuple weighs E_{ij}·E_{ik}·… over its pairs, E = exp(G/σ²) with the Gram matrix G of
the bins' outputs (math/balls-in-bins.md, section (b)).
"""

import dataclasses
import itertools
import math

import numpy as np

from accountants.balls_in_bins.gram import mechanism_gram
from accountants.tilted.arithmetic import choose, log_of
from accountants.tilted.cost import Cost
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BatchScheme

MOST_REPLICAS = 4
_ROWS_AT_ONCE = 1024
_MATRIX_SPEED = 20
"""Products of a matrix product that take the time of one elsewhere."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CliqueTable:
    """Pair sums for any Gram matrix.

    Attributes:
      couplings: (B, B) float64, E = exp((G − max G)/σ²).
      pair_weights: (B, B) float64, relative weight of the first two replicas being in bins (i, j), summed over the others.
      alpha: replicas, 2..4.
      log_scale: what has to be added to log Σ pair_weights for log Z_α.
      participations, iterations: K, T.
    """

    couplings: np.ndarray
    pair_weights: np.ndarray
    alpha: int
    log_scale: float
    participations: int
    iterations: int

    @property
    def log_moment(self) -> float:
        """log Z_α."""
        return math.log(float(self.pair_weights.sum())) + self.log_scale

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return self.couplings.nbytes + self.pair_weights.nbytes

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """(size, alpha, K) int64 from the tilted law; rows ascending."""
        bins = self.couplings.shape[0]
        cumulative = np.cumsum(self.pair_weights)
        first = np.divmod(np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right"), bins)
        chosen = np.column_stack([*first, np.zeros((size, self.alpha - 2), dtype=np.int64)])
        for known in range(2, self.alpha):
            for start in range(0, size, _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                weights = math.prod(self.couplings[chosen[part, j]] for j in range(known))
                if known + 1 < self.alpha:
                    weights *= weights @ self.couplings
                chosen[part, known] = choose(rng, log_of(weights))
        return _steps(chosen, bins, self.participations)


def clique_cost(scheme: BatchScheme, alpha: int) -> Cost:
    """Products formed and bytes held by `clique_table`."""
    bins = scheme.separation
    return Cost(operations=-(-bins**alpha // _MATRIX_SPEED), bytes=8 * (6 * bins**2 + 2 * _ROWS_AT_ONCE * bins))


def clique_table(mechanism: Mechanism, *, alpha: int) -> CliqueTable:
    """Sum over the last α−2 replicas for every pair of bins of the first two, by matrix products."""
    exponents = mechanism_gram(mechanism) / mechanism.sigma**2
    # Every one of the α(α−1)/2 pairs is scaled by the largest weight; what underflows is below e^−700 of the largest term.
    largest = float(exponents.max())
    couplings = np.exp(exponents - largest)
    pair_weights = couplings.copy()
    if alpha == 3:
        pair_weights *= couplings @ couplings
    if alpha == 4:
        for i, row in enumerate(couplings):
            # Row j of `both` weighs a third bin k for the first two in (i, j).
            both = row * couplings
            pair_weights[i] *= np.einsum("jk,jk->j", both @ couplings, both)
    bins = len(couplings)
    return CliqueTable(
        couplings=couplings, pair_weights=pair_weights, alpha=alpha,
        log_scale=largest * alpha * (alpha - 1) / 2 - alpha * math.log(bins),
        participations=mechanism.scheme.participations, iterations=mechanism.scheme.iterations,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BandTable:
    """Forward sums over bins for a Gram matrix with a narrow (cyclic) band.

    A state after bin n is (tokens used; counts of the first w bins; counts of the last w bins up to n); the first w counts are
    kept only if the band wraps around. Axes: token axis, then w prefix axes (or none), then w window axes, oldest first.

    Attributes:
      forward: log sums after bins w−1, w, …, B−1, each (A+1, …) float64 with A the largest order.
      glue: log weight of the wrap-around pairs for the last forward array, broadcastable to it.
      exponents: (B, B) float64, G/σ².
      width: w >= 1.
      wraps: whether the band wraps around.
      alpha: replicas in a sample, the largest order A.
      participations, iterations: K, T.
    """

    forward: tuple[np.ndarray, ...]
    glue: np.ndarray
    exponents: np.ndarray
    width: int
    wraps: bool
    alpha: int
    participations: int
    iterations: int

    @property
    def log_moments(self) -> np.ndarray:
        """(A+1,) float64: log Z_t for t = 0..A, all from one pass."""
        orders = np.arange(self.alpha + 1)
        sums = np.logaddexp.reduce((self.forward[-1] + self.glue).reshape(self.alpha + 1, -1), axis=1)
        return sums + np.array([math.lgamma(t + 1) for t in orders]) - orders * math.log(len(self.exponents))

    @property
    def log_moment(self) -> float:
        """log Z_α."""
        return float(self.log_moments[-1])

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return sum(array.nbytes for array in self.forward)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """(size, alpha, K) int64 from the tilted law; rows ascending."""
        bins, width, side = len(self.exponents), self.width, self.alpha + 1
        final = (self.forward[-1] + self.glue)[-1]
        cumulative = np.cumsum(np.exp(final - final.max()))
        state = np.array(np.unravel_index(
            np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right"), final.shape,
        )).T
        prefix, window = state[:, : state.shape[1] - width], state[:, state.shape[1] - width :]
        tokens = np.full(size, self.alpha)
        counts = np.zeros((size, bins), dtype=np.int64)
        for n in reversed(range(width, bins)):
            counts[:, n] = window[:, -1]
            tokens = tokens - counts[:, n]
            table = self.forward[n - width]
            log_weights = np.empty((size, side))
            for dropped in range(side):
                before = np.column_stack([np.full(size, dropped), window[:, :-1]])
                log_weights[:, dropped] = table[(tokens, *prefix.T, *before.T)] + _attraction(self.exponents, n, counts[:, n], before.T)
            window = np.column_stack([choose(rng, log_weights), window[:, :-1]])
        counts[:, :width] = window
        chosen = np.repeat(np.tile(np.arange(bins), size), counts.ravel()).reshape(size, self.alpha)
        return _steps(rng.permuted(chosen, axis=1), bins, self.participations)


def band(scheme: BatchScheme, bandwidth: int) -> tuple[int, bool] | None:
    """(w, wraps): the width w >= 1 of the band beside the diagonal and whether it wraps around; None if it covers all bins."""
    bins, width = scheme.separation, max(bandwidth - 1, 1)
    wraps = scheme.participations > 1 and bandwidth > 1
    return (width, wraps) if bins >= (2 * width if wraps else width + 1) else None


def band_cost(scheme: BatchScheme, bandwidth: int, alpha: int) -> Cost | None:
    """Products formed and bytes held by `band_table`; None if there is no band."""
    if (shape := band(scheme, bandwidth)) is None:
        return None
    width, wraps = shape
    states = (alpha + 1) ** (1 + width * (1 + wraps))
    return Cost(operations=8 * scheme.separation * states * (alpha + 1), bytes=8 * states * (scheme.separation + 6))


def band_table(mechanism: Mechanism, *, alpha: int) -> BandTable:
    """Run the Rényi dynamic program over the bins for all orders up to `alpha`; the mechanism must have a band."""
    width, wraps = band(mechanism.scheme, mechanism.strategy.bandwidth)
    exponents = mechanism_gram(mechanism) / mechanism.sigma**2
    forward = [_first_bins(exponents, width, wraps, alpha)]
    for n in range(width, len(exponents)):
        forward.append(_next_bin(forward[-1], exponents, n, width, alpha))
    glue = _wrap_around(exponents, width, alpha) if wraps else np.zeros(1)
    return BandTable(
        forward=tuple(forward), glue=glue, exponents=exponents, width=width, wraps=wraps, alpha=alpha,
        participations=mechanism.scheme.participations, iterations=mechanism.scheme.iterations,
    )


def _first_bins(exponents: np.ndarray, width: int, wraps: bool, alpha: int) -> np.ndarray:
    """Log sums after the first w bins."""
    side = alpha + 1
    state = np.full([side] * (1 + width * (1 + wraps)), -np.inf)
    for counts in itertools.product(range(side), repeat=width):
        if sum(counts) <= alpha:
            log_weight = sum(_attraction(exponents, i, np.array(count), counts[:i]) for i, count in enumerate(counts))
            state[(sum(counts), *counts * (1 + wraps))] = log_weight
    return state


def _next_bin(state: np.ndarray, exponents: np.ndarray, n: int, width: int, alpha: int) -> np.ndarray:
    """Log sums after bin n from those after bin n−1."""
    after = np.full_like(state, -np.inf)
    axis = state.ndim - width
    window = np.meshgrid(*[np.arange(alpha + 1)] * width, indexing="ij")
    for count in range(alpha + 1):
        moved = state[: alpha + 1 - count] + _attraction(exponents, n, np.array(count), window)
        after[count:, ..., count] = np.logaddexp.reduce(moved, axis=axis)
    return after


def _attraction(exponents: np.ndarray, n: int, count: np.ndarray, before) -> np.ndarray:
    """Log weight of `count` tokens in bin n, given the counts of the bins just before it (oldest first)."""
    total = 0.5 * count * (count - 1) * exponents[n, n] - np.array([math.lgamma(k + 1) for k in range(np.max(count) + 1)])[count]
    for distance, other in enumerate(reversed(list(before)), start=1):
        total = total + count * np.asarray(other) * exponents[n, n - distance]
    return total


def _wrap_around(exponents: np.ndarray, width: int, alpha: int) -> np.ndarray:
    """Log weights of the pairs (one of the last w bins, one of the first w) that only the wrap-around brings within the band."""
    bins, counts = len(exponents), np.arange(alpha + 1)
    total = np.zeros([1] + [1] * (2 * width))
    for j, i in itertools.product(range(width), range(bins - width, bins)):
        if bins - (i - j) <= width < i - j:
            shape = [1] * total.ndim
            first, last = list(shape), list(shape)
            first[1 + j], last[1 + width + i - (bins - width)] = -1, -1
            total = total + exponents[i, j] * counts.reshape(first) * counts.reshape(last)
    return total


def _steps(chosen: np.ndarray, bins: int, participations: int) -> np.ndarray:
    """(size, alpha, K) steps of the chosen bins."""
    return chosen[:, :, None] + bins * np.arange(participations)
