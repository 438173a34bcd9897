"""The lossless accountant for fixed-size batches: T-fold composition of the glued pair by one tilted FFT, with everything left out bounded.

The one-step masses are tilted to P_τ(ℓ) ∝ P(ℓ)e^{τℓ} so that the composed loss concentrates at the ε in question; a window around it is
composed by FFT and untilted. Errors are then relative to δ, however small δ is, where a plain FFT has an absolute error of about T·10⁻¹⁶.
δ is rounded towards more loss: what the window leaves out is bounded by Chernoff's inequality (what wraps around only adds mass), the
FFT by its stage-wise error bound, the one-step masses by `_MASS_ERROR`.
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.fft
import scipy.optimize

from accountants.fixed_size.loss_distribution import LossDistribution, discretise, starting_grid
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.fixed_size.renyi import Result
from search_spaces.errors import NumericalError

_LONGEST = 1 << 22
"""Cells of the longest FFT; beyond it the grid is coarsened, which keeps the bound and loosens it."""

_COARSE = 1024
_CHEAP = 1 << 19
_LOG_OUTSIDE = -28.0
_MASS_ERROR = 1e-11
"""Relative error of a one-step mass: quadrature to 10⁻¹², cell shares to 10⁻¹⁶·ℓ/d."""

_STEEPEST = 1e9
_LOG_NEGLIGIBLE = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Composed:
    """The composed loss on a window of its support.

    Attributes:
      losses: (n,) float64 ascending.
      tilted: (n,) float64 >= 0, P_τ there.
      rounding: bound of the Euclidean norm of the errors of `tilted`.
      tilt: τ >= 0.
      saddle: T·K'(τ), the mean of the tilted law.
      log_scale: T·log E e^{τℓ}: P = P_τ · e^{log_scale − τℓ}.
      log_missing: log of a bound of the P-mass above the window.
      infinity_mass: composed mass at infinite loss.
      log_inflation: added to log δ for the relative error of the one-step masses.
    """

    losses: np.ndarray
    tilted: np.ndarray
    rounding: float
    tilt: float
    saddle: float
    log_scale: float
    log_missing: float
    infinity_mass: float
    log_inflation: float

    def delta(self, epsilon: float) -> float:
        """δ(ε) rounded up, for ε not below the window."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        losses = self.losses[first:]
        weights = np.exp(-self.tilt * (losses - epsilon)) * -np.expm1(epsilon - losses)
        # Sums of products rather than BLAS, whose threads cost more than they bring when other work shares the cores.
        total = float((self.tilted[first:] * weights).sum()) + self.rounding * math.sqrt(float((weights * weights).sum()))
        log_finite = self.log_scale - self.tilt * epsilon + math.log(max(total, 1e-300)) + self.log_inflation
        return math.exp(min(log_finite, 0.0)) + math.exp(self.log_missing) + self.infinity_mass

    def epsilon(self, delta: float) -> float:
        """The least ε >= 0 (not below the window) with δ(ε) <= delta, to 10⁻⁸ and rounded up."""
        low, high = max(0.0, float(self.losses[0])), float(self.losses[-1])
        if self.delta(low) <= delta:
            return low
        if self.delta(high) > delta:
            raise NumericalError(f"The composed privacy loss has more mass than delta={delta!r} above its largest value {high:.6g}.")
        excess = lambda epsilon: math.log(self.delta(epsilon) / delta)
        near = min(max(self.saddle, low), high)
        # log δ falls at a rate of about τ: one such step from the saddle, then a bracket around it that doubles until it holds the root.
        near = min(max(near + excess(near) / max(self.tilt, 1e-3), low), high)
        width = 0.02 * abs(near - self.saddle) + 1e-6 * high
        while True:
            left, right = max(low, near - width), min(high, near + width)
            if (left == low or excess(left) > 0) and (right == high or excess(right) <= 0):
                break
            width *= 8
        resolution = 1e-8 * max(float(self.losses[1] - self.losses[0]), high)
        root = scipy.optimize.brentq(excess, left, right, xtol=resolution, rtol=1e-12)
        while self.delta(root) > delta:
            root, resolution = root + resolution, 2 * resolution
        return root


