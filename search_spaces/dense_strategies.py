"""Strategies whose columns are longer than the gap between two participations: only balls-in-bins can account for them.

C is lower triangular, T×T, with entries >= 0: given whole (`DenseStrategy`) or, where it is Toeplitz, by its first column
(`FullToeplitzStrategy`). They share no attribute `coefficients` with `ToeplitzStrategy`, so that accountants which need windows that do not
overlap fail on them instead of returning a number. BSR and BISR: math/balls-in-bins.md, meta of the reference data.
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.linalg
import scipy.signal

from search_spaces import checks
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins, BatchScheme
from search_spaces.strategies import ToeplitzStrategy


def square_root_column(*, iterations: int, bandwidth: int) -> np.ndarray:
    """(T,) float64: the first `bandwidth` coefficients of (1−x)^{−1/2}, then zeros (BSR; c_0 = 1, not scaled).

    Raises:
      InputError: bandwidth not in 1..T.
    """
    bandwidth = checks.integer(at_most=checks.integer(iterations=iterations), bandwidth=bandwidth)
    column = np.zeros(iterations)
    column[:bandwidth] = _power_series(-0.5, bandwidth)
    return column


def inverse_square_root_column(*, iterations: int, bandwidth: int) -> np.ndarray:
    """(T,) float64: the column of C where C⁻¹ has the first `bandwidth` coefficients of (1−x)^{1/2} (BISR; c_0 = 1, not scaled).

    Raises:
      InputError: bandwidth not in 1..T.
    """
    bandwidth = checks.integer(at_most=checks.integer(iterations=iterations), bandwidth=bandwidth)
    impulse = np.zeros(iterations)
    impulse[0] = 1.0
    return scipy.signal.lfilter([1.0], _power_series(0.5, bandwidth), impulse)


def _power_series(exponent: float, count: int) -> np.ndarray:
    """The first `count` coefficients of (1−x)^exponent."""
    n = np.arange(1, count)
    return np.concatenate([[1.0], np.cumprod((n - 1 - exponent) / n)])


class _OverlappingStrategy:
    """What both kinds share; subclasses have `iterations` and `dense()`."""

    iterations: int

    def dense(self) -> np.ndarray:
        """(T, T) float64: C itself."""
        raise NotImplementedError

    @functools.cached_property
    def column_norm(self) -> float:
        """The largest column norm of C."""
        return float(np.linalg.norm(self.dense(), axis=0).max())

    @functools.cached_property
    def bandwidth(self) -> int:
        """The smallest w with C[s, t] = 0 for s − t >= w."""
        rows, columns = np.nonzero(self.dense())
        return int((rows - columns).max()) + 1

    def apply(self, x: np.ndarray) -> np.ndarray:
        """C x along the last axis of x, shape (..., T) -> (..., T)."""
        return np.asarray(x) @ self.dense().T

    def total_squared_error(self, *, sigma: float) -> float:
        """TSE = σ²‖A C⁻¹‖²_F with A the prefix sums."""
        sigma = checks.positive(sigma=sigma)
        inverse = scipy.linalg.solve_triangular(self.dense(), np.eye(self.iterations), lower=True)
        return sigma**2 * float(np.square(np.cumsum(inverse, axis=0)).sum())

    def rmse(self, *, sigma: float, participations: int) -> float:
        """RMSE = (1/K) √(TSE/T) (clip norm 1)."""
        participations = checks.integer(participations=participations)
        return math.sqrt(self.total_squared_error(sigma=sigma) / self.iterations) / participations


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DenseStrategy(_OverlappingStrategy):
    """Any non-negative lower-triangular C.

    Attributes:
      matrix: (T, T) float64, entries finite and >= 0, zero above the diagonal, positive on it. Copied and made read-only.
      family: where it comes from, for reports.

    Raises:
      InputError: the matrix is not square, or an entry breaks one of the rules above.
    """

    matrix: np.ndarray
    family: str = "dense"

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise InputError(f"Expected matrix with shape {matrix.shape} to be square and not empty.")
        _require_entries(np.isfinite(matrix), matrix, "finite")
        _require_entries(matrix >= 0, matrix, ">= 0")
        _require_entries(np.triu(matrix, 1) == 0, matrix, "zero above the diagonal (lower triangular)")
        _require_entries(~np.eye(len(matrix), dtype=bool) | (matrix > 0), matrix, "> 0 on the diagonal")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @property
    def iterations(self) -> int:
        """T, the number of rows and columns."""
        return len(self.matrix)

    def dense(self) -> np.ndarray:
        return self.matrix


def _require_entries(allowed: np.ndarray, matrix: np.ndarray, rule: str) -> None:
    if not allowed.all():
        row, column = (int(i) for i in np.argwhere(~allowed)[0])
        raise InputError(f"Expected matrix[{row}, {column}]={float(matrix[row, column])!r} to be {rule}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FullToeplitzStrategy(_OverlappingStrategy):
    """A lower-triangular Toeplitz C by its whole first column (for example BISR).

    Attributes:
      column: (T,) floats, the first > 0 and all >= 0.
      family: where it comes from, for reports.

    Raises:
      InputError: an entry that is negative or not finite, or a first entry that is not positive.
    """

    column: tuple[float, ...]
    family: str = "toeplitz"

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", checks.coefficients(self.column, name="column"))

    @property
    def iterations(self) -> int:
        """T, the number of rows and columns."""
        return len(self.column)

    def dense(self) -> np.ndarray:
        return scipy.linalg.toeplitz(self.column, np.zeros(self.iterations))


def square_root(*, iterations: int, bandwidth: int) -> FullToeplitzStrategy:
    """BSR: C with the column `square_root_column`; raises as that does."""
    column = square_root_column(iterations=iterations, bandwidth=bandwidth)
    return FullToeplitzStrategy(column=tuple(column.tolist()), family="bsr")


def inverse_square_root(*, iterations: int, bandwidth: int) -> FullToeplitzStrategy:
    """BISR: C with the column `inverse_square_root_column`; raises as that does."""
    column = inverse_square_root_column(iterations=iterations, bandwidth=bandwidth)
    return FullToeplitzStrategy(column=tuple(column.tolist()), family="bisr")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OverlappingMechanism:
    """Balls-in-bins with a strategy whose columns may outlast the gap between two participations; clip norm 1.

    It has the attributes of `search_spaces.mechanism.Mechanism` and is not one, because all other accountants need windows without overlap:
    they refuse it.

    Attributes:
      scheme: balls-in-bins, T = K·b.
      strategy: `DenseStrategy` or `FullToeplitzStrategy` over the scheme's T iterations.
      sigma: noise multiplier σ > 0.

    Raises:
      InputError: σ not positive, or the T of scheme and strategy differ.
      UnsupportedError: another scheme.
    """

    scheme: BallsInBins
    strategy: DenseStrategy | FullToeplitzStrategy
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checks.positive(sigma=self.sigma))
        if not isinstance(self.scheme, BallsInBins):
            raise UnsupportedError(f"Expected scheme {self.scheme.name} to be balls_in_bins, the only one that allows overlapping windows.")
        if self.scheme.iterations != self.strategy.iterations:
            raise InputError(f"Expected strategy iterations={self.strategy.iterations} to be the scheme's {self.scheme.iterations}.")

    def with_sigma(self, sigma: float) -> "OverlappingMechanism":
        """The same scheme and strategy with another noise multiplier."""
        return dataclasses.replace(self, sigma=sigma)

    @functools.cached_property
    def sensitivity(self) -> float:
        """The largest ‖Cx‖ of a schedule x: its K columns overlap, so that it can be up to √K times what it is without overlap."""
        columns = self.strategy.dense().reshape(self.scheme.iterations, self.scheme.participations, self.scheme.separation)
        return float(np.linalg.norm(columns.sum(axis=1), axis=0).max())

    @property
    def rmse(self) -> float:
        """RMSE of the prefix sums, (1/K) √(TSE/T)."""
        return self.strategy.rmse(sigma=self.sigma, participations=self.scheme.participations)


Strategy = ToeplitzStrategy | DenseStrategy | FullToeplitzStrategy


def make_mechanism(*, scheme: BatchScheme, strategy: Strategy, sigma: float) -> Mechanism | OverlappingMechanism:
    """The mechanism of a strategy of either kind; raises as the two classes do."""
    kind = Mechanism if isinstance(strategy, ToeplitzStrategy) else OverlappingMechanism
    return kind(scheme=scheme, strategy=strategy, sigma=sigma)
