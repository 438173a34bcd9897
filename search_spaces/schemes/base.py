"""The plug-in point for batch selection schemes: the law of one example's participations."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from search_spaces import checks
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.problem import Problem
from search_spaces.recurrences import Recurrence, first_participations, marginals
from search_spaces.schemes.batches import Rng, draw_batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchScheme(abc.ABC):
    """How batches are drawn, seen from one example (examples are drawn independently of each other).

    Formal guarantees of every scheme, checked by tests/contracts/scheme_contract.py:
      * two participations of one example are at least `separation` >= bandwidth steps apart;
      * an example takes part at most `max_participations` times, exactly K times where `fixed_participations`;
      * `sample`, `marginals` and `recurrence` describe one and the same law.

    Attributes:
      iterations: T.
      participations: K, exact or expected.
      bandwidth: b, the largest bandwidth of a strategy this scheme is used with, and its minimum separation where it has that parameter.

    Raises:
      InputError: a value out of range, K·b > T, or a divisibility the scheme needs does not hold.
    """

    name: ClassVar[str]
    fixed_participations: ClassVar[bool]
    amplified: ClassVar[bool] = True
    adjacency: ClassVar[str] = "add_remove"

    iterations: int
    participations: int
    bandwidth: int = 1

    def __post_init__(self) -> None:
        iterations = checks.integer(iterations=self.iterations)
        participations = checks.integer(at_most=iterations, participations=self.participations)
        bandwidth = Problem(iterations=iterations, participations=participations, epsilon=1, delta=0.5).check_bandwidth(self.bandwidth)
        for field, value in (("iterations", iterations), ("participations", participations), ("bandwidth", bandwidth)):
            object.__setattr__(self, field, value)

    @classmethod
    def bandwidths(cls, problem: Problem) -> tuple[int, ...]:
        """The admissible bandwidths at this problem, ascending; empty if the scheme cannot serve it at all."""
        return tuple(range(1, problem.largest_bandwidth + 1))

    @property
    def separation(self) -> int:
        """The smallest possible gap between two participations of one example, in steps."""
        return self.bandwidth

    @property
    def max_participations(self) -> int:
        """The most often one example can take part: K where fixed, else ⌈T/separation⌉."""
        return self.participations if self.fixed_participations else -(-self.iterations // self.separation)

    @abc.abstractmethod
    def recurrence(self) -> Recurrence:
        """The law as a likelihood-ratio recurrence over the T steps."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Participations of `size` independent examples.

        Returns:
          (size, max_participations) int64, each row ascending; unused places hold T.
        """

    def marginals(self) -> np.ndarray:
        """(T,) float64: the probability of taking part in each step, for the example that the accounting is for."""
        return marginals(self.recurrence())

    @property
    def public_starts(self) -> int:
        """How many equally likely first positions an example's batches have that accounting takes as public; 1 where none is.

        Examples draw theirs independently. A split into equal parts would make the batches of the others depend on whether one example
        is there, which add/remove adjacency does not allow for.
        """
        return 1

    def batch_law(self) -> Recurrence:
        """The law of one example's batches: `recurrence`, with the public first position drawn too instead of fixed at the worst one."""
        law = self.recurrence()
        return law if self.public_starts == 1 else dataclasses.replace(law, starts=self.public_starts)

    def batch_iterator(self, num_examples: int, rng: Rng = None) -> Iterator[np.ndarray]:
        """The batches of one training run (the protocol of JAX-Privacy's batch selection).

        Formal guarantees, checked by tests/contracts/batches_contract.py:
          * T arrays, one a step, 1-D int64, ascending, without repetition, of indices in 0..num_examples−1; empty ones are yielded too;
          * the steps of one example follow `batch_law`, independently of all other examples;
          * the same seed gives the same batches.

        Args:
          num_examples: size of the dataset. Sensitive under add/remove adjacency, as are the batches and their sizes.
          rng: a generator, a seed, or None for one seeded by the operating system. The privacy guarantee needs it to stay secret.

        Raises:
          InputError: num_examples is negative, or rng is none of these.
        """
        return draw_batches(self.batch_law(), num_examples=num_examples, rng=rng)

    def expected_batch_sizes(self, num_examples: int) -> np.ndarray:
        """(T,) float64: the expected size of every batch; they differ between steps for min_sep_ra and min_sep_poisson."""
        return checks.integer(at_least=0, num_examples=num_examples) * marginals(self.batch_law())

    def coverage(self) -> np.ndarray:
        """(T,) float64: the probability that an example has taken part in at least one of the steps 0..t."""
        return np.minimum(1.0, np.cumsum(first_participations(self.batch_law())))

    def _require_divisor(self) -> None:
        if self.iterations % self.bandwidth:
            raise InputError(
                f"Expected bandwidth={self.bandwidth} to divide iterations={self.iterations}, which {self.name} needs."
            )

    def _require_bandwidth_one(self) -> None:
        if self.bandwidth != 1:
            raise UnsupportedError(f"Expected bandwidth={self.bandwidth} to be 1, the only bandwidth {self.name} separates.")


KEYS_AT_ONCE = 1 << 22
"""Random keys held at once (32 MiB); the stream of random numbers, and so the result, does not depend on it."""


def uniform_subsets(rng: np.random.Generator, size: int, population: int, k: int) -> np.ndarray:
    """(size, k) int64: uniform k-subsets of {0..population−1}, each row ascending."""
    if k * k > population:
        rows = max(1, KEYS_AT_ONCE // population)
        blocks = [_smallest_keys(rng, min(rows, size - start), population, k) for start in range(0, size, rows)]
        return np.concatenate(blocks) if blocks else np.empty((0, k), dtype=np.int64)
    chosen = np.empty((size, 0), dtype=np.int64)
    for taken in range(k):
        # A uniform rank among the values not taken yet; stepping over the taken ones in ascending order turns it into the value itself.
        value = rng.integers(population - taken, size=size)
        for j in range(taken):
            value += value >= chosen[:, j]
        chosen = np.sort(np.column_stack([chosen, value]), axis=1)
    return chosen


def _smallest_keys(rng: np.random.Generator, size: int, population: int, k: int) -> np.ndarray:
    keys = rng.random((size, population))
    return np.sort(np.argpartition(keys, k - 1, axis=1)[:, :k], axis=1)


def geometric_arrivals(rng: np.random.Generator, size: int, horizon: int, probability: float, gap: int) -> np.ndarray:
    """(size, ⌈horizon/gap⌉) int64: arrivals of a process that fires with `probability` at each free step and then rests gap−1 steps.

    Rows are ascending; places after the horizon hold `horizon`.
    """
    arrivals = rng.geometric(probability, size=(size, -(-horizon // gap))).astype(np.int64, copy=False)
    # A wait beyond the horizon ends the row either way; the cap keeps the running sum from overflowing. All in place: rows can be T long.
    np.minimum(arrivals, horizon + 1, out=arrivals)
    np.cumsum(arrivals, axis=1, out=arrivals)
    arrivals += (gap - 1) * np.arange(arrivals.shape[1]) - 1
    return np.minimum(arrivals, horizon, out=arrivals)
