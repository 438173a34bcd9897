"""The question a user asks: how long the training is, how often one example takes part, and the privacy that is owed."""

import dataclasses
from typing import ClassVar

from search_spaces import checks
from search_spaces.errors import InputError

FIXED_SIZE = "fixed_size"
"""Name of the scheme of fixed-size batches. No member of `SCHEMES`: its adjacency is replace, that of all those is add/remove."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """Iterations, participations and the target (ε, δ).

    Attributes:
      iterations: T >= 1, number of optimiser steps. Public.
      participations: K in 1..T, how often one example takes part (exactly, or in expectation for Poisson-type schemes). Public.
      epsilon: target ε > 0, finite.
      delta: target δ in (0, 1).
      dataset_size: number of examples, or None. It never enters the privacy analysis (adjacency is add/remove, where it is not public);
        it is kept for the trainer's batch sizes only.

    Raises:
      InputError: an argument is outside its range.
    """

    iterations: int
    participations: int
    epsilon: float
    delta: float
    dataset_size: int | None = None

    def __post_init__(self) -> None:
        set_ = lambda name, value: object.__setattr__(self, name, value)
        set_("iterations", checks.integer(iterations=self.iterations))
        set_("participations", checks.integer(at_most=self.iterations, participations=self.participations))
        set_("epsilon", checks.positive(epsilon=self.epsilon))
        set_("delta", checks.between(0, 1, delta=self.delta))
        if self.dataset_size is not None:
            set_("dataset_size", checks.integer(dataset_size=self.dataset_size))

    @classmethod
    def from_training(cls, *, dataset_size: int, batch_size: int, epochs: int, epsilon: float, delta: float) -> "Problem":
        """The problem of training for `epochs` passes: K = epochs and T = epochs · ⌈dataset_size / batch_size⌉.

        The last batch of a pass is not dropped (dropping it would change who participates), so the expected batch size is
        dataset_size / ⌈dataset_size / batch_size⌉ <= batch_size.
        """
        dataset_size = checks.integer(dataset_size=dataset_size)
        batch_size = checks.integer(at_most=dataset_size, batch_size=batch_size)
        epochs = checks.integer(epochs=epochs)
        return cls(
            iterations=epochs * -(-dataset_size // batch_size), participations=epochs,
            epsilon=epsilon, delta=delta, dataset_size=dataset_size,
        )

    @property
    def largest_bandwidth(self) -> int:
        """⌊T/K⌋: the largest bandwidth with room for K participations that do not overlap."""
        return self.iterations // self.participations

    def divisors(self) -> tuple[int, ...]:
        """All divisors of T up to T/K, ascending: the bandwidths of schemes that need b to divide T."""
        return tuple(b for b in range(1, self.largest_bandwidth + 1) if self.iterations % b == 0)

    def check_bandwidth(self, bandwidth: object) -> int:
        """`bandwidth` if it is an integer with 1 <= b and K·b <= T.

        Raises:
          InputError: otherwise.
        """
        bandwidth = checks.integer(bandwidth=bandwidth)
        if bandwidth * self.participations > self.iterations:
            raise InputError(
                f"Expected bandwidth={bandwidth} to be an integer <= iterations/participations = "
                f"{self.iterations}/{self.participations}, so that all participations fit."
            )
        return bandwidth


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedSizeProblem:
    """A training with fixed-size batches and the target (ε, δ) that is owed under replace adjacency, where the dataset size is public.

    There is nothing to search: the strategy is the identity, and the noise multiplier follows from the target.

    Attributes:
      dataset_size: n >= 1.
      batch_size: 1..n.
      iterations: T >= 1.
      epsilon: target ε > 0, finite.
      delta: target δ in (0, 1).

    Raises:
      InputError: an argument is outside its range.
    """

    adjacency: ClassVar[str] = "replace"

    dataset_size: int
    batch_size: int
    iterations: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        set_ = lambda name, value: object.__setattr__(self, name, value)
        set_("dataset_size", checks.integer(dataset_size=self.dataset_size))
        set_("batch_size", checks.integer(at_most=self.dataset_size, batch_size=self.batch_size))
        set_("iterations", checks.integer(iterations=self.iterations))
        set_("epsilon", checks.positive(epsilon=self.epsilon))
        set_("delta", checks.between(0, 1, delta=self.delta))

    @classmethod
    def from_training(cls, *, dataset_size: int, batch_size: int, epochs: int, epsilon: float, delta: float) -> "FixedSizeProblem":
        """The problem of as many steps as `epochs` passes take: T = epochs · ⌈dataset_size / batch_size⌉, as in `Problem.from_training`."""
        dataset_size = checks.integer(dataset_size=dataset_size)
        batch_size = checks.integer(at_most=dataset_size, batch_size=batch_size)
        iterations = checks.integer(epochs=epochs) * -(-dataset_size // batch_size)
        return cls(dataset_size=dataset_size, batch_size=batch_size, iterations=iterations, epsilon=epsilon, delta=delta)
