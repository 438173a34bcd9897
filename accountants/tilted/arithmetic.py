"""Sums and products of non-negative numbers that are kept either as they are or as logarithms.

The replica programs are written once over these operations. Plain numbers are several times faster; logarithms are used where a
sum over schedules can leave the range of float64 (math/balls-in-bins.md, section (b): log-sum-exp).
"""

import dataclasses
from collections.abc import Callable

import numpy as np

PLAIN_LIMIT = 600.0
"""Largest possible exponent of a sum that is kept in plain numbers; float64 ends at e^709."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Arithmetic:
    """One representation of non-negative numbers as float64 arrays.

    Attributes:
      zero, one: the representations of 0 and 1.
      lift: represents e^x given x.
      log: the logarithm of a represented number.
      times: product of two represented numbers; a NumPy ufunc, so it takes `out`.
      plus: sum of two represented numbers; likewise.
      total: sum over one axis.
    """

    zero: float
    one: float
    lift: Callable[[np.ndarray], np.ndarray]
    log: Callable[[np.ndarray], np.ndarray]
    times: np.ufunc
    plus: np.ufunc
    total: Callable[[np.ndarray, int], np.ndarray]


def log_of(values: np.ndarray) -> np.ndarray:
    """Elementwise natural logarithm with log 0 = −∞ and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


PLAIN = Arithmetic(
    zero=0.0, one=1.0, lift=np.exp, log=log_of, times=np.multiply, plus=np.add, total=lambda values, axis: np.sum(values, axis=axis),
)
LOGS = Arithmetic(
    zero=-np.inf, one=0.0, lift=lambda x: np.asarray(x, float), log=lambda x: x, times=np.add, plus=np.logaddexp,
    total=lambda values, axis: np.logaddexp.reduce(values, axis=axis),
)


def arithmetic_for(largest_exponent: float) -> Arithmetic:
    """`PLAIN` if e^largest_exponent is safely representable, else `LOGS`."""
    return PLAIN if largest_exponent < PLAIN_LIMIT else LOGS


def choose(rng: np.random.Generator, log_weights: np.ndarray) -> np.ndarray:
    """One index per row, drawn with probability ∝ e^{log_weights}; (n, m) → (n,) int64. Every row needs a weight > −∞."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weights, axis=1)
    thresholds = rng.random(weights.shape[0]) * cumulative[:, -1]
    # A threshold below the last cumulative weight never selects a choice of weight zero: equal ones are stepped over together.
    return np.sum(cumulative <= thresholds[:, None], axis=1)
