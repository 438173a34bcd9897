"""Weighted samples: outputs from a mixture of five laws that serves both directions, every σ and every ε at once.

The laws are Q, P, two mean-scaled laws of θCx + σz (with a larger participation rate where participations are not fixed), which find the
large losses of "remove", and Q shifted against the mean C E[x], which finds those of "add". With D the mean of the five likelihood ratios,
weighted by the share of a block that each law draws, `remove: X = (LR/D) · δ_G(ε − L; ξ)` and `add: X = (1/D) · δ_G(ε + L; ξ)` (residual
laws where the Gaussian factor exists) are unbiased for every mixture (math/certificates.md, "Pilot").
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from accountants.estimators import add_envelope, add_values, remove_values
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.simulation import Draws, Law, P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces import checks
from search_spaces.mechanism import Mechanism, factor_norm
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

FEWEST_EFFECTIVE_SAMPLES = 50.0
"""Below this effective sample size an estimate is unresolved, whatever its standard error says (math/certificates.md, "Pilot")."""

SIGMAS_PER_PASS = 4
"""σ are evaluated in groups of this size, so that their number does not change the compiled program."""

_BOOST = 5.0
_SCALED = {True: (2.0, 3.0), False: (1.5, 2.0)}
"""θ of the two mean-scaled laws, by whether participations are fixed. Effective samples peak at θ between 2 (gaps of 1) and 3.5
(balls-in-bins) and fall off steeply to either side; where participations are not fixed, large losses come from examples that take part
unusually often, so there the rate is raised and θ may be smaller. Choosing θ on a small sample picks laws that have merely missed the
rare large values so far."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSample:
    """Outputs at one σ, reduced to what every ε needs.

    Attributes:
      log_ratio: (samples,) float64, L.
      log_mixture: (samples,) float64, log D.
      xi: ξ of the Gaussian factor, 0 without.
    """

    log_ratio: np.ndarray
    log_mixture: np.ndarray
    xi: float

    def values(self, epsilon: float) -> np.ndarray:
        """(2, samples) float64: weighted values with means δ_remove(ε) and δ_add(ε)."""
        remove = np.exp(self.log_ratio - self.log_mixture) * remove_values(self.log_ratio, epsilon=epsilon, xi=self.xi)
        add = np.exp(-self.log_mixture) * add_values(self.log_ratio, epsilon=epsilon, xi=self.xi)
        return np.stack([remove, add])

    def estimates(self, epsilon: float) -> "dict[str, DeltaEstimates]":
        """Estimates of δ(ε) by direction, as arrays of one number."""
        values = self.values(epsilon)
        return estimates_from_sums(values.sum(axis=1, keepdims=True), np.square(values).sum(axis=1, keepdims=True), values.shape[1])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DeltaEstimates:
    """Estimates of δ at several σ in one direction.

    Attributes:
      delta, standard_error, effective_samples: (len(sigmas),) float64; effective samples are (ΣX)²/ΣX².
    """

    delta: np.ndarray
    standard_error: np.ndarray
    effective_samples: np.ndarray


