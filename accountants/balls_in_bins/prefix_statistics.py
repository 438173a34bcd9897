"""What conditional composition needs to know of every prefix, free of σ (math/balls-in-bins.md, sections (e) and (f)).

At step n the bins are ordered by their mean at that step. Only bins above the lowest tie group are monitored; bin i with `position` bins
below it has the privacy loss L_i = log of (average likelihood of the lower bins / its own) of the prefix. For every probability vector ψ
on the lower bins L_i is at least an affine function of the prefix, with mean ν_k = centre_k/σ² − KL under bin k (reference/σ² − KL under
Q) and standard deviation ξ = spread/σ. ψ is uniform (AM–GM), or ∝ e^{−‖m_i−m_j‖²/t} for every temperature t.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from accountants.balls_in_bins.gram import dense_means, mean_profile, require_memory, strategy_column

TEMPERATURES = (10.0**-1, 10.0**-0.5, 1.0, 10.0**0.5, 10.0)
_ROUNDING = 1e-12
"""Relative to the largest squared mean of the prefix, and once more per 10³ steps: bounds the rounding of differences of sums."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrefixStatistics:
    """One row per monitored bin and step (a monitor), steps in order, means ascending within a step; C choices of ψ.

    Attributes:
      bins: b.
      lowest: (N,) float64, the smallest mean of each step.
      step: (M,) int64.
      mean: (M,) float64, the bin's mean at its step.
      position: (M,) int64, how many bins lie below.
      divergence: (M, C) float64, KL(ψ ‖ uniform), rounded up.
      spread: (M, C) float64, σξ, rounded up.
      reference: (M, C) float64, the centre under Q, rounded down.
      centres, counts: (F,) the distinct centres (rounded down) and how many bins k have each; those of monitor i and choice c are
        begin[i·C + c] : begin[i·C + c + 1].
      begin: (M·C + 1,) int64.
    """

    bins: int
    lowest: np.ndarray
    step: np.ndarray
    mean: np.ndarray
    position: np.ndarray
    divergence: np.ndarray
    spread: np.ndarray
    reference: np.ndarray
    centres: np.ndarray
    counts: np.ndarray
    begin: np.ndarray

    @property
    def iterations(self) -> int:
        """N."""
        return len(self.lowest)


@functools.lru_cache(maxsize=4)
def strategy_statistics(strategy: object, bins: int, temperatures: tuple[float, ...] = TEMPERATURES) -> PrefixStatistics:
    """The statistics of a strategy (any with `dense()` or a first column), remembered for further σ.

    Temperatures are in units of the largest squared column norm, so that the result scales with C.
    """
    scaled = tuple(temperature * strategy.column_norm**2 for temperature in temperatures)
    return prefix_statistics(mean_rows(strategy, bins), bins=bins, iterations=strategy.iterations, temperatures=scaled)


