"""Schemes in which an example takes part K times on average, with no fixed number."""

import dataclasses

import numpy as np

from search_spaces import checks
from search_spaces.problem import Problem
from search_spaces.recurrences import Recurrence
from search_spaces.schemes.base import BatchScheme, geometric_arrivals


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PoissonScheme(BatchScheme):
    """Independent participation with a constant probability at each free step.

    Attributes:
      rate_factor: multiplies the participation probability (capped at 1). 1 is the scheme; other values are laws to sample from
        where examples that take part unusually often matter (importance sampling).
    """

    fixed_participations = False

    rate_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rate_factor", checks.positive(rate_factor=self.rate_factor))

    @property
    def probability(self) -> float:
        """Participation probability of a free step, in (0, 1]."""
        return min(1.0, self.rate_factor * self._base_probability)

    @property
    def _base_probability(self) -> float:
        return self.participations * self.bandwidth / self.iterations

    def recurrence(self) -> Recurrence:
        return Recurrence(
            fire_probability=np.full((1, self.iterations), self.probability),
            after_fire=self.bandwidth, after_skip=self.bandwidth, counted=False,
        )


class Poisson(_PoissonScheme):
    """Poisson DP-SGD: each step with probability K/T (bandwidth 1)."""

    name = "poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_bandwidth_one()

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        return (1,)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return geometric_arrivals(rng, size, self.iterations, self.probability, gap=1)


class CyclicPoisson(_PoissonScheme):
    """Public residue mod b; each eligible step with probability Kb/T.

    The residue is public, so accounting is for the worst one: residue 0, whose windows are never truncated.
    """

    name = "cyclic_poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_divisor()

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        return problem.divisors()

    @property
    def public_starts(self) -> int:
        return self.bandwidth

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        blocks = self.iterations // self.bandwidth
        return self.bandwidth * geometric_arrivals(rng, size, blocks, self.probability, gap=1)


class MinSepPoisson(_PoissonScheme):
    """b-min-sep Poisson: as Poisson, but an example rests b−1 steps after taking part.

    p = 1/(T/K − b + 1) makes K/T the long-run frequency. No example rests at step 0, so over T steps the expectation is K or a little more
    (4.12 at T=1024, K=4, b=128); `marginals` has the exact frequencies.
    """

    name = "min_sep_poisson"

    @property
    def _base_probability(self) -> float:
        return 1.0 / (self.iterations / self.participations - self.bandwidth + 1)

    def recurrence(self) -> Recurrence:
        return Recurrence(
            fire_probability=np.full((1, self.iterations), self.probability),
            after_fire=self.bandwidth, after_skip=1, counted=False,
        )

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return geometric_arrivals(rng, size, self.iterations, self.probability, gap=self.bandwidth)
