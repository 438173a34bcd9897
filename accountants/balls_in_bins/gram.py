"""Means and Gram matrices of balls-in-bins (math/balls-in-bins.md, section (a)).

Bin i of b has the mean m_i = Σ_j |C|[:, i+jb] in R^N, N = kb, and G_ij = ⟨m_i, m_j⟩. P = (1/b) Σ_i N(m_i, σ²I), Q = N(0, σ²I).
"""

import functools

import numpy as np

from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism

LARGEST_ARRAY = 2**30
"""Bytes one array may take before an argument is refused."""


def mean_profile(*, column: np.ndarray, bins: int, epochs: int) -> np.ndarray:
    """(N,) float64: f(s) = Σ_j |c_{s−jb}|, for which m_i[t] = f(t−i) at t >= i where C is Toeplitz.

    Args:
      column: (n,) first column of C, n <= N; missing entries are zero.
      bins: b.
      epochs: k.

    Raises:
      InputError: b or k below 1, or more than N = kb coefficients.
    """
    bins, epochs = checks.integer(bins=bins), checks.integer(epochs=epochs)
    column = np.abs(np.asarray(column, dtype=np.float64))
    checks.integer(at_most=bins * epochs, length_of_column=len(column))
    padded = np.zeros(bins * epochs)
    padded[: len(column)] = column
    return np.cumsum(padded.reshape(epochs, bins), axis=0).ravel()


def toeplitz_gram(*, column: np.ndarray, bins: int, epochs: int) -> np.ndarray:
    """(b, b) float64: G of a Toeplitz C in O(N·b) time and O(N + b²) memory; arguments and errors as for `mean_profile`."""
    profile = mean_profile(column=column, bins=bins, epochs=epochs)
    require_memory(8 * bins * bins, "the Gram matrix")
    gram = np.zeros((bins, bins))
    for lag in range(bins):
        sums = np.cumsum(profile[: len(profile) - lag] * profile[lag:])
        later = np.arange(lag, bins)
        gram[later - lag, later] = gram[later, later - lag] = sums[len(profile) - 1 - later]
    return gram


def dense_means(*, matrix: np.ndarray, bins: int) -> np.ndarray:
    """(N, b) float64: column i is m_i.

    Args:
      matrix: (N, N) lower-triangular C; its entries are taken by absolute value, as the dominating pair asks.
      bins: b, a divisor of N.

    Raises:
      InputError: the matrix is not square, or b does not divide N.
    """
    matrix, bins = np.asarray(matrix, dtype=np.float64), checks.integer(bins=bins)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"Expected matrix with shape {matrix.shape} to be square.")
    if len(matrix) % bins:
        raise InputError(f"Expected bins={bins} to divide the {len(matrix)} iterations, so that they are whole epochs.")
    return np.abs(matrix).reshape(len(matrix), -1, bins).sum(axis=1)


def gram_of(means: np.ndarray) -> np.ndarray:
    """(b, b) float64: the Gram matrix of the columns of `means`, shape (N, b)."""
    return means.T @ means


def strategy_column(strategy: object) -> np.ndarray | None:
    """The first column of a Toeplitz strategy (without trailing zeros it does not store), or None where C is not Toeplitz."""
    column = getattr(strategy, "coefficients", None)
    column = getattr(strategy, "column", None) if column is None else column
    return None if column is None else np.asarray(column, dtype=np.float64)


def mechanism_gram(mechanism: Mechanism) -> np.ndarray:
    """(b, b) float64: G of a balls-in-bins mechanism, rounded up (which bounds every divergence from above); read-only."""
    return _strategy_gram(mechanism.strategy, mechanism.scheme.separation)


@functools.lru_cache(maxsize=8)
def _strategy_gram(strategy: object, bins: int) -> np.ndarray:
    column = strategy_column(strategy)
    if column is None:
        gram = gram_of(dense_means(matrix=strategy.dense(), bins=bins))
    else:
        gram = toeplitz_gram(column=column, bins=bins, epochs=strategy.iterations // bins)
    # Sums of at most N products of sums of at most N non-negative terms.
    gram *= 1 + (2 * strategy.iterations + 8) * np.finfo(np.float64).eps
    gram.setflags(write=False)
    return gram


def check_gram(gram: np.ndarray) -> np.ndarray:
    """`gram` as float64 if it can be a Gram matrix of non-negative vectors.

    Raises:
      InputError: not square, not symmetric, an entry that is negative or not finite, or an entry above both diagonal entries.
    """
    gram = np.asarray(gram, dtype=np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.size == 0:
        raise InputError(f"Expected gram with shape {gram.shape} to be square and not empty.")
    if not np.isfinite(gram).all() or gram.min() < 0:
        raise InputError(f"Expected gram with entries from {gram.min()!r} to {gram.max()!r} to have finite entries >= 0.")
    if not np.allclose(gram, gram.T, rtol=1e-12, atol=0):
        raise InputError("Expected gram to be symmetric.")
    norms = np.sqrt(np.diag(gram))
    if (gram > np.outer(norms, norms) * (1 + 1e-9)).any():
        raise InputError("Expected gram to have no entry above the geometric mean of its two diagonal entries.")
    return np.maximum(gram, gram.T)


def cyclic_distance(bins: int) -> np.ndarray:
    """(b, b) int64: d(i, j) = min(|i−j|, b−|i−j|)."""
    gap = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins)))
    return np.minimum(gap, bins - gap)


def cyclic_bandwidth(gram: np.ndarray) -> int:
    """The smallest p with G_ij = 0 wherever d(i, j) >= p; at least 1."""
    off_diagonal = cyclic_distance(len(gram))[gram != 0]
    return int(off_diagonal.max(initial=0)) + 1


def lag_maxima(gram: np.ndarray) -> np.ndarray:
    """(b,) float64: the largest entry G[a, (a+d) mod b] for every lag d; symmetric under d → b−d."""
    bins = len(gram)
    rows = np.arange(bins)
    return np.array([gram[rows, (rows + lag) % bins].max() for lag in range(bins)])


def require_memory(needed: float, what: str) -> None:
    """Raises InputError if `needed` bytes exceed `LARGEST_ARRAY`, saying how much is needed."""
    if needed > LARGEST_ARRAY:
        raise InputError(f"Expected {what} to fit in {LARGEST_ARRAY / 2**30:.3g} GiB, but it needs {needed / 2**30:.3g} GiB.")
