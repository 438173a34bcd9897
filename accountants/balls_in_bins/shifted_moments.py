"""Conversion by shifted even moments (math/balls-in-bins.md, section (h)): better than Rényi where ε is small.

It serves both directions. For even m: (x−γ)_+ <= (u−D)/u^m · (x−x₀)^m with D = γ−x₀ > 0, u = mD/(m−1), and
(1−γx)_+ <= γ(u−D)/u^m · (x₀−x)^m with D = x₀−1/γ > 0, u = min(mD/(m−1), x₀). E(X−x₀)^m is a sum with both signs, so the moments are balls
(value ± rounding) and the sum is done in ball arithmetic.
"""

import dataclasses
import math

import flint
import numpy as np

from accountants.balls_in_bins.conversion import smallest_epsilon
from accountants.balls_in_bins.renyi_dp import Moments
from accountants.balls_in_bins.renyi_truncations import Majorant, semidefinite

_BITS = 320
_CENTRES = 65
_CENTRE_REACH = 3.0
_LARGEST_SPREAD = 1e6
_ROUND_UP = 1.0 + 1e-12


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShiftedMoments:
    """Upper bounds on E_Q(X−x₀)^m for even m.

    Attributes:
      orders: (M,) even m.
      centres: (C,) x₀ >= 0.
      bounds: (M, C) float64 upper bounds; infinite where rounding leaves nothing.
    """

    orders: np.ndarray
    centres: np.ndarray
    bounds: np.ndarray

    def delta(self, *, direction: str, epsilon: float) -> tuple[float, int]:
        """(δ, m) at ε for `remove` or `add`: the best over all m and x₀; (1, 0) if none says anything."""
        gamma = math.exp(epsilon)
        threshold = gamma if direction == "remove" else 1.0 / gamma
        distance = threshold - self.centres if direction == "remove" else self.centres - threshold
        with np.errstate(all="ignore"):
            m, d = self.orders[:, None], distance[None, :]
            u = m * d / (m - 1)
            if direction == "add":
                u = np.minimum(u, self.centres)
            logs = np.log(u - d) - m * np.log(u) + np.log(self.bounds) + (0.0 if direction == "remove" else epsilon)
        logs = np.where((d > 0) & np.isfinite(self.bounds) & ~np.isnan(logs), logs, np.inf)
        best = int(np.argmin(logs))
        if logs.flat[best] >= 0:
            return 1.0, 0
        return float(min(1.0, math.exp(logs.flat[best]) * _ROUND_UP)), int(self.orders[best // len(self.centres)])

    def epsilon(self, *, direction: str, delta: float, largest: float) -> tuple[float, int]:
        """(ε, m) with `delta` at most δ, searched up to `largest`; (∞, 0) if there is none."""
        found = smallest_epsilon(lambda epsilon: self.delta(direction=direction, epsilon=epsilon)[0], delta, largest=largest)
        return found, 0 if math.isinf(found) else self.delta(direction=direction, epsilon=found)[1]


def shifted_moments(majorant: Majorant, *, sigma: float, order: int) -> ShiftedMoments:
    """The table of a majorant (made positive semidefinite if needed) for even m <= order.

    Raises:
      InputError: an argument out of range, or a table beyond the memory limit.
    """
    majorant = semidefinite(majorant)
    with flint.ctx.workprec(_BITS):
        raw = _independent_balls(majorant, sigma, order) if majorant.bandwidth == 1 else _balls(
            majorant.moments(sigma=sigma, order=order, precise=True))
        usable = next((t - 1 for t, ball in enumerate(raw) if not ball.is_finite()), order)
        orders = np.arange(2, usable + 1, 2)
        spread = math.sqrt(min(max(float((raw[2] - 1).upper()), 1e-300), _LARGEST_SPREAD)) if usable >= 2 else 0.0
        centres = np.unique(np.maximum(0.0, 1.0 + spread * np.linspace(-_CENTRE_REACH, _CENTRE_REACH, _CENTRES)))
        bounds = np.array([[_centred(raw, int(m), float(x)) for x in centres] for m in orders]).reshape(len(orders), len(centres))
    return ShiftedMoments(orders=orders, centres=centres, bounds=bounds)


def _balls(moments: Moments) -> list[flint.arb]:
    """The moments as balls that hold the true values."""
    balls = []
    for log in moments.logs:
        if not np.isfinite(log):
            balls.append(flint.arb("nan"))
            continue
        radius = moments.relative_error + 4 * float(np.finfo(np.longdouble).eps) * (2.0 + abs(float(log)))
        balls.append(_ball(log).exp() * flint.arb(1, radius))
    return [flint.arb(1), flint.arb(1), *balls[2:]]


def _ball(value: np.longdouble) -> flint.arb:
    mantissa, exponent = np.frexp(np.longdouble(value))
    return flint.arb(int(mantissa * np.longdouble(2) ** 64)) * flint.arb(2) ** (int(exponent) - 64)


def _independent_balls(majorant: Majorant, sigma: float, order: int) -> list[flint.arb]:
    """E X^t of a diagonal band plus a constant: t!/b^t [x^t] Π_i Σ_ℓ x^ℓ/ℓ! e^{½h ℓ(ℓ−1)B_ii}, times e^{½h t(t−1)τ}."""
    h = 1 / flint.arb(sigma) ** 2
    values, counts = np.unique(np.diag(majorant.band), return_counts=True)
    factorials = [flint.arb(math.factorial(t)) for t in range(order + 1)]
    cap, flint.ctx.cap = flint.ctx.cap, order + 1
    try:
        product = flint.arb_series([1], order + 1)
        for value, count in zip(values, counts):
            one = [(h * flint.arb(float(value)) * (t * (t - 1)) / 2).exp() / factorials[t] for t in range(order + 1)]
            product = product * _power(flint.arb_series(one, order + 1), int(count))
    finally:
        flint.ctx.cap = cap
    growth = [(h * flint.arb(majorant.constant) * (t * (t - 1)) / 2).exp() for t in range(order + 1)]
    return [product[t] * factorials[t] / flint.arb(len(majorant.band)) ** t * growth[t] for t in range(order + 1)]


def _power(series: flint.arb_series, exponent: int) -> flint.arb_series:
    result, square = flint.arb_series([1], series.prec), series
    while exponent:
        if exponent & 1:
            result = result * square
        square, exponent = square * square, exponent >> 1
    return result


def _centred(raw: list[flint.arb], m: int, centre: float) -> float:
    """An upper bound on E(X−x₀)^m."""
    shift = -flint.arb(centre)
    total = sum((raw[a] * math.comb(m, a) * shift ** (m - a) for a in range(m + 1)), flint.arb(0))
    bound = float(total.upper()) if total.is_finite() else math.inf
    return math.nextafter(max(bound, 0.0), math.inf)
