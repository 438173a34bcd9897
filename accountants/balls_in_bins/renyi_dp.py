"""All moments E_Q X^t, t <= α, of X = dP/dQ for a cyclically banded Gram matrix (math/balls-in-bins.md, section (b)).

    E_Q X^t = t!/b^t · Σ_{counts ℓ of sum t} Π_i e^{½h ℓ_i(ℓ_i−1)G_ii}/ℓ_i! · Π_{i<j} e^{h ℓ_i ℓ_j G_ij},    h = 1/σ².

The sum runs bin by bin. A state is the counts of the last w = p−1 bins and the rest of the tokens, indexed on the simplex of what is
reachable and sorted by its total, so that fewer tokens are a prefix of the index range. Where the band wraps around, the counts of the
first w bins are a column of the table; columns of the same total share one sparse transition matrix.

Level scaling: with g the largest entry inside the band (or 0), a partial sum with t tokens is stored times e^{−½h t(t−1)g}. Each factor is
then at most 1, nothing overflows, and what underflows is bounded and added.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import scipy.sparse
from scipy.special import gammaln

from accountants.balls_in_bins.gram import cyclic_distance, require_memory
from search_spaces import checks


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """log E_Q X^t for t = 0..α.

    Attributes:
      logs: (α+1,) longdouble, nearest values found; infinite where too much underflowed.
      relative_error: bound on |computed/true − 1| of each moment.
    """

    logs: np.ndarray
    relative_error: float

    @property
    def order(self) -> int:
        """α, the largest order."""
        return len(self.logs) - 1

    def upper_logs(self) -> np.ndarray:
        """(α+1,) float64: log E_Q X^t rounded up; exactly 0 at t = 0 and 1."""
        upper = np.nextafter((self.logs + self.relative_error).astype(np.float64), np.inf)
        upper[:2] = 0.0
        return upper


def moments(
    gram: np.ndarray, *, sigma: float, order: int, bandwidth: int, token_weights: np.ndarray | None = None, precise: bool = False
) -> Moments:
    """The moments of the Gram matrix restricted to the band d(i, j) < p.

    Args:
      gram: (b, b) float64 symmetric; entries inside the band may be negative (shifted truncations).
      sigma: σ > 0.
      order: α >= 2.
      bandwidth: p >= 1, the cyclic bandwidth; what lies outside is ignored.
      token_weights: (b,) float64 >= 0 or None: every token in bin i contributes a factor e^{weight_i} more.
      precise: work in the machine's extended precision throughout.

    Raises:
      InputError: an argument out of range, or a table beyond the memory limit.
    """
    order, bandwidth = checks.integer(at_least=2, order=order), checks.integer(bandwidth=bandwidth)
    bins = len(gram)
    window = min(bandwidth - 1, bins - 1)
    if window == 0:
        return diagonal_moments(np.diag(gram), sigma=sigma, order=order, token_weights=token_weights)
    h = 1.0 / np.longdouble(checks.positive(sigma=sigma)) ** 2
    inside = np.where(cyclic_distance(bins) <= window, gram, 0.0)
    band = _Band(
        gram=inside, h=h, level=max(0.0, float(inside.max())), window=window, weights=_scaled_weights(token_weights, bins),
    )
    scaled, steps = _scaled_sums(band, order, np.longdouble if precise else np.float64)
    return _unscale(scaled, steps, bins, h, band.level, band.level - min(0.0, float(inside.min())), token_weights, precise)


def diagonal_moments(diagonal: np.ndarray, *, sigma: float, order: int, token_weights: np.ndarray | None = None) -> Moments:
    """As `moments` for band 1: coefficient extraction with one (α+1)² matrix per run of equal bins, in extended precision.

    Args:
      diagonal: (b,) float64, the G_ii.
    """
    order = checks.integer(at_least=2, order=order)
    h = 1.0 / np.longdouble(checks.positive(sigma=sigma)) ** 2
    bins, level, weights = len(diagonal), max(0.0, float(np.max(diagonal))), _scaled_weights(token_weights, len(diagonal))
    counts = np.arange(order + 1)
    added = counts[:, None] - counts[None, :]
    cross = np.exp(-np.maximum(added, 0) * counts[None, :] * (h * level))
    sums = np.zeros(order + 1, np.longdouble)
    sums[0] = 1.0
    keys = np.stack([diagonal, weights])
    starts = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    for start, stop in zip(starts, np.r_[starts[1:], bins]):
        own = _self_factors(h * (level - np.longdouble(diagonal[start])), weights[start], order, np.longdouble)
        matrix = np.where(added >= 0, own[np.maximum(added, 0)] * cross, np.longdouble(0))
        sums = np.linalg.matrix_power(matrix, int(stop - start)) @ sums
    return _unscale(sums, float((order + 1) ** 3) * bins, bins, h, level, level - min(0.0, float(np.min(diagonal))), token_weights, True)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Band:
    """The band (b, b), h, the level g, w and the log weight per token of each bin (b,), at most 0."""

    gram: np.ndarray
    h: np.longdouble
    level: float
    window: int
    weights: np.ndarray

    def gap(self, n: int, other: int) -> np.longdouble:
        """h·(g − G[n, other]) >= 0."""
        return self.h * (self.level - np.longdouble(self.gram[n, other]))

    @property
    def wraps(self) -> bool:
        """Whether the last bins meet the first ones."""
        bins = len(self.gram)
        far = np.subtract.outer(np.arange(bins), np.arange(bins)) > self.window
        return bool((self.gram[far] != 0).any())


def _scaled_weights(token_weights: np.ndarray | None, bins: int) -> np.ndarray:
    if token_weights is None:
        return np.zeros(bins)
    token_weights = np.asarray(token_weights, dtype=np.float64)
    return token_weights - token_weights.max()


def _scaled_sums(band: _Band, order: int, dtype: type) -> tuple[np.ndarray, float]:
    """(α+1,) level-scaled sums, and how many products were added up."""
    table = _transitions(band.window, order)
    rows = _row_factors(band, table, dtype)
    if not band.wraps:
        return _chain_sums(table, rows, range(len(band.gram)), order, np.ones((1, 1), dtype), None)
    sums, steps = np.zeros(order + 1, dtype), 0.0
    for total in range(order + 1):
        prefixes = compositions(total, band.window)
        start = _prefix_weights(band, prefixes, dtype)[None, :]
        part, work = _chain_sums(
            table, rows, range(band.window, len(band.gram)), order - total, start,
            _prefix_factors(band, prefixes, order, dtype),
        )
        sums[total:] += part
        steps += work
    return sums, steps


def _self_factors(gap: np.longdouble, weight: float, order: int, dtype: type) -> np.ndarray:
    """(α+1,): e^{−½u(u−1)·gap + u·weight}/u! for u = 0..α, gap = h(g − G_nn)."""
    u = np.arange(order + 1, dtype=np.longdouble)
    logs = -0.5 * u * (u - 1) * gap + u * weight
    return (np.exp(logs) / _factorials(order)).astype(dtype)


def _factorials(order: int) -> np.ndarray:
    return np.cumprod(np.maximum(np.arange(order + 1), 1).astype(np.longdouble))


def simplex(total: int, parts: int) -> np.ndarray:
    """(C(total+parts, parts), parts) int64: all vectors of `parts` counts >= 0 with sum at most `total`, in lexicographic order."""
    vectors, left = np.zeros((1, 0), dtype=np.int64), np.array([total])
    for _ in range(parts):
        begin = np.r_[0, np.cumsum(left + 1)]
        row = np.repeat(np.arange(len(left)), left + 1)
        count = np.arange(begin[-1]) - begin[row]
        vectors, left = np.column_stack([vectors[row], count]), left[row] - count
    return vectors


def compositions(total: int, parts: int) -> np.ndarray:
    """(C(total+parts−1, parts−1), parts) int64: all vectors of `parts` counts >= 0 with this sum, in lexicographic order."""
    head = simplex(total, parts - 1)
    return np.column_stack([head, total - head.sum(axis=1)])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Transitions:
    """The moves into every state (s_2, …, s_w, u, rest'), one per s_1 that joins the rest; states are sorted by their total.

    `begin[y]`: the first move of state y; `source`, `leaving`, `target`: old state, s_1 and new state of every move; `states`: (n, w+1);
    `size[c]`: number of states of total <= c.
    """

    states: np.ndarray
    size: np.ndarray
    begin: np.ndarray
    source: np.ndarray
    leaving: np.ndarray
    target: np.ndarray


@functools.lru_cache(maxsize=4)
def _transitions(window: int, order: int) -> _Transitions:
    moves = math.comb(order + window + 2, window + 2)
    require_memory(8.0 * (window + 8) * moves, f"the Rényi table of bandwidth={window + 1}, order={order}")
    states = simplex(order, window + 1)
    totals = states.sum(axis=1)
    by_total = np.argsort(totals, kind="stable")
    states, totals = states[by_total], totals[by_total]
    size = np.cumsum([math.comb(total + window, window) for total in range(order + 1)])
    begin = np.r_[0, np.cumsum(states[:, -1] + 1)]
    target = np.repeat(np.arange(len(states)), states[:, -1] + 1)
    leaving = np.arange(begin[-1]) - begin[target]
    old_totals = (totals - states[:, -2])[target]
    old = [leaving, *(states[target, j] for j in range(window - 1)), states[target, -1] - leaving]
    return _Transitions(
        states=states, size=size, begin=begin.astype(np.int32), source=_places(old, old_totals, size).astype(np.int32),
        leaving=leaving.astype(np.int16), target=target.astype(np.int32),
    )


def _places(counts: list[np.ndarray], totals: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Where vectors of counts stand among all of them, sorted by total and then in lexicographic order.

    C(n+d−1, d−1) vectors of d counts have the sum n; those whose first count is at least c are as many as have the sum n−c.
    """
    places = np.r_[0, size[:-1]][totals]
    left = totals
    for parts in range(len(counts), 1, -1):
        vectors = np.array([math.comb(n + parts - 1, parts - 1) for n in range(len(size))])
        after = left - counts[len(counts) - parts]
        places = places + vectors[left] - vectors[after]
        left = after
    return places


def _row_factors(band: _Band, table: _Transitions, dtype: type) -> Callable[[int], np.ndarray]:
    """A function n → data of all moves into bin n, remembering the last one (most bins of a Toeplitz C are alike)."""
    window, bins = band.window, len(band.gram)
    order = len(table.size) - 1
    added, height = table.states[:, -2], dtype(band.h * band.level)
    # Bins before the first hold no tokens, so any gap to them will do; the one that later bins have keeps the key the same.
    keys = [
        (*(band.gap(max(n, d), max(n, d) - d) for d in range(1, window + 1)), band.gap(n, n), band.weights[n]) for n in range(bins)
    ]

    def data(key: tuple) -> np.ndarray:
        gaps, (own, weight) = np.array(key[:window], dtype), key[window:]
        inner = added * (table.states[:, :-2] @ gaps[-2::-1] + table.states[:, -1] * height)
        per_leaving = added * (gaps[-1] - height)
        logs = -(inner[table.target] + per_leaving[table.target] * table.leaving)
        return np.exp(logs) * _self_factors(own, weight, order, dtype)[added][table.target]

    remembered = _remembering_last(data)
    return lambda n: remembered(keys[n])


def _remembering_last(function: Callable[[tuple], np.ndarray]) -> Callable[[tuple], np.ndarray]:
    """The same function, which returns the very object it returned last where the key is the same again."""
    last: dict[tuple, np.ndarray] = {}

    def value(key: tuple) -> np.ndarray:
        if key not in last:
            last.clear()
            last[key] = function(key)
        return last[key]

    return value


def _prefix_weights(band: _Band, prefixes: np.ndarray, dtype: type) -> np.ndarray:
    """(m,): the factor of m prefixes (m, w) among themselves."""
    order = int(prefixes.sum(axis=1).max())
    weights = np.ones(len(prefixes), dtype)
    for i in range(band.window):
        weights *= _self_factors(band.gap(i, i), band.weights[i], order, dtype)[prefixes[:, i]]
        for j in range(i):
            weights *= np.exp(-(prefixes[:, i] * prefixes[:, j]) * band.gap(i, j)).astype(dtype)
    return weights


def _prefix_factors(band: _Band, prefixes: np.ndarray, order: int, dtype: type) -> Callable[[int], np.ndarray]:
    """A function n → (α+1, m): the factor of u tokens in bin n with every prefix, remembering the last one."""
    def factors(gaps: tuple) -> np.ndarray:
        return np.exp(-np.multiply.outer(np.arange(order + 1), prefixes @ np.array(gaps)).astype(dtype))

    remembered = _remembering_last(factors)
    return lambda n: remembered(tuple(band.gap(n, j) for j in range(band.window)))


def _chain_sums(table: _Transitions, rows, bins: range, capacity: int, start: np.ndarray, prefix_factors) -> tuple[np.ndarray, float]:
    """(capacity+1,) sums by total after all `bins`; `start`: (1, m) weights of the empty state, one column per prefix."""
    states, moves = int(table.size[capacity]), int(table.begin[table.size[capacity]])
    require_memory(3.0 * states * start.size * start.itemsize, "the Rényi table of one prefix total")
    sums = np.zeros((states, start.shape[1]), start.dtype)
    sums[0] = start
    added = table.states[:states, -2]
    data = matrix = None
    for n in bins:
        if rows(n) is not data:
            data = rows(n)
            matrix = scipy.sparse.csr_matrix((data[:moves], table.source[:moves], table.begin[: states + 1]), shape=(states, states))
        sums = matrix @ sums
        if prefix_factors is not None:
            sums *= prefix_factors(n)[added]
    by_total = np.add.reduceat(sums.sum(axis=1), np.r_[0, table.size[:capacity]])
    return by_total, float(moves) * start.shape[1] * len(bins)


def _unscale(
    scaled: np.ndarray, steps: float, bins: int, h: np.longdouble, level: float, largest_gap: float,
    token_weights: np.ndarray | None, extended: bool,
) -> Moments:
    """The moments from level-scaled sums; `largest_gap` is the most by which an entry lies below the level."""
    order = len(scaled) - 1
    t = np.arange(order + 1, dtype=np.longdouble)
    limits = np.finfo(np.longdouble if extended else np.float64)
    log_growth = np.max(t * math.log(bins) - gammaln(t.astype(float) + 1))
    # Each of `steps` products may have lost one smallest normal number, multiplied afterwards by at most max_t b^t/t! (twice for powers).
    log_lost = np.log(limits.smallest_normal) + math.log(steps) + (2 if extended else 1) * log_growth
    with np.errstate(divide="ignore"):
        logs = np.log(scaled.astype(np.longdouble))
    usable = log_lost < logs - 45.0
    shift = 0.0 if token_weights is None else float(np.max(token_weights))
    logs = logs + np.log(_factorials(order)) - t * np.log(np.longdouble(bins)) + 0.5 * h * level * t * (t - 1) + t * shift
    # Roundings in sequence: per bin a product and a sum over at most α+1 terms; exponents add their size.
    roundings = bins * (order + 24.0) + 8.0 * float(h * largest_gap) * order**2 + order * shift
    return Moments(logs=np.where(usable, logs, np.inf), relative_error=roundings * float(limits.eps) + math.exp(-45.0))
