"""The pilot: a fast estimate of δ(σ) in both directions and of the σ that meets a target. No guarantee is made here.

Outputs are drawn from an equal mixture of five laws: Q, P, two mean-scaled laws of θCx + σz (with a larger participation rate where
participations are not fixed), which find the large losses of "remove", and Q shifted against the mean C E[x], which finds those of
"add". So one set of random numbers serves both directions, every σ, and values that plain sampling would meet too rarely. With D the
mean of the five likelihood ratios, `remove: X = (LR/D) · δ_G(ε − L; ξ)` and `add: X = (1/D) · δ_G(ε + L; ξ)` (residual laws where the
Gaussian factor exists) are unbiased for every mixture (math/certificates.md, "Pilot").
"""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import logsumexp

from accountants.estimators import AddEnvelope, add_envelope, add_values, remove_values
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_mu
from accountants.monte_carlo.simulation import Draws, Law, P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces import checks
from search_spaces.errors import CalibrationError, UnresolvedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

FEWEST_EFFECTIVE_SAMPLES = 50.0
"""Below this effective sample size an estimate is unresolved, whatever its standard error says (math/certificates.md, "Pilot")."""

_SIGMAS_PER_PASS = 4
_NARROW = 0.01
_WIDEST = 256.0
_BOOST = 2.0
_SCALED = (Law(scale=2.0, boosted=True), Law(scale=3.0, boosted=True))
"""The mean-scaled laws. Effective samples peak at θ between 2 (gaps of 1) and 3.5 (balls-in-bins) and fall off steeply to either side;
two fixed laws serve all schemes, and choosing θ on a small sample picks laws that have merely missed the rare large values so far."""
_SETTLED = 0.01
"""A direction whose estimate is below this fraction of the target does not decide σ and needs no resolved estimate to rank by σ."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DeltaEstimates:
    """Estimates of δ at several σ in one direction.

    Attributes:
      delta, standard_error, effective_samples: (len(sigmas),) float64; effective samples are (ΣX)²/ΣX².
    """

    delta: np.ndarray
    standard_error: np.ndarray
    effective_samples: np.ndarray


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


def estimate_deltas(
    scheme: BatchScheme, strategy: ToeplitzStrategy, *, sigmas: Sequence[float], epsilon: float, samples: int, stream: Stream,
    shift: float = 0.0,
) -> dict[str, DeltaEstimates]:
    """δ at every σ, both directions, from one set of random numbers.

    Args:
      sigmas: noise multipliers.
      epsilon: ε >= 0.
      samples: sampled outputs, rounded up to whole blocks.
      stream: where the randomness comes from.
      shift: ζ of the shifted law; any is valid, one near −2 to −6 needs fewer samples for add.

    Returns:
      `DeltaEstimates` by direction.

    Raises:
      InputError: a value out of range.
      NumericalError: a sampled log likelihood ratio is not finite.
    """
    simulation = Simulation(scheme=scheme, strategy=strategy, boost=_BOOST)
    epsilon, blocks = checks.non_negative(epsilon=epsilon), -(-checks.integer(samples=samples) // simulation.block_size)
    groups = [sigmas[i : i + _SIGMAS_PER_PASS] for i in range(0, len(sigmas), _SIGMAS_PER_PASS)]
    passes = [_moments(simulation, group, epsilon, blocks, stream, shift) for group in groups]
    sums, squares = (np.concatenate([moments[k] for moments in passes], axis=1) for k in (0, 1))
    number = blocks * simulation.block_size
    mean = sums / number
    spread = np.sqrt(np.maximum(squares / number - mean**2, 0.0) / number)
    effective = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    return {
        direction: DeltaEstimates(delta=mean[i], standard_error=spread[i], effective_samples=effective[i])
        for i, direction in enumerate(DIRECTIONS)
    }


def _moments(simulation, sigmas, epsilon, blocks, stream, shift) -> tuple[np.ndarray, np.ndarray]:
    """ΣX and ΣX², each (2, len(sigmas)); σ are padded to a fixed number so that no new program is compiled."""
    padded = [*sigmas, *[sigmas[-1]] * (_SIGMAS_PER_PASS - len(sigmas))]
    proposal = (Q, P, *_SCALED, Law(scale=0.0, shift=shift))
    sums, squares = np.zeros((2, len(sigmas))), np.zeros((2, len(sigmas)))
    for block in range(blocks):
        draws = simulation.draw(stream, block, sigmas=padded, proposal=proposal, evaluate=(P, *_SCALED))
        for column, sigma in enumerate(sigmas):
            values = _mixture_values(draws, column, epsilon=epsilon, xi=simulation.factor(sigma), shift=shift)
            sums[:, column] += values.sum(axis=1)
            squares[:, column] += np.square(values).sum(axis=1)
    return sums, squares


def _mixture_values(draws: Draws, column: int, *, epsilon: float, xi: float, shift: float) -> np.ndarray:
    """(2, samples): importance-weighted remove and add values at one σ."""
    log_ratios = draws.log_ratio[:, column]
    log_p, log_shifted = log_ratios[0], shift * draws.projection[column] - 0.5 * shift**2
    log_laws = np.vstack([np.zeros_like(log_p), log_ratios, log_shifted])
    log_mixture = logsumexp(log_laws, axis=0) - math.log(len(log_laws))
    return np.stack([
        np.exp(log_p - log_mixture) * remove_values(log_p, epsilon=epsilon, xi=xi),
        np.exp(-log_mixture) * add_values(log_p, epsilon=epsilon, xi=xi),
    ])


def solve_sigma(
    scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float, samples: int = 4096, seed: int,
) -> PilotResult:
    """Estimate the smallest σ that meets (ε, δ) in both directions.

    Brackets on log δ with few samples, then interpolates log δ linearly in log σ between close σ with all of them; random numbers
    are common to all σ (and, for one seed, to all strategies of a scheme and bandwidth).

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
        sigmas = center * np.exp(_NARROW * (np.arange(_SIGMAS_PER_PASS) - (_SIGMAS_PER_PASS - 1) / 2))
        curves, estimates = search.log_excess(sigmas, samples, shift)
        root = _interpolated_root(np.log(sigmas), curves.max(axis=0))
        if abs(root - math.log(center)) <= _NARROW * (_SIGMAS_PER_PASS - 1) / 2:
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
        bounds = np.array([self.envelope(sigma).bias(0.0) for sigma in sigmas])
        both = np.array([estimates["remove"].delta, np.minimum(estimates["add"].delta, bounds)])
        return np.log(np.maximum(both, np.finfo(float).tiny)) - math.log(self.delta), estimates

    def envelope(self, sigma: float) -> AddEnvelope:
        return add_envelope(Mechanism(scheme=self.scheme, strategy=self.strategy, sigma=sigma), epsilon=self.epsilon)

    def bracket(self) -> tuple[float, float]:
        """A σ near the root, by subdividing [σ_low, σ_high] with one block of samples, and the shift ζ that suits it.

        σ_high is the unamplified Gaussian's; σ_low is the Gaussian factor's for fixed participations and a small fraction of σ_high
        otherwise.
        """
        mu = gaussian_mu(epsilon=self.epsilon, delta=self.delta)
        high = math.log(math.sqrt(self.scheme.max_participations) * self.strategy.column_norm / mu)
        fixed = self.scheme.fixed_participations
        low = math.log(self.scheme.participations * self.strategy.kappa / mu) if fixed else high - math.log(_WIDEST)
        while high - low > 2 * _NARROW:
            inner = np.linspace(low, high, _SIGMAS_PER_PASS + 2)[1:-1]
            shift = self.shift(math.exp(0.5 * (low + high)))
            above = self.log_excess(np.exp(inner), 1, shift)[0].max(axis=0) > 0
            # The last σ that is too small; estimates decrease in σ but for noise.
            index = int(np.flatnonzero(above).max(initial=-1)) + 1
            edges = [low, *inner, high]
            low, high = edges[index], edges[index + 1]
        center = math.exp(0.5 * (low + high))
        return center, self.shift(center)

    def shift(self, sigma: float) -> float:
        """Where g(z)φ(z) of the add envelope peaks; 0 where the residual mean vanishes and there is no direction to shift in."""
        if not Simulation(scheme=self.scheme, strategy=self.strategy).model.mean_direction()["weights"].any():
            return 0.0
        z = np.linspace(-20.0, 0.0, 401)
        with np.errstate(divide="ignore"):
            return float(z[np.argmax(np.log(self.envelope(sigma).values(z)) - 0.5 * z**2)])


