"""The plug-in point for batch selection schemes: the law of one example's participations."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np

from search_spaces import checks
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.problem import Problem
from search_spaces.recurrences import Recurrence


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
        """(T,) float64: the probability of taking part in each step, by a forward sweep of the recurrence."""
        law = self.recurrence()
        horizon = law.terms
        free = np.zeros((law.rows + 1, horizon + max(law.after_fire, law.after_skip)))
        free[-1, : law.starts] = 1.0 / law.starts
        marginals = np.zeros(horizon)
        for t in range(horizon):
            fired = free[1:, t] * law.fire_probability[:, t]
            marginals[t] = fired.sum()
            free[1:, t + law.after_skip] += free[1:, t] - fired
            if law.counted:
                free[:-1, t + law.after_fire] += fired
            else:
                free[1:, t + law.after_fire] += fired
        return marginals

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
