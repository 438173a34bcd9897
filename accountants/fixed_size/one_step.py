"""One step at one order in ball arithmetic: the weights w_k, F with certified bounds, and lower bounds of its curvature.

Notation of math/fixed-size-batches.md, sections 1, 3 and 4: s = |b|² in [0, Δ²], F(s) = e^{(α−1) D_α}, ρ = max_s log F(s)/(α−1).
"""

import dataclasses
import fractions
import functools
import math

import numpy as np
from flint import arb

from accountants.fixed_size import quantity
from accountants.fixed_size.balls import exact, larger
from accountants.fixed_size.enclosure import BallIntegrand, enclose


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneStep:
    """F of the pairwise geometry at one order; use inside `balls.precision`, whose bits must not change between calls.

    Attributes:
      order: α, an integer >= 2.
      rate: p in (0, 1), exact.
      squared_shift: Δ², exact.
      relative_error: how wide the quadrature's enclosures may be.
    """

    order: int
    rate: fractions.Fraction
    squared_shift: fractions.Fraction
    relative_error: float

    @functools.cached_property
    def weights(self) -> tuple[arb, ...]:
        """w_k = C(α,k) (1−p)^{α−k} p^k e^{k(k−1)Δ²/2} for k = 0..α, each from the last by one exact ratio."""
        odds, growth = exact(self.rate / (1 - self.rate)), exact(self.squared_shift).exp()
        weights, tilt = [exact(1 - self.rate) ** self.order], arb(1)
        for k in range(self.order):
            weights.append(weights[-1] * odds * (self.order - k) / (k + 1) * tilt)
            tilt *= growth
        return tuple(weights)

    @functools.cached_property
    def log_weights(self) -> np.ndarray:
        """(α+1,) float64, for choosing nodes."""
        return quantity.log_weights(self.order, float(self.rate), float(self.squared_shift))

    def bounds(self, s: fractions.Fraction) -> tuple[arb, arb]:
        """Exact numbers (lower, upper) around F(s); at s = 0, F = Σ w_k needs no integral."""
        if s == 0:
            total = sum(self.weights, arb(0))
            return total.lower(), total.upper()
        ball = exact(s)
        coefficients = _damped(self.weights, ball / 4)
        k = np.arange(self.order + 1.0)
        return self._enclose(coefficients, self.log_weights - k * k * float(s) / 8, ball.sqrt() / 2, ball.sqrt(), self.order - 1, arb(0))

    def _enclose(self, coefficients, logs: np.ndarray, slope: arb, beta: arb, exponent: int, shift: arb) -> tuple[arb, arb]:
        heuristic = quantity.Integrand(
            log_coefficients=logs, slope=float(slope), beta=float(beta), exponent=exponent, shift=float(shift), rate=float(self.rate)
        )
        integrand = BallIntegrand(
            coefficients=coefficients, slope=slope, beta=beta, exponent=exponent, shift=shift, rate=exact(self.rate), heuristic=heuristic
        )
        return enclose(integrand, relative_error=self.relative_error)

    def monotone_bound(self, left: fractions.Fraction, right: fractions.Fraction) -> arb:
        """Upper bound of F on [left, right], 0 < left: Σ w_k E ψ(L_r e^{k·left/2}) with ψ(y) = (1−p+py)^{1−α}, of any length.

        Form (B) is F(s) = Σ w_k E ψ(L_s e^{ks/2}); ψ decreases, so the deterministic factor may be taken at `left`, and ψ is convex and
        L_s a martingale in s, so L_s may be taken at `right` (the step that section 4 makes for κ).
        """
        slope, beta = exact(left) / (2 * exact(right).sqrt()), exact(right).sqrt()
        k = np.arange(self.order + 1.0)
        logs = self.log_weights - 0.5 * (k * float(slope)) ** 2
        return self._enclose(_damped(self.weights, slope * slope), logs, slope, beta, self.order - 1, arb(0))[1]

    @property
    def relative_curvature(self) -> arb:
        """K with F'' >= −KF everywhere: α²/15, from Lemma 1 (0.065α² is enough)."""
        return arb(self.order**2) / 15

    @functools.cached_property
    def _pairs(self) -> arb:
        """Σ k(k−1) w_k."""
        return sum((k * (k - 1) * w for k, w in enumerate(self.weights)), arb(0))

    def curvature_closed(self, right: fractions.Fraction) -> arb:
        """κ with F'' >= −κ on [0, right], without an integral (`kappa_closed`); useless where (1−p)^{−α} is huge."""
        growth = exact(right).exp()
        tilted, power = arb(0), growth
        for weight in self.weights:
            tilted += weight * power
            power *= growth
        pairs, rest = self.order * (self.order - 1), exact(1 - self.rate)
        kappa = self._pairs / rest ** (self.order - 1) / 4
        return (kappa + pairs * exact(self.rate) ** 2 * tilted / rest ** (self.order + 1) / 2).upper()

    def curvature_by_quadrature(self, left: fractions.Fraction, right: fractions.Fraction) -> arb:
        """κ with F'' >= −κ on [left, right] from two integrals (`kappa_quad`): κ = ¼α(α−1) (sup E[hv²] + 2 sup E[hw²])."""
        low, high, growth = exact(left), exact(right), exact(right).exp()
        slope, beta = low / (2 * high.sqrt()), high.sqrt()
        k = np.arange(self.order + 1.0)
        damping = 0.5 * (k * float(slope)) ** 2
        first = [k * (k - 1) * w for k, w in enumerate(self.weights)]
        with np.errstate(divide="ignore"):
            first_logs = self.log_weights - damping + np.log(k * np.maximum(k - 1, 0))
        # The two vanishing terms would be −inf, which the node heuristics need not see.
        first_logs[:2] = first_logs[2:].min() - 700
        second, power = [], growth
        for weight in self.weights:
            second.append(weight * power)
            power *= growth
        squared = slope * slope
        _, displaced = self._enclose(_damped(first, squared), first_logs, slope, beta, self.order - 1, arb(0))
        second_logs = self.log_weights - damping + (k + 1) * float(right)
        _, own = self._enclose(_damped(second, squared), second_logs, slope, beta, self.order + 1, 2 * low)
        pairs = self.order * (self.order - 1)
        return (displaced / 4 + pairs * exact(self.rate) ** 2 * own / 2).upper()


