"""The values a test draws: a pure function of (plan, candidate, direction, block), so blocks can be drawn anywhere and in any order."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from accountants.certificates.records import DirectionTest, Outcome, Plan
from accountants.estimators import ROUND_UP, add_values, remove_values
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.simulation import Law, P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from accountants.tilted import LARGEST_MEMORY, TiltedLaw, shifted_add_values, tilted_law, tilted_remove_values
from search_spaces.errors import CertificateError, NumericalError
from search_spaces.mechanism import Mechanism


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSums:
    """Sums over one block of values.

    Attributes:
      block: which one.
      samples: values in it.
      total, squares: Σ X and Σ X².
      largest: max X.
    """

    block: int
    samples: int
    total: float
    squares: float
    largest: float


def block_size(mechanism: Mechanism) -> int:
    """Samples per block for a mechanism's tests."""
    return Simulation(scheme=mechanism.scheme, strategy=mechanism.strategy).block_size


def draw_blocks(plan: Plan, candidate: int, direction: str, blocks: Iterable[int]) -> list[BlockSums]:
    """Draw the given blocks of one test.

    Args:
      plan: fixed before anything is drawn.
      candidate: index into its candidates.
      direction: `remove` or `add`.
      blocks: block numbers in 0..test.blocks−1.

    Raises:
      NumericalError: a value is not finite or exceeds the bound the test rests on.
    """
    index = DIRECTIONS.index(direction)
    mechanism, test = plan.candidates[candidate].mechanism, plan.candidates[candidate].tests[index]
    stream = Stream(seed=plan.seed, purpose=plan.purpose, path=(candidate, index))
    return [_block_sums(block, draw_values(mechanism, test, plan.epsilon, stream, block), test) for block in blocks]


def draw_values(mechanism: Mechanism, test: DirectionTest, epsilon: float, stream: Stream, block: int) -> np.ndarray:
    """(block size,) float64 values in [0, B] whose mean is δ (add: at least δ − bias)."""
    simulation = Simulation(scheme=mechanism.scheme, strategy=mechanism.strategy)
    xi = mechanism.gaussian_factor
    if test.sampler == "tilted":
        law = _tilted_law(mechanism, test.alpha)
        log_ratio = simulation.draw(stream, block, sigmas=[mechanism.sigma], sampler=law.sample, project=False).log_ratio[0, 0]
        return tilted_remove_values(log_ratio, epsilon=epsilon, xi=xi, alpha=test.alpha, log_moment=test.log_moment)
    if test.sampler == "shifted":
        draws = simulation.draw(stream, block, sigmas=[mechanism.sigma], proposal=(Law(scale=0.0, shift=-test.shift),))
        return shifted_add_values(draws.log_ratio[0, 0], draws.projection[0], epsilon=epsilon, xi=xi, shift=test.shift)
    proposal = P if test.direction == "remove" else Q
    log_ratio = simulation.draw(stream, block, sigmas=[mechanism.sigma], proposal=(proposal,), project=False).log_ratio[0, 0]
    values = remove_values if test.direction == "remove" else add_values
    return np.minimum(values(log_ratio, epsilon=epsilon, xi=xi), test.bound)


_kept: dict[tuple[Mechanism, int], TiltedLaw] = {}
"""The last tilted law of this process: its table takes seconds to build and can hold gigabytes, so there is one at a time."""


def _tilted_law(mechanism: Mechanism, alpha: int) -> TiltedLaw:
    law = _kept.get((mechanism, alpha))
    if law is None:
        forget_table()
        law = _kept[mechanism, alpha] = tilted_law(mechanism, alpha=alpha, memory_limit=LARGEST_MEMORY)
    return law


def forget_table() -> None:
    """Frees the table that this process keeps, before another is built."""
    _kept.clear()


def table_moment(mechanism: Mechanism, alpha: int) -> float:
    """`TiltedLaw.log_residual_moment`; its table is kept for the values that are drawn next."""
    return _tilted_law(mechanism, alpha).log_residual_moment


def _block_sums(block: int, values: np.ndarray, test: DirectionTest) -> BlockSums:
    largest = float(values.max())
    if not np.isfinite(values).all() or values.min() < 0 or largest > test.bound * ROUND_UP:
        raise NumericalError(
            f"A sampled value of {test.direction} lies in [{values.min():.6g}, {largest:.6g}], outside [0, {test.bound:.6g}], "
            "the range its certificate rests on."
        )
    return BlockSums(
        block=block, samples=values.size, total=math.fsum(values), squares=math.fsum(np.square(values)), largest=largest,
    )


def outcome(test: DirectionTest, sums: Iterable[BlockSums]) -> Outcome:
    """The outcome of a test from all its blocks, in any order.

    Raises:
      CertificateError: a block is missing, unknown or counted twice.
    """
    sums = list(sums)
    if sorted(part.block for part in sums) != list(range(test.blocks)):
        raise CertificateError(f"The {test.direction} test has {test.blocks} blocks, each to be counted once; got {len(sums)}.")
    samples = sum(part.samples for part in sums)
    if samples != test.samples:
        raise CertificateError(f"The {test.direction} test has {test.samples} samples; its blocks hold {samples}.")
    # fsum is exact before its one rounding, so the mean does not depend on the order of the blocks.
    mean = math.fsum(part.total for part in sums) / samples
    return Outcome(
        mean=mean, second_moment=math.fsum(part.squares for part in sums) / samples, largest=max(part.largest for part in sums),
        samples=samples, passed=passes(test, mean),
    )


def passes(test: DirectionTest, mean: float) -> bool:
    """Whether a mean, rounded up, is at most the threshold."""
    return mean * ROUND_UP <= test.threshold
