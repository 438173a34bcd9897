"""Banded Toeplitz strategies: the matrix C of DP-BandMF, its inverse, its windows and its error.

C is lower triangular, T×T, with C[t+i, t] = c_i for 0 <= i < b and zero elsewhere. Notation and formulas:
math/batch-schemes.md, "Strategy matrix and utility".
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.signal

from search_spaces import checks
from search_spaces.errors import InputError, NumericalError

NORM_RANGE = (1e-100, 1e100)
"""Allowed ‖c‖₂: inside it no square of a coefficient that matters under- or overflows."""

LARGEST_GAIN = 1e140
"""Largest entry of C⁻¹ that is accepted: its square, summed over all steps, still is a finite float64."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToeplitzStrategy:
    """A banded Toeplitz strategy C given by its first column.

    Attributes:
      iterations: T, the number of rows and columns.
      coefficients: (b,) floats, c_0 > 0 and c_i >= 0; used as given. Trailing zeros count towards the bandwidth.
      family: where the coefficients come from (`harmonic`, `banded_square_root`, `identity` or `coefficients`).
      r: the parameter of the harmonic family, else None.

    Raises:
      InputError: T < 1, more than T coefficients, a coefficient that is negative or not finite, or ‖c‖₂ outside `NORM_RANGE`.
      NumericalError: (on use of the inverse) C⁻¹ grows beyond what float64 can square and sum.
    """

    iterations: int
    coefficients: tuple[float, ...]
    family: str = "coefficients"
    r: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", checks.integer(iterations=self.iterations))
        object.__setattr__(self, "coefficients", checks.coefficients(self.coefficients))
        checks.integer(at_most=self.iterations, bandwidth=self.bandwidth)
        if not NORM_RANGE[0] <= self.column_norm <= NORM_RANGE[1]:
            raise InputError(f"Expected the norm {self.column_norm:.6g} of coefficients to be in [{NORM_RANGE[0]:g}, {NORM_RANGE[1]:g}].")

    @property
    def bandwidth(self) -> int:
        """b, the number of coefficients."""
        return len(self.coefficients)

    @functools.cached_property
    def column_norm(self) -> float:
        """‖c‖₂, the largest column norm of C."""
        return math.hypot(*self.coefficients)

    @functools.cached_property
    def window_energies(self) -> np.ndarray:
        """(T,) float64: ½‖C e_t‖² = ½‖c_{0:min(b, T−t)}‖² for every t; windows that run past T are truncated."""
        energies = 0.5 * np.cumsum(np.square(self.coefficients))
        return _frozen(energies[np.minimum(self.bandwidth, self.iterations - np.arange(self.iterations)) - 1])

    @functools.cached_property
    def inverse_coefficients(self) -> np.ndarray:
        """(T,) float64: the first column of C⁻¹ (Toeplitz as well), by back substitution."""
        impulse = np.zeros(self.iterations)
        impulse[0] = 1.0
        inverse = scipy.signal.lfilter([1.0], self.coefficients, impulse)
        return _frozen(self._bounded(inverse))

    @functools.cached_property
    def prefix_noise(self) -> np.ndarray:
        """(T,) float64: h = cumsum of the first column of C⁻¹, the noise gain of the prefix sums."""
        return _frozen(self._bounded(np.cumsum(self.inverse_coefficients)))

    @functools.cached_property
    def participation_direction(self) -> np.ndarray:
        """(T,) float64: v = C^{−T}1, for which ⟨C e_t, v⟩ = 1 at every t; v_t = h_{T−1−t} (math/certificates.md, the Gaussian factor)."""
        return _frozen(self.prefix_noise[::-1].copy())

    @functools.cached_property
    def kappa(self) -> float:
        """κ = 1/‖v‖: how far one participation moves the output along v/‖v‖."""
        return 1.0 / float(np.linalg.norm(self.participation_direction))

    def dense(self) -> np.ndarray:
        """(T, T) float64: C itself; for cross-checks and small T only."""
        matrix = np.zeros((self.iterations, self.iterations))
        for lag, c in enumerate(self.coefficients):
            matrix += np.diag(np.full(self.iterations - lag, c), -lag)
        return matrix

    def apply(self, x: np.ndarray) -> np.ndarray:
        """C x along the last axis of x, shape (..., T) -> (..., T).

        Raises:
          InputError: the last axis is not T long; C has no row beyond the horizon.
        """
        if np.shape(x)[-1:] != (self.iterations,):
            raise InputError(f"Expected the last axis of shape={np.shape(x)} to be the {self.iterations} iterations of the strategy.")
        return scipy.signal.lfilter(self.coefficients, [1.0], x, axis=-1) if np.size(x) else np.zeros(np.shape(x))

    def apply_transpose(self, y: np.ndarray) -> np.ndarray:
        """Cᵀ y along the last axis of y, shape (..., T) -> (..., T); raises as `apply` does."""
        return self.apply(y[..., ::-1])[..., ::-1]

    @functools.cached_property
    def unit_error(self) -> float:
        """Σ_j (T−j) h_j²: the total squared error of all T prefix sums at σ = 1."""
        remaining = self.iterations - np.arange(self.iterations)
        return float(remaining @ np.square(self.prefix_noise))

    def total_squared_error(self, *, sigma: float) -> float:
        """TSE = σ² Σ_j (T−j) h_j²: expected total squared error of all T prefix sums.

        Raises:
          NumericalError: it is too large for a float64.
        """
        sigma = checks.positive(sigma=sigma)
        return _finite(sigma * sigma * self.unit_error, "total squared error")

    def rmse(self, *, sigma: float, participations: int) -> float:
        """RMSE = (1/K) √(TSE/T), the number bandsmith minimises (clip norm 1).

        Raises:
          NumericalError: it is too large for a float64.
        """
        sigma = checks.positive(sigma=sigma)
        participations = checks.integer(participations=participations)
        return _finite(sigma * (math.sqrt(self.unit_error / self.iterations) / participations), "RMSE")

    def _bounded(self, gains: np.ndarray) -> np.ndarray:
        if not np.all(np.abs(gains) <= LARGEST_GAIN):
            raise NumericalError(
                f"The inverse of the strategy grows beyond {LARGEST_GAIN:g} within iterations={self.iterations}; "
                "its coefficients are too far from a stable filter (non-increasing coefficients are always stable)."
            )
        return gains