def number_of_blocks(scheme: BatchScheme, strategy: ToeplitzStrategy, *, samples: int) -> int:
    """Blocks that hold at least `samples` >= 1 outputs."""
    return -(-checks.integer(samples=samples) // Simulation(scheme=scheme, strategy=strategy).block_size)


def weighted_samples(
    scheme: BatchScheme, strategy: ToeplitzStrategy, *, sigmas: Sequence[float], stream: Stream, block: int, shift: float = 0.0,
) -> list[WeightedSample]:
    """One block of the mixture at each σ, from the same random numbers.

    Args:
      sigmas: noise multipliers.
      stream: where the randomness comes from.
      block: which block of it.
      shift: ζ of the shifted law; any is valid, a good one needs fewer samples for add (`good_shift`). Without effect where the residual
        mean vanishes and there is no direction to shift in.

    Raises:
      NumericalError: a sampled log likelihood ratio is not finite.
    """
    simulation = Simulation(scheme=scheme, strategy=strategy, boost=_BOOST)
    shift = shift if _can_be_shifted(simulation) else 0.0
    scaled = tuple(Law(scale=scale, boosted=True) for scale in _SCALED[scheme.fixed_participations])
    proposal = (Q, P, *scaled, Law(scale=0.0, shift=shift))
    samples: list[WeightedSample] = []
    for start in range(0, len(sigmas), SIGMAS_PER_PASS):
        group = list(sigmas[start : start + SIGMAS_PER_PASS])
        padded = group + [group[-1]] * (SIGMAS_PER_PASS - len(group))
        draws = simulation.draw(stream, block, sigmas=padded, proposal=proposal, evaluate=(P, *scaled))
        samples += [
            WeightedSample(
                log_ratio=draws.log_ratio[0, column], log_mixture=_log_mixture(draws, column, shift), xi=factor_norm(scheme, strategy) / sigma,
            )
            for column, sigma in enumerate(group)
        ]
    return samples


def draw_weighted_sample(mechanism: Mechanism, *, epsilon: float, stream: Stream, samples: int) -> WeightedSample:
    """At least so many outputs of a mechanism, in whole blocks, shifted for "add" as suits ε; they serve every other ε, too."""
    scheme, strategy = mechanism.scheme, mechanism.strategy
    shift = good_shift(mechanism, epsilon=epsilon)
    blocks = [
        weighted_samples(scheme, strategy, sigmas=[mechanism.sigma], stream=stream, block=block, shift=shift)[0]
        for block in range(number_of_blocks(scheme, strategy, samples=samples))
    ]
    return WeightedSample(
        log_ratio=np.concatenate([block.log_ratio for block in blocks]), log_mixture=np.concatenate([block.log_mixture for block in blocks]),
        xi=blocks[0].xi,
    )


def _log_mixture(draws: Draws, column: int, shift: float) -> np.ndarray:
    log_ratios = draws.log_ratio[:, column]
    log_shifted = shift * draws.projection[column] - 0.5 * shift**2
    log_laws = np.vstack([np.zeros_like(log_shifted), log_ratios, log_shifted])
    # The laws take turns, and their number does not divide the block: equal weights would bias every mean by up to one sample in a turn.
    counts = np.bincount(np.arange(log_shifted.size) % len(log_laws), minlength=len(log_laws))
    return logsumexp(log_laws, axis=0, b=counts[:, None] / log_shifted.size)


def estimate_deltas(
    scheme: BatchScheme, strategy: ToeplitzStrategy, *, sigmas: Sequence[float], epsilon: float, samples: int, stream: Stream,
    shift: float = 0.0,
) -> dict[str, DeltaEstimates]:
    """δ at every σ, both directions, from one set of random numbers.

    Args:
      sigmas: noise multipliers.
      epsilon: ε >= 0.
      samples: sampled outputs, rounded up to whole blocks.
      stream, shift: see `weighted_samples`.

    Returns:
      `DeltaEstimates` by direction.

    Raises:
      InputError: a value out of range.
      NumericalError: a sampled log likelihood ratio is not finite.
    """
    epsilon = checks.non_negative(epsilon=epsilon)
    blocks = number_of_blocks(scheme, strategy, samples=samples)
    sums, squares, number = np.zeros((2, len(sigmas))), np.zeros((2, len(sigmas))), 0
    for block in range(blocks):
        drawn = weighted_samples(scheme, strategy, sigmas=sigmas, stream=stream, block=block, shift=shift)
        values = np.stack([sample.values(epsilon) for sample in drawn], axis=1)
        sums, squares, number = sums + values.sum(axis=2), squares + np.square(values).sum(axis=2), number + values.shape[2]
    return estimates_from_sums(sums, squares, number)


def estimates_from_sums(sums: np.ndarray, squares: np.ndarray, number: int) -> dict[str, DeltaEstimates]:
    """Estimates from ΣX and ΣX², each (2, columns), of `number` samples."""
    mean = sums / number
    spread = np.sqrt(np.maximum(squares / number - mean**2, 0.0) / number)
    effective = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
    return {
        direction: DeltaEstimates(delta=mean[i], standard_error=spread[i], effective_samples=effective[i])
        for i, direction in enumerate(DIRECTIONS)
    }


def good_shift(mechanism: Mechanism, *, epsilon: float) -> float:
    """Where g(z)φ(z) of the add envelope peaks; 0 where the residual mean vanishes and there is no direction to shift in."""
    if not _can_be_shifted(Simulation(scheme=mechanism.scheme, strategy=mechanism.strategy)):
        return 0.0
    z = np.linspace(-20.0, 0.0, 401)
    with np.errstate(divide="ignore"):
        return float(z[np.argmax(np.log(add_envelope(mechanism, epsilon=epsilon).values(z)) - 0.5 * z**2)])


def _can_be_shifted(simulation: Simulation) -> bool:
    return bool(simulation.model.mean_direction()["weights"].any())
