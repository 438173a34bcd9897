"""The one-step Rényi quantity F of the pairwise geometry in float64: what the search over orders looks at.

Symbols as in math/fixed-size-batches.md, section 1: p = rate, Δ² = squared shift, α = order, s = |b|² in [0, Δ²],
F(s) = e^{(α−1) D_α}, and form (A): F(s) = ∫ Σ_k w_k e^{−k²s/8} e^{kβv/2} (1−p+pe^{βv−β²/2})^{1−α} φ(v) dv with β = √s.
Every term is positive, so nothing cancels; all sums are taken of logarithms, because k(k−1)Δ²/2 passes 10⁵.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy.special import gammaln

_SCAN = 96
_DEPTH = 50.0
"""Nodes whose integrand is e^{-50} below the largest are dropped; certified work bounds what was dropped, float64 cannot see it."""

_MOST_NODES = 1 << 14
"""Far-apart bumps at small σ and large orders, where the other end s = 0 is the larger one by far."""


def log_sum_exp(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis, shape (..., m) -> (...); scipy's does the same in four times the time."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.log(np.exp(logs - largest).sum(axis=-1)) + largest[..., 0]


def log_weights(order: int, rate: float, squared_shift: float) -> np.ndarray:
    """(α+1,) float64: log w_k, w_k = C(α,k) (1−p)^{α−k} p^k e^{k(k−1)Δ²/2}, for rate < 1."""
    k = np.arange(order + 1.0)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return choose + (order - k) * math.log1p(-rate) + k * math.log(rate) + 0.5 * k * (k - 1) * squared_shift


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Integrand:
    """f(v) = Σ_k c_k e^{kμv} · (1−p+pe^{βv−β²/2+shift})^{−n} · φ(v), the shape of all integrals here (section 5).

    Attributes:
      log_coefficients: (m,) float64, log c_k.
      slope: μ >= 0.
      beta: β > 0.
      exponent: n >= 1.
      shift: added to the exponent of the second factor.
      rate: p in (0, 1).
    """

    log_coefficients: np.ndarray
    slope: float
    beta: float
    exponent: int
    shift: float
    rate: float

    def log(self, v: np.ndarray) -> np.ndarray:
        """log f at v, shape (j,) -> (j,)."""
        k = np.arange(self.log_coefficients.size)
        power = log_sum_exp(self.log_coefficients + np.multiply.outer(v, k * self.slope))
        mixture = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self.beta * v - 0.5 * self.beta**2 + self.shift)
        return power - self.exponent * mixture - 0.5 * v * v - 0.5 * math.log(2 * math.pi)

    @property
    def stiffness(self) -> float:
        """c = 1 + nβ²/4: −(log f)'' is at most this, so bumps are no narrower than 1/√c."""
        return 1 + self.exponent * self.beta**2 / 4

    def window(self) -> tuple[float, float]:
        """An interval outside of which f is negligible: coarse scans narrowed until no bump fits between two points.

        Between neighbours the maximum exceeds both by at most c·spacing²/8, which is what each round allows for.
        """
        low = -self.exponent * self.beta - 13
        high = (self.log_coefficients.size - 1) * self.slope + 13
        while True:
            v = np.linspace(low, high, _SCAN)
            spacing = v[1] - v[0]
            missed = self.stiffness * spacing**2 / 8
            values = self.log(v)
            kept = np.flatnonzero(values >= values.max() - _DEPTH - missed)
            new_low, new_high = v[max(kept[0] - 1, 0)], v[min(kept[-1] + 1, _SCAN - 1)]
            if missed < 2 or new_high - new_low > 0.9 * (high - low):
                return float(new_low), float(new_high)
            low, high = new_low, new_high

    def step(self, log_error: float) -> float:
        """A node spacing h whose trapezoidal error is about e^{log_error} relative (section 5), before the strip limits it."""
        return 2 * math.pi / math.sqrt(2 * self.stiffness * (math.log(2) - log_error))

    def log_integral(self) -> float:
        """log ∫f by the trapezoidal rule, to about 14 digits; −inf where that would take more than `_MOST_NODES` nodes."""
        low, high = self.window()
        step = min(self.step(-34.0), 2 * math.pi * 0.9 * math.pi / self.beta / 36)
        count = math.ceil((high - low) / step) + 1
        if count > _MOST_NODES:
            return -math.inf
        return float(log_sum_exp(self.log(low + step * np.arange(count)))) + math.log(step)


def log_f(order: int, rate: float, squared_shift: float, s: float) -> float:
    """log F(s) for s in [0, Δ²]; absolute error about 10⁻¹³·max(1, log F)."""
    weights = log_weights(order, rate, squared_shift)
    if s <= 0:
        return float(log_sum_exp(weights))
    beta = math.sqrt(s)
    k = np.arange(order + 1.0)
    return Integrand(
        log_coefficients=weights - k * k * s / 8, slope=beta / 2, beta=beta, exponent=order - 1, shift=0.0, rate=rate
    ).log_integral()


def _log_f_at_zero(order: int, rate: float, squared_shift: float) -> float:
    """log F(0) = log(1 + Σ_k C(α,k)(1−p)^{α−k}p^k (e^{k(k−1)Δ²/2} − 1)): accurate also where F−1 is below 10⁻¹⁶."""
    k = np.arange(2.0, order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    growth = 0.5 * k * (k - 1) * squared_shift
    log_growth = np.where(growth > 1, growth + np.log1p(-np.exp(-growth)), np.log(np.expm1(np.minimum(growth, 1))))
    excess = log_sum_exp(choose + (order - k) * math.log1p(-rate) + k * math.log(rate) + log_growth)
    return float(np.logaddexp(0.0, excess) if excess > -1 else np.log1p(np.exp(excess)))


@functools.lru_cache(maxsize=1 << 16)
def collapsed(order: int, rate: float, squared_shift: float) -> float:
    """J(0) = D_α at b = 0: the pair N(a) mixed into N(0), against N(0); closed form. αΔ²/2 at rate 1."""
    if rate == 1:
        return order * squared_shift / 2
    return _log_f_at_zero(order, rate, squared_shift) / (order - 1)


@functools.lru_cache(maxsize=1 << 16)
def equilateral(order: int, rate: float, squared_shift: float) -> float:
    """J(Δ²) = D_α at the other end, u = 1/2: |a| = |b| = |a−b| = Δ."""
    if rate == 1:
        return order * squared_shift / 2
    return log_f(order, rate, squared_shift, squared_shift) / (order - 1)


def larger_end(order: int, rate: float, squared_shift: float) -> float:
    """max(J(0), J(Δ²)), an estimate from below of ρ: enough to choose the order, never a bound (section 7)."""
    return max(collapsed(order, rate, squared_shift), equilateral(order, rate, squared_shift))