def epsilon(mechanism: FixedSizeMechanism, *, delta: float) -> Result:
    """ε at δ in (0, 1), a bound.

    Raises:
      NumericalError: the mass at infinity exceeds δ.
    """
    step, composed = _composed(mechanism, log_delta=math.log(delta))
    value = composed.epsilon(delta)
    if 0 < value <= composed.losses[0]:
        # The true ε lies below the window: compose again around its edge, which reaches further down.
        step, composed = _composed(mechanism, epsilon=value / 2)
        value = composed.epsilon(delta)
    return Result(value=value, kind="bound", details=_details(step, composed))


def delta(mechanism: FixedSizeMechanism, *, epsilon: float) -> Result:
    """δ at ε >= 0, a bound."""
    step, composed = _composed(mechanism, epsilon=epsilon)
    return Result(value=min(1.0, composed.delta(epsilon)), kind="bound", details=_details(step, composed))


def _composed(
    mechanism: FixedSizeMechanism, *, epsilon: float | None = None, log_delta: float | None = None
) -> tuple[LossDistribution, _Composed]:
    """Compose at a grid whose FFT is no longer than `_LONGEST`, tilted towards ε, or towards the ε that belongs to δ."""
    rate, shift = float(mechanism.rate), 2 / mechanism.sigma
    grid = starting_grid(rate, shift)
    while True:
        step = discretise(rate=rate, shift=shift, grid=grid)
        tilt = _tilt(step, mechanism.iterations, epsilon=epsilon, log_delta=log_delta)
        window = _window(step, mechanism.iterations, tilt, wanted=epsilon)
        cells = math.ceil((window.high - window.low) / grid)
        if cells <= _LONGEST:
            return step, _compose(step, mechanism.iterations, tilt, window, cells)
        grid *= 1.1 * cells / _LONGEST


