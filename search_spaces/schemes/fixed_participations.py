"""Schemes in which every example takes part exactly K times."""

import numpy as np

from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.recurrences import Recurrence
from search_spaces.schemes.base import BatchScheme, uniform_subsets


class FixedParticipations(BatchScheme):
    """Base of the schemes with exactly K participations."""

    fixed_participations = True


class Deterministic(FixedParticipations):
    """No amplification: every ⌊T/K⌋ steps, from a public first step in 0..⌊T/K⌋−1 (accounting is for the first step 0).

    Steps from K·⌊T/K⌋ on have empty batches.
    """

    name = "deterministic"
    amplified = False

    @property
    def separation(self) -> int:
        return self.iterations // self.participations

    @property
    def public_starts(self) -> int:
        return self.separation

    def recurrence(self) -> Recurrence:
        return Recurrence(
            fire_probability=np.ones((self.participations, self.iterations)),
            after_fire=self.separation, after_skip=self.separation,
        )

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.tile(self.separation * np.arange(self.participations), (size, 1))


class BallsInBins(FixedParticipations):
    """The first step is uniform in 0..T/K−1, then every T/K steps (needs K to divide T)."""

    name = "balls_in_bins"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations % self.participations:
            raise InputError(
                f"Expected participations={self.participations} to divide iterations={self.iterations}, which {self.name} needs."
            )

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        return () if problem.iterations % problem.participations else super().bandwidths(problem)

    @property
    def separation(self) -> int:
        return self.iterations // self.participations

    def recurrence(self) -> Recurrence:
        # K > 1 terms are tied to one start, so a participation is certain at each of them and no skip is ever taken.
        return Recurrence(
            fire_probability=np.ones((self.participations, self.iterations)),
            after_fire=self.separation, after_skip=self.separation, starts=self.separation,
        )

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        first = rng.integers(self.separation, size=(size, 1))
        return first + self.separation * np.arange(self.participations)


class _RandomAllocation(FixedParticipations):
    """Uniform K of the T/b blocks; subclasses say which step of each block is meant."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_divisor()

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        return problem.divisors()

    def _block_recurrence(self, starts: int) -> Recurrence:
        left = np.arange(1, self.participations + 1)[:, None]
        blocks = self.iterations // self.bandwidth
        blocks_left = blocks - np.arange(self.iterations)[None, :] // self.bandwidth
        return Recurrence(
            fire_probability=np.minimum(1.0, left / blocks_left),
            after_fire=self.bandwidth, after_skip=self.bandwidth, starts=starts,
        )

    def _sample_blocks(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self.bandwidth * uniform_subsets(rng, size, self.iterations // self.bandwidth, self.participations)


class RandomAllocation(_RandomAllocation):
    """K-out-of-T random allocation DP-SGD: a uniform K-subset of the steps (bandwidth 1)."""

    name = "random_allocation"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_bandwidth_one()

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        return (1,)

    def recurrence(self) -> Recurrence:
        return self._block_recurrence(starts=1)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self._sample_blocks(rng, size)


class CyclicRandomAllocation(_RandomAllocation):
    """Public residue mod b, then uniform K of the T/b eligible steps.

    The residue is public, so accounting is for the worst one: residue 0, whose windows are never truncated.
    """

    name = "cyclic_ra"

    @property
    def public_starts(self) -> int:
        return self.bandwidth

    def recurrence(self) -> Recurrence:
        return self._block_recurrence(starts=1)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self._sample_blocks(rng, size)


class NestedRandomAllocation(_RandomAllocation):
    """Residue uniform in 0..b−1, then uniform K of the T/b steps with that residue."""

    name = "nested_ra"

    def recurrence(self) -> Recurrence:
        return self._block_recurrence(starts=self.bandwidth)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.integers(self.bandwidth, size=(size, 1)) + self._sample_blocks(rng, size)


class MinSepRandomAllocation(FixedParticipations):
    """Uniform over all K-subsets of the steps with pairwise gaps >= b.

    Batches are larger near both ends (`expected_batch_sizes`). That is part of the law that is accounted for: thinning or topping them up
    would be another law, for which there is no accountant here. Where even sizes matter, nested_ra has them.
    """

    name = "min_sep_ra"

    def recurrence(self) -> Recurrence:
        left = np.arange(1, self.participations + 1)[:, None]
        places = self.iterations - np.arange(self.iterations)[None, :] - (left - 1) * (self.bandwidth - 1)
        # Positions with fewer places than participations are never reached; 1 keeps the table finite.
        return Recurrence(
            fire_probability=np.where(places > left, left / np.maximum(places, 1), 1.0),
            after_fire=self.bandwidth, after_skip=1,
        )

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        spread = (self.bandwidth - 1) * np.arange(self.participations)
        places = self.iterations - (self.participations - 1) * (self.bandwidth - 1)
        return uniform_subsets(rng, size, places, self.participations) + spread