def _damped(coefficients, squared_slope: arb) -> list[arb]:
    """c_k e^{−k²μ²/2} for k = 0, 1, …"""
    step = (-squared_slope).exp()
    factor, ratio, damped = arb(1), (-squared_slope / 2).exp(), []
    for coefficient in coefficients:
        damped.append(coefficient * factor)
        factor *= ratio
        ratio *= step
    return damped


def sturm_bound(left: arb, right: arb, *, angle: arb) -> arb | None:
    """Bound (S) of max F on an interval with end bounds `left`, `right` and θ = √K·h, or None where θ < π is not certain.

    Where the peak's place is undecided the amplitude is returned, which bounds the sinusoid everywhere.
    """
    if not angle < arb.pi():
        return None
    cosine = angle.cos()
    if left <= right * cosine or right <= left * cosine:
        return larger(left, right)
    # The amplitude squared is positive, but its ball may touch zero; its upper end is what counts.
    squared = (left * left + right * right - 2 * left * right * cosine).upper()
    return larger(larger(left, right), (squared.sqrt() / angle.sin()).upper())


def chord_bound(left: arb, right: arb, *, curvature: arb, length: arb) -> arb:
    """Bound (C) of max F on an interval of this length where F'' >= −curvature (exact, > 0); an undecided comparison is harmless."""
    bulge = curvature * length * length / 2
    rise = right - left
    if abs(rise) >= bulge:
        return larger(left, right)
    return larger(larger(left, right), ((left + right) / 2 + bulge / 4 + rise * rise / (4 * bulge)).upper())