@functools.lru_cache(maxsize=8)
def _coarse(step: LossDistribution) -> tuple[np.ndarray, np.ndarray]:
    """(losses, log masses) of at most `_COARSE` cells, for choosing tilt and window."""
    width = -(-step.masses.size // _COARSE)
    starts = np.arange(0, step.masses.size, width)
    masses = np.add.reduceat(step.masses, starts)
    means = np.add.reduceat(step.masses * step.losses, starts)
    kept = masses > 0
    return means[kept] / masses[kept], np.log(masses[kept])


def _tilted(losses: np.ndarray, log_masses: np.ndarray, tilt: float) -> tuple[float, np.ndarray]:
    """K(τ) = log E e^{τℓ}, and the masses of P_τ."""
    logs = log_masses + tilt * losses
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    return top + math.log(total), weights / total


def _cumulant(losses: np.ndarray, log_masses: np.ndarray, tilt: float) -> tuple[float, float, float]:
    """K(τ), K'(τ) and K''(τ)."""
    value, weights = _tilted(losses, log_masses, tilt)
    mean = float((weights * losses).sum())
    return value, mean, float((weights * (losses - mean) ** 2).sum())


def _tilt(step: LossDistribution, iterations: int, *, epsilon: float | None, log_delta: float | None) -> float:
    """τ >= 0 where T·K'(τ) = ε, or where the Chernoff exponent T(K − τK') is log δ; any τ gives a valid result."""
    losses, log_masses = _coarse(step)

    def short(tilt: float) -> bool:
        value, mean, _ = _cumulant(losses, log_masses, tilt)
        return iterations * mean < epsilon if log_delta is None else iterations * (value - tilt * mean) > log_delta

    low, high = 0.0, 1.0
    while short(high) and high < _STEEPEST:
        low, high = high, 4 * high
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return low


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Window:
    """Losses [low, high] that hold nearly all tilted mass of the composition, and the tilt beyond τ that shows it best at `high`."""

    low: float
    high: float
    beyond: float


def _window(step: LossDistribution, iterations: int, tilt: float, *, wanted: float | None) -> _Window:
    """The window by Chernoff's inequality on the coarse distribution; it reaches down to `wanted`, and to 0 where that is cheap."""
    losses, log_masses = _coarse(step)
    value, mean, variance = _cumulant(losses, log_masses, tilt)
    reach = iterations * step.grid * step.reach
    spread = math.sqrt(iterations * variance + step.grid**2)
    low, high, beyond = -reach, reach, 1 / spread
    # Tilts on the scale of the composition, and of order one for laws with a heavy tail, whose standard deviation says little.
    for extra in np.concatenate([np.geomspace(0.5, 20, 12) / spread, np.geomspace(0.25, 8, 6)]):
        right = (iterations * (_tilted(losses, log_masses, tilt + extra)[0] - value) - _LOG_OUTSIDE) / extra
        left = (iterations * (_tilted(losses, log_masses, tilt - extra)[0] - value) - _LOG_OUTSIDE) / extra
        if right < high:
            high, beyond = right, float(extra)
        low = max(low, -left)
    target = iterations * mean if wanted is None else wanted
    high = max(high, target) + 4 * step.grid
    low = min(low, target, 0.0 if high <= _CHEAP * step.grid else math.inf) - 4 * step.grid
    return _Window(low=low, high=high, beyond=beyond)


def _compose(step: LossDistribution, iterations: int, tilt: float, window: _Window, cells: int) -> _Composed:
    size = scipy.fft.next_fast_len(max(cells, 16), real=True)
    value, weights = _tilted(step.losses, step.log_masses, tilt)
    index = np.arange(-step.reach, step.reach + 1)
    folded = np.bincount(index % size, weights, minlength=size)
    spectrum = scipy.fft.rfft(folded)
    first = math.floor(window.low / step.grid)
    tilted = np.roll(scipy.fft.irfft(_integer_power(spectrum, iterations), size), -(first % size))
    losses = step.grid * (first + np.arange(size))
    return _Composed(
        losses=losses, tilted=np.maximum(tilted, 0.0), rounding=_rounding(spectrum, iterations, size), tilt=tilt,
        saddle=iterations * float((weights * step.losses).sum()), log_scale=iterations * value,
        log_missing=_log_missing(step, iterations, tilt + window.beyond, float(losses[-1])),
        infinity_mass=-math.expm1(iterations * math.log1p(-step.infinity_mass)), log_inflation=iterations * _MASS_ERROR,
    )


def _integer_power(spectrum: np.ndarray, exponent: int) -> np.ndarray:
    """spectrum**exponent, zero where its modulus is below e^{−60}; `_rounding` counts what that drops."""
    kept = np.abs(spectrum) > math.exp(-_LOG_NEGLIGIBLE / exponent)
    power = np.zeros_like(spectrum)
    power[kept] = np.exp(exponent * np.log(spectrum[kept]))
    return power


def _rounding(spectrum: np.ndarray, iterations: int, size: int) -> float:
    """Bound of the Euclidean norm of the rounding errors of the composed cells.

    Each stage of an FFT of masses that sum to one adds a few units in the last place of partial sums <= 1, so a spectral value is off by
    at most 4·log₂(size) units, its T-th power by T times that and T times its logarithm's error, all times modulus^{T−1}. By Parseval the
    cells' errors have the root mean square of these as their norm; the inverse adds its own stages, relative to the norm of the result.
    """
    stages = 4 * math.log2(size)
    unit = np.finfo(np.float64).eps
    modulus = np.minimum(np.abs(spectrum) + stages * unit, 1.0)
    counting = modulus[modulus > math.exp(-_LOG_NEGLIGIBLE / iterations)]
    mean_square = 2 * float(np.exp((2 * iterations - 2) * np.log(counting)).sum()) / size
    return unit * math.sqrt(mean_square) * (iterations * (stages + 16) + stages) + iterations * math.exp(1 - _LOG_NEGLIGIBLE)


def _log_missing(step: LossDistribution, iterations: int, tilt: float, top: float) -> float:
    """log of Chernoff's bound of the composed P-mass above `top`; −inf where nothing can be there."""
    if top >= iterations * step.grid * step.reach:
        return -math.inf
    return min(0.0, iterations * _tilted(step.losses, step.log_masses, tilt)[0] - tilt * top)


def _details(step: LossDistribution, composed: _Composed) -> dict[str, object]:
    return {"grid": step.grid, "cells": composed.losses.size, "tilt": composed.tilt, "infinity_mass": composed.infinity_mass}
