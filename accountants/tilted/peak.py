"""The largest value of δ_G(ε − l; ξ)·e^{−rate·l} over all real l, with a certified upper bound.

This maximum, times Z, is what no sampled value of a tilted estimator exceeds (math/certificates.md, sections 2 and 3).

f(l) = log δ_G(ε − l; ξ) − rate·l is concave: δ_G(e) = ∫ p(t)(1 − e^{e−t})_+ dt is the convolution of the normal density p of the privacy
loss with (1 − e^{−u})_+, both log-concave, and convolution keeps log-concavity (Prékopa). So three points a < m < b with
f(a), f(b) <= f(m) bound f everywhere: outside [a, b] it is below f(m), in [m, b] below the continued chord from a to m, and in [a, m]
below that from b to m.
"""

import math

import numpy as np
from scipy.special import erfcx

from accountants.gaussian import gaussian_delta_bounds
from search_spaces import checks
from search_spaces.errors import NumericalError

_POINTS = 65
_ROUNDS = 6
_ROUNDING = 1e-12
_SMALLEST_XI = 1e-3
_FAR = 5.0
_EPS = float(np.finfo(float).eps)


def log_peak(*, epsilon: float, xi: float, rate: float) -> float:
    """An upper bound, by less than about 1e-6 too large, on max over l of log δ_G(ε − l; ξ) − rate·l.

    Args:
      epsilon: any real number.
      xi: ξ >= 0; 0 means (1 − e^{ε−l})_+ in place of δ_G.
      rate: > 0.

    Raises:
      NumericalError: rounding hides where the maximum is.
    """
    checks.non_negative(xi=xi)
    checks.positive(rate=rate)
    rounding = _ROUNDING * (1 + abs(rate * epsilon))
    if xi == 0:
        # The maximum is at e^{l−ε} = (1 + rate)/rate.
        return -rate * epsilon - math.log1p(rate) - rate * math.log1p(1 / rate) + rounding
    # δ_G grows with ξ, so a larger one is safe; below this one its rounding errors would matter.
    xi = max(xi, _SMALLEST_XI)
    middle = _argmax(epsilon, xi, rate)
    width = 1e-4 * (1 + xi) / (1 + rate)
    for _ in range(_ROUNDS):
        points = middle + width * np.array([-1.0, 0.0, 1.0])
        low, high = (values - rate * points for values in log_delta_bounds(epsilon - points, xi))
        if max(high[0], high[2]) <= low[1]:
            return float(high[1] + max(high[1] - min(low[0], low[2]), 0.0)) + rounding
        width *= 4
    raise NumericalError(
        f"The largest value of a tilted estimator could not be enclosed at epsilon={epsilon:.6g}, xi={xi:.6g}, rate={rate:.6g}."
    )


def _argmax(epsilon: float, xi: float, rate: float) -> float:
    """About where f is largest, from shrinking grids."""
    # Without the bracket (…)_+ the maximum would be at ε − l = (rate + ½)ξ²; with ξ = 0 it is at ε + log(1 + 1/rate).
    low = epsilon - (rate + 0.5) * xi**2 - 1.0
    high = epsilon + math.log1p(1 / rate) + xi + 1.0
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _POINTS)
        best = int(np.argmax(log_delta_bounds(epsilon - grid, xi)[1] - rate * grid))
        spacing = grid[1] - grid[0]
        low, high = grid[best] - spacing, grid[best] + spacing
    return 0.5 * (low + high)


def log_delta_bounds(epsilon: np.ndarray, xi: float) -> tuple[np.ndarray, np.ndarray]:
    """A lower and an upper bound on log δ_G(ε; ξ) that hold despite float64 rounding, also where δ_G itself underflows.

    Args:
      epsilon: (n,) real numbers.
      xi: ξ > 0.
    """
    x = epsilon / xi - xi / 2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = [np.log(bound) for bound in gaussian_delta_bounds(epsilon=epsilon, mu=xi)]
        # δ_G = ½ e^{−x²/2} (erfcx(x/√2) − erfcx((x + ξ)/√2)) at ε >= 0.
        first, second = erfcx(x / math.sqrt(2)), erfcx((x + xi) / math.sqrt(2))
        value = np.log(0.5 * (first - second)) - 0.5 * np.square(x)
        # x carries the roundings of ε/ξ and ξ/2, and the difference is smaller than its terms.
        slack = _EPS * (16 + 4 * (epsilon / xi + xi) * (x + 1) * np.maximum(first / (first - second), 1.0) + np.abs(value))
        slack += 16 * _EPS * first / (first - second)
    far = (x > _FAR) & (epsilon > 0)
    return np.where(far, value - slack, near[0]), np.where(far, value + slack, near[1])
