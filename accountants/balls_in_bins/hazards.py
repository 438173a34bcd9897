"""From prefix statistics to per-step mixtures that dominate all good prefixes (math/balls-in-bins.md, section (e)).

L_i < τ_i has probability at most β under the first argument of the divergence: the mixture P for `remove`, Q for `add`. Off that event the
reverse hazard Pr(bin = i | bin <= i) is at most λ̄_i = 1/(1 + position·e^{τ_i}), and hazards in the order of the means *at this step* bound
the mixture by stochastic dominance. In any other order they do not.
"""

import dataclasses

import numpy as np
from scipy.special import expit, ndtr, ndtri

from accountants.balls_in_bins.prefix_statistics import PrefixStatistics
from search_spaces import checks

_BISECTIONS = 30
_CHUNK = 2**20
_ROUND_UP = 1 + 1e-12


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """A dominating mixture Σ weights·N(means, σ²) against N(0, σ²): (m,) means ascending, (m,) weights of sum 1."""

    means: np.ndarray
    weights: np.ndarray

    def key(self) -> tuple[bytes, bytes]:
        """Equal for equal mixtures."""
        return self.means.tobytes(), self.weights.tobytes()


SPLITS = ("monitored", "even")
"""How δ_E is shared: equally over the steps and then over the bins a step monitors, or (as published) over all N(b−1) pairs."""


def tail_probabilities(statistics: PrefixStatistics, *, bad_event: float, split: str) -> np.ndarray:
    """(M,) float64: β of every monitor, so that all of them together have at most δ_E = `bad_event`.

    Step 0 needs no share: its prefix is empty and its hazards are known.
    """
    monitors = np.bincount(statistics.step, minlength=statistics.iterations)
    if checks.one_of(SPLITS, split=split) == "even":
        return np.full(len(statistics.step), bad_event / max(statistics.iterations * (statistics.bins - 1), 1) / _ROUND_UP)
    steps = max(int((monitors[1:] > 0).sum()), 1)
    return bad_event / (steps * monitors[statistics.step]) / _ROUND_UP


def thresholds(statistics: PrefixStatistics, *, sigma: float, direction: str, beta: np.ndarray) -> np.ndarray:
    """(M,) float64: τ with Pr(L < τ) <= β, the best over the choices of ψ, each rounded down; β is (M,)."""
    centre_scale, spread = 1.0 / sigma**2, statistics.spread / sigma * _ROUND_UP
    if direction == "add":
        lower = statistics.reference * centre_scale - statistics.divergence + spread * ndtri(beta)[:, None] * _ROUND_UP
    else:
        lower = _mixture_thresholds(statistics, spread, centre_scale, beta) - statistics.divergence
    return lower.max(axis=1)


def _mixture_thresholds(statistics: PrefixStatistics, spread: np.ndarray, scale: float, beta: np.ndarray) -> np.ndarray:
    """(M, C): the largest τ found with (1/b) Σ_k Φ((τ − ν_k)/ξ) <= β (without the KL term), by bisection, lower end."""
    tails, betas = spread.ravel(), np.repeat(beta, spread.shape[1])
    result = np.empty(len(tails))
    begin = statistics.begin
    start = 0
    while start < len(tails):
        stop = max(start + 1, int(np.searchsorted(begin, begin[start] + _CHUNK, side="right")) - 1)
        flat = slice(begin[start], begin[stop])
        result[start:stop] = _lower_ends(
            statistics.centres[flat] * scale, statistics.counts[flat] / statistics.bins, begin[start:stop] - begin[start],
            tails[start:stop], betas[start:stop],
        )
        start = stop
    return result.reshape(spread.shape)


def _lower_ends(centres: np.ndarray, shares: np.ndarray, begin: np.ndarray, spread: np.ndarray, beta: np.ndarray) -> np.ndarray:
    owner = np.repeat(np.arange(len(begin)), np.diff(np.r_[begin, len(centres)]))
    z = ndtri(beta)
    low = np.minimum.reduceat(centres, begin) + spread * z * _ROUND_UP
    high = np.maximum.reduceat(centres, begin) + spread * z
    scaled, inverse = centres / spread[owner], 1.0 / spread
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        total = np.add.reduceat(shares * ndtr((middle * inverse)[owner] - scaled), begin)
        good = total * _ROUND_UP <= beta
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low


def mixtures(statistics: PrefixStatistics, *, sigma: float, direction: str, beta: np.ndarray) -> list[Mixture]:
    """One dominating mixture per step, N in all; β as for `thresholds`."""
    tau = thresholds(statistics, sigma=sigma, direction=direction, beta=beta)
    # The prefix of step 0 is empty, so every bin has the same posterior.
    tau[statistics.step == 0] = 0.0
    hazards = np.minimum(expit(-np.log(statistics.position) - tau) * _ROUND_UP, 1.0)
    bounds = np.searchsorted(statistics.step, np.arange(statistics.iterations + 1))
    return [
        step_mixture(statistics.lowest[n], statistics.mean[bounds[n] : bounds[n + 1]], hazards[bounds[n] : bounds[n + 1]])
        for n in range(statistics.iterations)
    ]


def step_mixture(lowest: float, means: np.ndarray, hazards: np.ndarray) -> Mixture:
    """The mixture with these reverse hazards on ascending `means` above `lowest`; equal means are merged."""
    below = np.cumprod((1.0 - hazards)[::-1])[::-1]
    weights = np.r_[1.0, hazards] * np.r_[below, 1.0]
    values, place = np.unique(np.r_[lowest, means], return_inverse=True)
    return Mixture(means=values, weights=np.bincount(place, weights))


def envelope(steps: list[Mixture]) -> Mixture:
    """A mixture that dominates all of them: on the union of the means, the pointwise smallest distribution function."""
    means = np.unique(np.concatenate([step.means for step in steps]))
    smallest = np.min([
        np.r_[0.0, np.cumsum(step.weights)][np.searchsorted(step.means, means, side="right")] for step in steps
    ], axis=0)
    smallest[-1] = 1.0
    weights = np.maximum(np.diff(np.r_[0.0, smallest]), 0.0)
    return Mixture(means=means, weights=weights / weights.sum())