def harmonic_range(bandwidth: int) -> tuple[float, float]:
    """The open interval (−1/b, 1/2) of r in which the harmonic family is positive."""
    return -1.0 / bandwidth, 0.5


def harmonic(*, iterations: int, bandwidth: int, r: float) -> ToeplitzStrategy:
    """c_i ∝ 1/(i+1) + r for i = 0..b−1, scaled to ‖c‖₂ = 1 (paper of DP-BandMF random allocation, section 4).

    Raises:
      InputError: bandwidth not in 1..T, or r outside (−1/b, 1/2).
    """
    bandwidth = checks.integer(at_most=checks.integer(iterations=iterations), bandwidth=bandwidth)
    r = checks.between(*harmonic_range(bandwidth), r=r)
    column = 1.0 / np.arange(1, bandwidth + 1) + r
    return _normalised(iterations, column, family="harmonic", r=r)


def banded_square_root(*, iterations: int, bandwidth: int) -> ToeplitzStrategy:
    """The first b coefficients of (1−x)^{−1/2}, that is (−1)^i C(−1/2, i), scaled to ‖c‖₂ = 1."""
    bandwidth = checks.integer(at_most=checks.integer(iterations=iterations), bandwidth=bandwidth)
    lags = np.arange(1, bandwidth)
    column = np.concatenate([[1.0], np.cumprod((2 * lags - 1) / (2 * lags))])
    return _normalised(iterations, column, family="banded_square_root")


def identity(*, iterations: int) -> ToeplitzStrategy:
    """C = I, which is DP-SGD."""
    return ToeplitzStrategy(iterations=iterations, coefficients=(1.0,), family="identity")


def _normalised(iterations: int, column: np.ndarray, **origin: object) -> ToeplitzStrategy:
    return ToeplitzStrategy(iterations=iterations, coefficients=tuple((column / np.linalg.norm(column)).tolist()), **origin)


def _frozen(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise NumericalError(f"The {what} {value} is too large for a 64-bit number.")
    return value