def mean_rows(strategy: object, bins: int) -> Iterator[np.ndarray]:
    """The (b,) means of every step in turn."""
    column = strategy_column(strategy)
    if column is None:
        yield from dense_means(matrix=strategy.dense(), bins=bins)
        return
    profile = mean_profile(column=column, bins=bins, epochs=strategy.iterations // bins)
    reversed_profile = np.concatenate([profile[::-1], np.zeros(bins)])
    for n in range(len(profile)):
        # Entry i is f(n − i), zero where the bin has not started.
        yield reversed_profile[len(profile) - 1 - n :][:bins]


def prefix_statistics(
    rows: Iterator[np.ndarray], *, bins: int, iterations: int, temperatures: tuple[float, ...] = TEMPERATURES
) -> PrefixStatistics:
    """The statistics of any sequence of means.

    Args:
      rows: the (b,) means >= 0 of every step.
      bins: b.
      iterations: N, for the memory estimate.
      temperatures: the t of the variational choices; empty for AM–GM only.

    Raises:
      InputError: the table would not fit in memory (it says how much it needs).
    """
    prefix = _Prefix(bins)
    lowest, parts = [], []
    stored = 0
    for n, row in enumerate(rows):
        smallest = row.min()
        lowest.append(float(smallest))
        monitored = np.flatnonzero(row > smallest)
        monitored = monitored[np.argsort(row[monitored], kind="stable")]
        if len(monitored):
            parts.append((np.full(len(monitored), n), row[monitored], *prefix.monitors(monitored, temperatures)))
            stored += 16 * len(parts[-1][-3])
            require_memory(stored * iterations / (n + 1) if n > 8 else stored, "the table of conditional composition")
        prefix.extend(row, monitored, smallest)
    return _joined(bins, lowest, parts, 1 + len(temperatures))


def _joined(bins: int, lowest: list[float], parts: list[tuple], choices: int) -> PrefixStatistics:
    index, value, table = np.zeros(0, int), np.zeros(0), np.zeros((0, choices))
    empty = (index, value, index, table, table, table, value, value, index)
    step, mean, position, divergence, spread, reference, centres, counts, lengths = (
        np.concatenate(arrays) for arrays in zip(*(parts or [empty]))
    )
    return PrefixStatistics(
        bins=bins, lowest=np.array(lowest), step=step, mean=mean, position=position, divergence=divergence, spread=spread,
        reference=reference, centres=centres, counts=counts, begin=np.r_[0, np.cumsum(lengths)].astype(np.int64),
    )


class _Prefix:
    """The Gram matrix of the prefix with its row sums, total and trace, updated in the cost of the bins that move."""

    def __init__(self, bins: int) -> None:
        self.gram = np.zeros((bins, bins))
        self.row_sums = np.zeros(bins)
        self.steps = 0

    def extend(self, row: np.ndarray, monitored: np.ndarray, smallest: float) -> None:
        """Append one step."""
        self.steps += 1
        if smallest > 0 or 2 * len(monitored) > len(row):
            self.gram += np.multiply.outer(row, row)
        else:
            self.gram[np.ix_(monitored, monitored)] += np.multiply.outer(row[monitored], row[monitored])
        self.row_sums += row * row.sum()

    def monitors(self, monitored: np.ndarray, temperatures: tuple[float, ...]) -> tuple[np.ndarray, ...]:
        """(position, divergence, spread, reference, centres, counts, lengths) of the monitored bins, in ascending order of their means."""
        gram, bins = self.gram, len(self.gram)
        diagonal = np.diag(gram)
        position = bins - len(monitored) + np.arange(len(monitored))
        choices = [self._uniform(monitored, position)]
        if temperatures:
            choices += self._by_distance(monitored, position, temperatures)
        # Columns of `averages` are Γψ; `norms` is ψᵀΓψ and `traces` is Σψ_jΓ_jj, one entry per monitored bin.
        averages, norms, traces, divergence = (np.stack([choice[part] for choice in choices], axis=-1) for part in range(4))
        slack = _ROUNDING * (1 + self.steps / 1000) * max(float(diagonal.max()), 1e-300)
        own = diagonal[monitored][:, None]
        reference = 0.5 * (own - traces)
        centres = averages - gram[:, monitored, None] + reference
        spread = np.sqrt(np.maximum(own - 2 * averages[monitored, np.arange(len(monitored))] + norms, 0.0) + slack)
        values, counts, lengths = _distinct(centres.reshape(bins, -1).T, slack)
        return position, divergence + _ROUNDING, spread, reference - slack, values, counts, lengths

    def _uniform(self, monitored: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, ...]:
        gram, columns = self.gram, self.gram[:, monitored]
        count = np.arange(len(monitored))
        if 2 * len(monitored) <= len(gram):
            base = self.row_sums - columns.sum(axis=1)
            corner = self.row_sums.sum() - 2 * self.row_sums[monitored].sum() + columns[monitored].sum()
            trace = np.trace(gram) - np.diag(gram)[monitored].sum()
        else:
            others = np.setdiff1d(np.arange(len(gram)), monitored)
            base = gram[:, others].sum(axis=1)
            corner, trace = base[others].sum(), np.diag(gram)[others].sum()
        sums = base[:, None] + np.cumsum(columns, axis=1) - columns
        own = np.diag(gram)[monitored]
        norms = corner + np.cumsum(2 * sums[monitored, count] + own) - (2 * sums[monitored, count] + own)
        traces = trace + np.cumsum(own) - own
        return sums / position, norms / position**2, traces / position, np.zeros(len(monitored))

    def _by_distance(self, monitored: np.ndarray, position: np.ndarray, temperatures: tuple[float, ...]) -> list[tuple[np.ndarray, ...]]:
        gram, diagonal = self.gram, np.diag(self.gram)
        distance = np.maximum(diagonal[monitored][None, :] + diagonal[:, None] - 2 * gram[:, monitored], 0.0)
        rank = np.full(len(gram), -1)
        rank[monitored] = np.arange(len(monitored))
        distance[rank[:, None] >= np.arange(len(monitored))[None, :]] = np.inf
        distance -= distance.min(axis=0)
        found = []
        for temperature in temperatures:
            weights = np.exp(-distance / temperature)
            weights /= weights.sum(axis=0)
            averages = gram @ weights
            divergence = np.sum(weights * np.log(np.maximum(weights * position, 1e-300)), axis=0)
            found.append((averages, np.sum(weights * averages, axis=0), diagonal @ weights, np.maximum(divergence, 0.0)))
        return found


def _distinct(values: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values rounded down, counts, number per row): each row of (rows, b) with entries closer than about `slack` merged downwards."""
    ordered = np.sort(values, axis=1)
    cells = np.floor(ordered / slack)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = cells[:, 1:] > cells[:, :-1] + 1
    flat = np.flatnonzero(first)
    counts = np.diff(np.r_[flat, ordered.size])
    return ordered.ravel()[flat] - slack, counts.astype(np.float64), first.sum(axis=1)
