"""The largest value of δ_G(ε − l; ξ)·e^{−rate·l} over all real l, with a certified upper bound.

This maximum, times Z, is what no sampled value of a tilted estimator exceeds (math/certificates.md, sections 2 and 3).
"""

import math

import numpy as np

from accountants.gaussian import gaussian_delta_bounds
from search_spaces import checks

_CELLS = 2048
_GAP = 1e-6
_ROUNDS = 30
_ROUNDING = 1e-12


def log_peak(*, epsilon: float, xi: float, rate: float) -> float:
    """An upper bound, rounded up by less than about 1e-6, on max over l of log δ_G(ε − l; ξ) − rate·l.

    δ_G(ε − l; ξ) grows with l and the other factor falls, so a cell [a, b] has no value above log δ_G(ε − b; ξ) − rate·a. Cells that cannot
    hold the maximum are dropped and the others divided until the bound is tight. Outside the first grid, log δ_G <= 0 and, for
    x = (ε − l)/ξ − ξ/2 >= 0, log δ_G <= −x²/2 bound what is missed.

    Args:
      epsilon: any real number.
      xi: ξ >= 0; 0 means (1 − e^{ε−l})_+ in place of δ_G.
      rate: > 0.
    """
    checks.non_negative(xi=xi)
    checks.positive(rate=rate)
    if xi == 0:
        # The maximum is at e^{l−ε} = (1 + rate)/rate.
        return (-rate * epsilon - math.log(rate) - (1 + rate) * math.log1p(1 / rate)) + _ROUNDING * (1 + abs(rate * epsilon))
    low, high, outside = _range(epsilon, xi, rate)
    left, right = _divide(np.array([low]), np.array([high]))
    for _ in range(_ROUNDS):
        upper = _log_delta(epsilon - right, xi) - rate * left
        achieved = float((_log_delta(epsilon - right, xi) - rate * right).max())
        if upper.max() - achieved < _GAP:
            break
        kept = upper > achieved
        left, right = _divide(left[kept], right[kept])
    highest = max(float(upper.max()), outside)
    return highest + _ROUNDING * (1 + abs(rate * epsilon) + abs(highest))


def _range(epsilon: float, xi: float, rate: float) -> tuple[float, float, float]:
    """An interval and an upper bound on the objective outside it that is no more than its value at some point inside."""
    start = epsilon + math.log1p(1 / rate)
    reached = float(_log_delta(np.array([epsilon - start]), xi)[0]) - rate * start
    # Above `high` the objective is at most −rate·high.
    high = max(start, -reached / rate) + 1.0
    # −x²/2 − rate·l is largest at ε − l = (rate + ½)ξ², and beyond that falls off like a normal density of width ξ.
    widest = (rate + 0.5) * xi**2
    largest = -rate * epsilon + rate * (rate + 1) * xi**2 / 2
    distance = math.sqrt(2 * max(largest - reached, 0.0)) + 1.0
    low = min(epsilon - widest - xi * distance, start - 1.0)
    return low, high, max(-rate * high, largest - ((epsilon - low - widest) / xi) ** 2 / 2)


def _divide(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cells cut into equal parts, so that there are about `_CELLS`."""
    parts = max(2, _CELLS // left.size)
    edges = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, parts + 1)
    edges[:, -1] = right
    return edges[:, :-1].ravel(), edges[:, 1:].ravel()


def _log_delta(epsilon: np.ndarray, xi: float) -> np.ndarray:
    """An upper bound on log δ_G(ε; ξ) that is close also where δ_G underflows."""
    x = np.maximum(epsilon / xi - xi / 2, 0.0)
    return np.minimum(np.log(gaussian_delta_bounds(epsilon=epsilon, mu=xi)[1]), -0.5 * np.square(x))
