"""Plain samples of the privacy loss in a histogram whose every rounding is towards more privacy loss.

One histogram gives the whole curve δ(ε) of a direction. With fixed participations it is the residual loss that is binned, and the exact
Gaussian factor is applied per bin: δ_G(ε − loss; ξ) increases with the loss, so rounding losses up rounds δ up. Histograms of different
blocks add, in any order, to the same integers (math/certificates.md, "Arithmetic").
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from accountants.estimators import remove_values
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.simulation import P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism

LOWEST, HIGHEST, BINS = -20.0, 30.0, 50_000
"""Losses below the lowest edge count as it; losses above the highest count as +∞."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LossHistogram:
    """Counts of rounded-up privacy losses.

    Attributes:
      direction: `remove` (loss log P/Q under P) or `add` (loss log Q/P under Q).
      xi: ξ of the Gaussian factor that is not in the losses, 0 where there is none.
      counts: (BINS + 2,) int64; entry i holds losses in (edge i−1, edge i], the last entry those above the highest edge.
    """

    direction: str
    xi: float
    counts: np.ndarray

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    def __add__(self, other: "LossHistogram") -> "LossHistogram":
        if (self.direction, self.xi) != (other.direction, other.xi):
            raise InputError("Expected histograms of one direction and one mechanism to be added.")
        return dataclasses.replace(self, counts=self.counts + other.counts)

    def delta(self, epsilon: float) -> float:
        """The mean of the rounded-up values at ε >= 0: an estimate of δ(ε) that is never below that of the unrounded losses."""
        epsilon = checks.non_negative(epsilon=epsilon)
        values = np.append(remove_values(edges(), epsilon=epsilon, xi=self.xi), 1.0)
        return float(self.counts @ values) / self.samples


def edges() -> np.ndarray:
    """(BINS + 1,) float64: the bin edges, ascending."""
    return np.linspace(LOWEST, HIGHEST, BINS + 1)


def loss_histogram(mechanism: Mechanism, *, direction: str, seed: int, blocks: Iterable[int]) -> LossHistogram:
    """The histogram of some blocks of plain samples.

    Args:
      mechanism: what is sampled.
      direction: `remove` or `add`.
      seed: of the stream.
      blocks: block numbers >= 0, each to be counted once; how they are split over calls does not matter.

    Raises:
      NumericalError: a sampled log likelihood ratio is not finite.
    """
    index = DIRECTIONS.index(checks.one_of(DIRECTIONS, direction=direction))
    simulation = Simulation(scheme=mechanism.scheme, strategy=mechanism.strategy)
    stream = Stream(seed=seed, purpose="histogram", path=(index,))
    counts = np.zeros(BINS + 2, dtype=np.int64)
    for block in blocks:
        log_ratio = simulation.draw(stream, block, sigmas=[mechanism.sigma], proposal=((P, Q)[index],), project=False).log_ratio[0, 0]
        loss = log_ratio if direction == "remove" else -log_ratio
        counts += np.bincount(np.searchsorted(edges(), loss, side="left"), minlength=BINS + 2)
    return LossHistogram(direction=direction, xi=mechanism.gaussian_factor, counts=counts)
