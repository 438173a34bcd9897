"""The pilot: a fast estimate of the σ that meets a target, from weighted samples (`mixture`). No guarantee is made here."""

import dataclasses
import math
import time
from collections.abc import Mapping

import numpy as np
from scipy.interpolate import PchipInterpolator

from accountants.estimators import add_envelope
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_mu
from accountants.monte_carlo.mixture import FEWEST_EFFECTIVE_SAMPLES, SIGMAS_PER_PASS, DeltaEstimates, estimate_deltas, good_shift
from accountants.monte_carlo.streams import Stream
from search_spaces import checks
from search_spaces.errors import CalibrationError
from search_spaces.mechanism import Mechanism, factor_norm
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

_NARROW = 0.01
_WIDEST = 256.0
_SETTLED = 0.01
"""An add estimate below this fraction of the target does not decide σ and need not be resolved to rank by σ. A remove estimate must be:
where its rare large losses are missed it falls short by any factor."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PilotResult:
    """The estimated σ that meets a target.

    Attributes:
      sigma: estimate of the smallest σ with δ_remove <= δ and δ_add <= δ.
      sigma_standard_error: its standard error, absolute.
      direction: the direction that binds.
      deltas: estimated δ at `sigma`, by direction (for a direction known from a deterministic bound only: that bound).
      slopes: d log δ / d log σ at `sigma`, by direction.
      effective_samples: (ΣX)²/ΣX² at `sigma`, by direction.
      resolved: whether the estimate may be used for ranking at all.
      samples: sampled outputs.
      seconds: wall time.
    """

    sigma: float
    sigma_standard_error: float
    direction: str
    deltas: Mapping[str, float]
    slopes: Mapping[str, float]
    effective_samples: Mapping[str, float]
    resolved: bool
    samples: int
    seconds: float


def solve_sigma(
    scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float, samples: int = 4096, seed: int,
) -> PilotResult:
    """Estimate the smallest σ that meets (ε, δ) in both directions.

    Brackets on log δ with few samples, then interpolates log δ in log σ between close σ with all of them; random numbers are common to all
    σ (and, for one seed, to all strategies of a scheme and bandwidth).

    Args:
      scheme, strategy: an amplified scheme and a strategy that fits it.
      epsilon: ε > 0.
      delta: δ in (0, 1).
      samples: sampled outputs of the last pass.
      seed: of the pilot's stream.

    Raises:
      InputError: a value out of range.
      CalibrationError: no σ in the searched range meets the target.
      NumericalError: a sampled log likelihood ratio is not finite.
    """
    started = time.perf_counter()
    epsilon, delta = checks.positive(epsilon=epsilon), checks.between(0, 1, delta=delta)
    search = _Search(scheme=scheme, strategy=strategy, epsilon=epsilon, delta=delta, stream=Stream(seed=seed, purpose="pilot"))
    center, shift = search.bracket()
    for _ in range(20):
        sigmas = center * np.exp(_NARROW * (np.arange(SIGMAS_PER_PASS) - (SIGMAS_PER_PASS - 1) / 2))
        curves, estimates = search.log_excess(sigmas, samples, shift)
        root = max(_interpolated_root(np.log(sigmas), curve) for curve in curves)
        if abs(root - math.log(center)) <= _NARROW * (SIGMAS_PER_PASS - 1) / 2:
            return _result(math.exp(root), np.log(sigmas), curves, estimates, delta, samples, started)
        center = math.exp(np.clip(root, math.log(center) - 0.1, math.log(center) + 0.1))
    raise CalibrationError(f"The pilot found no sigma near {center:.4g} with delta={delta:g} at epsilon={epsilon:g} for {scheme.name}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Search:
    """The root search of one scheme and strategy at one target."""

    scheme: BatchScheme
    strategy: ToeplitzStrategy
    epsilon: float
    delta: float
    stream: Stream

    def log_excess(self, sigmas, samples, shift) -> tuple[np.ndarray, dict[str, DeltaEstimates]]:
        """log(δ_dir(σ)/δ), (2, sigmas), and the estimates; an add estimate never counts for more than its deterministic bound."""
        estimates = estimate_deltas(
            self.scheme, self.strategy, sigmas=sigmas, epsilon=self.epsilon, samples=samples, stream=self.stream, shift=shift,
        )
        bounds = np.array([add_envelope(self.mechanism(sigma), epsilon=self.epsilon).bias(0.0) for sigma in sigmas])
        both = np.array([estimates["remove"].delta, np.minimum(estimates["add"].delta, bounds)])
        return np.log(np.maximum(both, np.finfo(float).tiny)) - math.log(self.delta), estimates

    def mechanism(self, sigma: float) -> Mechanism:
        return Mechanism(scheme=self.scheme, strategy=self.strategy, sigma=sigma)

    def bracket(self) -> tuple[float, float]:
        """A σ near the root, by subdividing [σ_low, σ_high] with one block of samples, and the shift ζ that suits it.

        σ_high is the unamplified Gaussian's; σ_low is the Gaussian factor's for fixed participations and a small fraction of σ_high
        otherwise.
        """
        mu = gaussian_mu(epsilon=self.epsilon, delta=self.delta)
        high = math.log(math.sqrt(self.scheme.max_participations) * self.strategy.column_norm / mu)
        fixed = self.scheme.fixed_participations
        low = math.log(factor_norm(self.scheme, self.strategy) / mu) if fixed else high - math.log(_WIDEST)
        while high - low > 2 * _NARROW:
            inner = np.linspace(low, high, SIGMAS_PER_PASS + 2)[1:-1]
            shift = good_shift(self.mechanism(math.exp(0.5 * (low + high))), epsilon=self.epsilon)
            above = self.log_excess(np.exp(inner), 1, shift)[0].max(axis=0) > 0
            # The last σ that is too small; estimates decrease in σ but for noise.
            index = int(np.flatnonzero(above).max(initial=-1)) + 1
            edges = [low, *inner, high]
            low, high = edges[index], edges[index + 1]
        center = math.exp(0.5 * (low + high))
        return center, good_shift(self.mechanism(center), epsilon=self.epsilon)


def _interpolated_root(log_sigmas: np.ndarray, log_excess: np.ndarray) -> float:
    """Where a decreasing function last crosses 0: between the points by monotone cubics, beyond them by the least-squares line."""
    crossings = PchipInterpolator(log_sigmas, log_excess).solve(0.0, extrapolate=False)
    if np.isfinite(crossings).any():
        return float(np.nanmax(crossings))
    slope, intercept = np.polyfit(log_sigmas - log_sigmas.mean(), log_excess, 1)
    return float(log_sigmas.mean() - intercept / min(slope, -1e-3))


def _result(sigma, log_sigmas, curves, estimates, delta, samples, started) -> PilotResult:
    slopes = {d: float(np.polyfit(log_sigmas, curve, 1)[0]) for d, curve in zip(DIRECTIONS, curves)}
    excess = {d: float(PchipInterpolator(log_sigmas, curve)(math.log(sigma))) for d, curve in zip(DIRECTIONS, curves)}
    nearest = int(np.argmin(np.abs(log_sigmas - math.log(sigma))))
    effective = {d: float(estimates[d].effective_samples[nearest]) for d in DIRECTIONS}
    direction = max(DIRECTIONS, key=excess.get)
    relative = float(estimates[direction].standard_error[nearest] / max(estimates[direction].delta[nearest], np.finfo(float).tiny))
    # An add direction that its deterministic bound keeps below the target, or that is far below it, does not decide σ.
    bounded = float(np.exp(curves[1, nearest])) * delta < estimates["add"].delta[nearest]
    settled = {"remove": False, "add": direction != "add" and (bounded or excess["add"] < math.log(_SETTLED))}
    return PilotResult(
        sigma=sigma,
        sigma_standard_error=sigma * relative / max(-slopes[direction], 1e-3),
        direction=direction,
        deltas={d: delta * math.exp(excess[d]) for d in DIRECTIONS},
        slopes=slopes,
        effective_samples=effective,
        resolved=all(settled[d] or effective[d] >= FEWEST_EFFECTIVE_SAMPLES for d in DIRECTIONS),
        samples=samples,
        seconds=time.perf_counter() - started,
    )