def _interpolated_root(log_sigmas: np.ndarray, log_excess: np.ndarray) -> float:
    """Where a nearly linear decreasing function crosses 0, by the least-squares line."""
    slope, intercept = np.polyfit(log_sigmas - log_sigmas.mean(), log_excess, 1)
    return float(log_sigmas.mean() - intercept / min(slope, -1e-3))


def _result(sigma, log_sigmas, curves, estimates, delta, samples, started) -> PilotResult:
    lines = {d: np.polyfit(log_sigmas - math.log(sigma), curve, 1) for d, curve in zip(DIRECTIONS, curves)}
    nearest = int(np.argmin(np.abs(log_sigmas - math.log(sigma))))
    effective = {d: float(estimates[d].effective_samples[nearest]) for d in DIRECTIONS}
    direction = max(DIRECTIONS, key=lambda d: lines[d][1])
    relative = float(estimates[direction].standard_error[nearest] / max(estimates[direction].delta[nearest], np.finfo(float).tiny))
    # A direction that its deterministic bound keeps below the target, or that is far below it, does not decide σ.
    bounded = {"remove": False, "add": float(np.exp(curves[1, nearest])) * delta < estimates["add"].delta[nearest]}
    settled = {d: d != direction and (bounded[d] or lines[d][1] < math.log(_SETTLED)) for d in DIRECTIONS}
    return PilotResult(
        sigma=sigma,
        sigma_standard_error=sigma * relative / max(-float(lines[direction][0]), 1e-3),
        direction=direction,
        deltas={d: float(delta * math.exp(lines[d][1])) for d in DIRECTIONS},
        slopes={d: float(lines[d][0]) for d in DIRECTIONS},
        effective_samples=effective,
        resolved=all(settled[d] or effective[d] >= FEWEST_EFFECTIVE_SAMPLES for d in DIRECTIONS),
        samples=samples,
        seconds=time.perf_counter() - started,
    )
