"""Real training batches drawn from a scheme's law, for any number of examples and without a loop over them.

An example's participations are drawn one after the other: given where it is free to take part again and how many participations it has
left, its next step has a distribution that the recurrence fixes. Each participation is thus drawn once, with the exact law, and an example
needs two numbers of memory. Steps are worked off in windows that hold about a quarter of all examples each.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np

from search_spaces import checks
from search_spaces.recurrences import Recurrence, marginals

Rng = np.random.Generator | int | None

EXAMPLES_AT_ONCE = 1 << 16
"""Examples whose next participation is drawn together; the stream of random numbers, and so the result, does not depend on it."""

WINDOWS_PER_PARTICIPATION = 4
"""Windows are T/(4K) steps: a window's participations, sorted by step, then need less memory than the state of all examples."""


class NextParticipation:
    """Draws the step of the next participation, given the first free step and the participations left (`recurrences.Recurrence`).

    From a free step t the scheme takes part at t, t + after_skip, t + 2·after_skip, … with the conditional probabilities p[k, ·]. In terms of
    H, the running sum of −log(1 − p) along that lattice, the first step taken is the first one at which H has grown by more than a standard
    exponential variable, or one with p = 1 if that comes earlier.
    """

    def __init__(self, law: Recurrence) -> None:
        stride, horizon = law.after_skip, law.terms
        self._stride, self._horizon = stride, horizon
        self._blocks = -(-horizon // stride)
        # (rows, stride, blocks): one lattice per residue. Row 0 is for examples that have no participation left, where they are counted.
        probability = np.zeros((law.rows + law.counted, self._blocks * stride))
        probability[int(law.counted) :, :horizon] = law.fire_probability
        lattices = probability.reshape(-1, self._blocks, stride).swapaxes(1, 2)
        certain = lattices == 1.0
        growth = -np.log1p(-np.where(certain, 0.0, lattices))
        # A column of zeros before the sums and one of infinities behind them: H at a block is its sum over all earlier blocks.
        sums = np.pad(np.cumsum(growth, axis=2), ((0, 0), (0, 0), (1, 1)), constant_values=(0.0, np.inf))
        places = np.where(certain, np.arange(self._blocks), self._blocks)
        first_certain = np.minimum.accumulate(places[:, :, ::-1], axis=2)[:, :, ::-1]
        self._hazard = np.ascontiguousarray(sums).ravel()
        self._certain = np.pad(first_certain, ((0, 0), (0, 0), (0, 2)), constant_values=self._blocks).astype(np.int32).ravel()

    def __call__(self, rng: np.random.Generator, left: np.ndarray | None, free: np.ndarray) -> np.ndarray:
        """(size,) int32: the next steps; T where there is none.

        Args:
          rng: source of one standard exponential variable per example.
          left: (size,) integers in 0..K, participations left; None where they are not counted.
          free: (size,) integers >= 0, the first free step; from T on there is no participation.
        """
        steps = np.empty(free.size, dtype=np.int32)
        for start in range(0, free.size, EXAMPLES_AT_ONCE):
            part = slice(start, start + EXAMPLES_AT_ONCE)
            steps[part] = self._draw(rng, None if left is None else left[part], free[part])
        return steps

    def _draw(self, rng: np.random.Generator, left: np.ndarray | None, free: np.ndarray) -> np.ndarray:
        block, residue = np.divmod(np.minimum(free, self._blocks * self._stride), self._stride)
        row = residue if left is None else residue + left.astype(np.int64) * self._stride
        origin = row.astype(np.int64) * (self._blocks + 2)
        end = origin + self._blocks + 1
        place = origin + block
        certain = self._certain[place]
        target = self._hazard[place] + rng.standard_exponential(free.size)
        # Binary search for the last place whose H is at most the target; beyond the last block it is the one before the infinity.
        step = 1 << self._blocks.bit_length()
        while step:
            further = np.minimum(place + step, end)
            np.copyto(place, further, where=self._hazard[further] <= target)
            step >>= 1
        return np.minimum(np.minimum(place - origin, certain) * self._stride + residue, self._horizon)


def draw_batches(law: Recurrence, *, num_examples: int, rng: Rng) -> Iterator[np.ndarray]:
    """The T batches of one training run; see `BatchScheme.batch_iterator`.

    Memory: 5 to 8 bytes per example, about 10 more while a window is sorted, and one window's batches.
    """
    num_examples = checks.integer(at_least=0, num_examples=num_examples)
    return _draw_batches(law, num_examples, generator(rng))


def generator(rng: Rng) -> np.random.Generator:
    """The generator itself, a new one from a seed, or for None one seeded by the operating system (for real runs: the batches are secret).

    Raises:
      InputError: anything else.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(None if rng is None else checks.integer(at_least=0, rng=rng))


def _draw_batches(law: Recurrence, num_examples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    draw = NextParticipation(law)
    left = np.full(num_examples, law.rows, dtype=np.min_scalar_type(law.rows)) if law.counted else None
    starts = rng.integers(law.starts, size=num_examples, dtype=np.int32)
    upcoming = draw(rng, left, starts)
    del starts
    participations = max(1, math.ceil(marginals(law).sum()))
    window = max(1, law.terms // (WINDOWS_PER_PARTICIPATION * participations))
    for first in range(0, law.terms, window):
        yield from _window_batches(law, draw, rng, left, upcoming, first, min(window, law.terms - first))


def _window_batches(
    law: Recurrence, draw: NextParticipation, rng: np.random.Generator, left: np.ndarray | None, upcoming: np.ndarray, first: int,
    size: int,
) -> Iterator[np.ndarray]:
    """The batches of steps first..first+size−1; moves `left` and `upcoming` (both changed in place) past them."""
    index_type = np.int32 if upcoming.size <= np.iinfo(np.int32).max else np.int64
    step_type = np.min_scalar_type(size)  # up to two bytes NumPy sorts by counting, in linear time
    examples = np.flatnonzero(upcoming < first + size).astype(index_type)
    members, steps = [], []
    while examples.size:
        now = upcoming[examples]
        members.append(examples)
        steps.append((now - first).astype(step_type))
        if left is not None:
            left[examples] -= 1
        upcoming[examples] = draw(rng, None if left is None else left[examples], now.astype(np.int64) + law.after_fire)
        examples = examples[upcoming[examples] < first + size]
    step = np.concatenate(steps) if steps else np.empty(0, dtype=step_type)
    order = np.argsort(step, kind="stable")
    sorted_members = np.concatenate(members)[order] if members else np.empty(0, dtype=index_type)
    ends = np.cumsum(np.bincount(step, minlength=size))
    for start, end in zip(np.concatenate([[0], ends]), ends):
        # A copy: the batch must not keep the whole window in memory, and in ascending order it reads a dataset from front to back.
        yield np.sort(sorted_members[start:end]).astype(np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PhysicalBatch:
    """A part of one batch in a fixed shape.

    Attributes:
      step: the step it belongs to, from 0.
      indices: (size,) int64 example indices; 0 where `mask` is false.
      mask: (size,) bool: which places hold an example. The others must not enter the gradient.
      ends_step: whether it is the last part of its step: noise is added and the optimiser moves after it.
    """

    step: int
    indices: np.ndarray
    mask: np.ndarray
    ends_step: bool


def physical_batches(batches: Iterable[np.ndarray], *, size: int) -> Iterator[PhysicalBatch]:
    """Every batch cut and padded to parts of one size, at least one part a step: an empty batch is one part without examples.

    Args:
      batches: one array of indices a step.
      size: examples of a part, >= 1. How batches are cut has no influence on privacy.
    """
    size = checks.integer(size=size)
    return _physical_batches(batches, size)


def _physical_batches(batches: Iterable[np.ndarray], size: int) -> Iterator[PhysicalBatch]:
    for step, batch in enumerate(batches):
        last = max(0, len(batch) - 1) // size
        for part in range(last + 1):
            held = batch[part * size : (part + 1) * size]
            indices = np.zeros(size, dtype=np.int64)
            indices[: len(held)] = held
            yield PhysicalBatch(step=step, indices=indices, mask=np.arange(size) < len(held), ends_step=part == last)
