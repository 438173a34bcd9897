"""Replica program of the schemes that decide block by block: nested RA, cyclic RA, cyclic Poisson and the bandwidth-1 schemes.

Every replica has a residue (uniform in 0..starts−1) and takes part in block m with a probability that depends on how many
participations it has left. Windows of two replicas overlap only in the same or in adjacent blocks, and of adjacent blocks only
the replica with the larger residue reaches into the next one. So the state after a block is, for residues r_0 <= r_1 <= …, the
participations left of every replica and whether replicas 1, 2, … took part in that block (math/certificates.md, section 2, "nested RA").

All windows but those of the last block are whole, so before it only the differences of the residues matter; the program runs once per
difference tuple, and the last block is summed once per residue tuple.
"""

import dataclasses
import itertools
import math

import numpy as np

from accountants.tilted.arithmetic import Arithmetic, choose, log_of
from accountants.tilted.cost import Cost
from accountants.tilted.interactions import Interactions
from search_spaces.recurrences import Recurrence
from search_spaces.schemes import BatchScheme

_TUPLES_AT_ONCE = 1 << 15
_SHORTEST_VECTOR = 1000
"""Products in the time that one NumPy call takes in any case."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BlockTable:
    """Forward sums of the replica program, ready for backward sampling.

    Attributes:
      law: the recurrence; after_fire == after_skip == steps per block.
      pairs: interactions.
      alpha: replicas.
      columns: places per replica in a sample.
      differences: (D, alpha) int64, residues minus the smallest one, ascending.
      forward: (blocks, D, n, …, n, f) log sums over everything before a block; n = K + 1 participations left (1 where not counted),
        f = 2^(alpha−1) memories of the block before (1 where all residues are equal).
      last: (D, 2^alpha, f) log sums before the last block times its decision probabilities.
      tuple_difference, tuple_first: (R,) int64, the difference tuple and the smallest residue of every residue tuple.
      tuple_log_weights: (R,) float64, log of (orderings / starts^alpha) times the sum over all decisions.
    """

    law: Recurrence
    pairs: Interactions
    alpha: int
    columns: int
    differences: np.ndarray
    forward: np.ndarray
    last: np.ndarray
    tuple_difference: np.ndarray
    tuple_first: np.ndarray
    tuple_log_weights: np.ndarray

    @property
    def log_moment(self) -> float:
        """log Z_α."""
        return float(np.logaddexp.reduce(self.tuple_log_weights))

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return sum(array.nbytes for array in (self.forward, self.last, self.tuple_difference, self.tuple_first, self.tuple_log_weights))

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """(size, alpha, columns) int64 from the tilted law; rows ascending, unused places hold T."""
        block, blocks = self.law.after_fire, self.forward.shape[0]
        weights = np.cumsum(np.exp(self.tuple_log_weights - self.tuple_log_weights.max()))
        chosen = np.searchsorted(weights, rng.random(size) * weights[-1], side="right")
        difference = self.tuple_difference[chosen]
        residues = self.tuple_first[chosen, None] + self.differences[difference]
        memories = self.forward.shape[-1]
        couplings = log_couplings(self.pairs, residues, (blocks - 1) * block, block, memories)
        option = choose(rng, (self.last[difference] + couplings).reshape(size, -1))
        fired, memory = np.divmod(option, memories)
        left = _bits(fired, self.alpha) * self.law.counted
        positions = np.full((size, self.alpha, self.columns), self.pairs.iterations, dtype=np.int64)
        self._record(positions, fired, left, residues, blocks - 1)
        couplings = log_couplings(self.pairs, self.differences, 0, block, memories)
        for m in reversed(range(blocks - 1)):
            fired, memory, left = self._step_back(rng, m, difference, couplings, memory, left)
            self._record(positions, fired, left, residues, m)
        positions.sort(axis=2)
        order = np.argsort(rng.random((size, self.alpha)), axis=1)
        return np.take_along_axis(positions, order[:, :, None], axis=1)

    def _step_back(self, rng, m, difference, couplings, memory, left):
        """Decisions of block m, the memory before it and the participations left before it, given the state after it."""
        memories, size = self.forward.shape[-1], difference.size
        own = (0, 1) if memories > 1 else range(2**self.alpha)
        options = [(first, before) for first in own for before in range(memories)]
        log_weights = np.empty((size, len(options)))
        for column, (first, before) in enumerate(options):
            fired = (memory << 1) | first if memories > 1 else np.full(size, first)
            bits = _bits(fired, self.alpha)
            count = left + bits * self.law.counted
            possible = (count < self.forward.shape[2]).all(axis=1)
            count = np.minimum(count, self.forward.shape[2] - 1)
            fire, skip = _log_probabilities(self.law, m * self.law.after_fire)
            decisions = np.where(bits, fire[count], skip[count]).sum(axis=1)
            table = self.forward[(m, difference, *count.T, before)]
            log_weights[:, column] = np.where(possible, decisions + couplings[difference, fired, before] + table, -np.inf)
        picked = choose(rng, log_weights)
        first, before = np.array(options).T
        fired = (memory << 1) | first[picked] if memories > 1 else first[picked]
        return fired, before[picked], left + _bits(fired, self.alpha) * self.law.counted

    def _record(self, positions, fired, left, residues, m) -> None:
        slot = self.columns - left if self.law.counted else np.full_like(left, m)
        rows, replicas = np.nonzero(_bits(fired, self.alpha))
        positions[rows, replicas, slot[rows, replicas]] = m * self.law.after_fire + residues[rows, replicas]


def block_cost(scheme: BatchScheme, alpha: int) -> Cost:
    """Products formed and bytes held by `block_table`."""
    law = scheme.recurrence()
    blocks = law.terms // law.after_fire
    differences, tuples = math.comb(law.starts + alpha - 2, alpha - 1), math.comb(law.starts + alpha - 1, alpha)
    memories = 2 ** (alpha - 1) if law.starts > 1 else 1
    states = differences * (law.rows + 1 if law.counted else 1) ** alpha * memories
    # The table and four temporaries of one block; per residue tuple three numbers, and the decisions of those handled at once.
    held = (blocks + 4) * states + 3 * tuples + 4 * min(tuples, _TUPLES_AT_ONCE) * 2**alpha * memories
    vectors = blocks * 2**alpha * memories * max(states // memories, _SHORTEST_VECTOR)
    return Cost(operations=vectors + tuples * memories * 2**alpha, bytes=8 * held)


def block_table(scheme: BatchScheme, pairs: Interactions, *, alpha: int, arithmetic: Arithmetic) -> BlockTable:
    """Run the replica program forward for every difference tuple, then sum the last block for every residue tuple."""
    law = scheme.recurrence()
    block, blocks = law.after_fire, law.terms // law.after_fire
    memories = 2 ** (alpha - 1) if law.starts > 1 else 1
    differences = _difference_tuples(law.starts, alpha)
    forward = _forward(law, pairs, differences, memories, arithmetic)
    fire, skip = _log_probabilities(law, (blocks - 1) * block)
    last = np.stack([
        np.logaddexp.reduce(
            (forward[-1] + _decisions(fire, skip, fired, alpha)[None, ..., None]).reshape(len(differences), -1, memories), axis=1,
        )
        for fired in range(2**alpha)
    ], axis=1)
    tuple_difference, tuple_first = _residue_tuples(law.starts, differences)
    log_weights = np.empty(tuple_first.size)
    for start in range(0, tuple_first.size, _TUPLES_AT_ONCE):
        part = slice(start, start + _TUPLES_AT_ONCE)
        residues = tuple_first[part, None] + differences[tuple_difference[part]]
        couplings = log_couplings(pairs, residues, (blocks - 1) * block, block, memories)
        sums = np.logaddexp.reduce((last[tuple_difference[part]] + couplings).reshape(len(residues), -1), axis=1)
        log_weights[part] = sums + _log_orderings(differences)[tuple_difference[part]] - alpha * math.log(law.starts)
    return BlockTable(
        law=law, pairs=pairs, alpha=alpha, columns=scheme.max_participations, differences=differences, forward=forward, last=last,
        tuple_difference=tuple_difference, tuple_first=tuple_first, tuple_log_weights=log_weights,
    )


def log_couplings(pairs: Interactions, residues: np.ndarray, start: int, block: int, memories: int) -> np.ndarray:
    """Log weights of all decisions in the block that starts at step `start`.

    Args:
      residues: (n, alpha) int64, ascending rows.
      memories: 2^(alpha−1), or 1 if windows of the block before reach nobody.

    Returns:
      (n, 2^alpha, memories) float64; bit j of the middle index says that replica j takes part, bit j−1 of the last that it did before.
    """
    alpha = residues.shape[1]
    fired = _bits(np.arange(2**alpha), alpha)
    before = np.column_stack([np.zeros(memories, dtype=np.int64), _bits(np.arange(memories), alpha - 1)])
    result = np.zeros((len(residues), 2**alpha, memories))
    for j, l in itertools.combinations(range(alpha), 2):
        near, far = residues[:, j], residues[:, l]
        same = pairs.log_weights(start + far, far - near)
        result += same[:, None, None] * (fired[:, j] * fired[:, l])[None, :, None]
        if memories > 1:
            across = pairs.log_weights(start + near, block + near - far)
            result += across[:, None, None] * (fired[:, j, None] * before[None, :, l])[None]
    return result


def _forward(law, pairs, differences, memories, arithmetic) -> np.ndarray:
    """(blocks, D, n, …, n, memories) log sums before each block."""
    alpha = differences.shape[1]
    counts = law.rows + 1 if law.counted else 1
    blocks = law.terms // law.after_fire
    forward = np.empty((blocks, len(differences), *[counts] * alpha, memories))
    forward[0] = arithmetic.zero
    forward[0][(slice(None), *[-1] * alpha, 0)] = arithmetic.one
    couplings = arithmetic.lift(log_couplings(pairs, differences, 0, law.after_fire, memories))
    for m in range(blocks - 1):
        _advance(forward[m], forward[m + 1], couplings, _log_probabilities(law, m * law.after_fire), law.counted, arithmetic)
    for m in range(blocks):
        forward[m] = arithmetic.log(forward[m])
    return forward


def _advance(state, after, couplings, log_probabilities, counted, arithmetic) -> None:
    """One block: `after` becomes the sum over all decisions from `state`."""
    alpha, memories = state.ndim - 2, state.shape[-1]
    after[...] = arithmetic.zero
    spread = (slice(None), *[None] * alpha)
    for fired in range(2**alpha):
        moved = arithmetic.times(state[..., 0], couplings[:, fired, 0][spread])
        for before in range(1, memories):
            moved = arithmetic.plus(moved, arithmetic.times(state[..., before], couplings[:, fired, before][spread]))
        moved = arithmetic.times(moved, arithmetic.lift(_decisions(*log_probabilities, fired, alpha))[None])
        takes_part = [counted and fired >> j & 1 for j in range(alpha)]
        source = (slice(None), *[slice(1, None) if taking else slice(None) for taking in takes_part])
        target = (slice(None), *[slice(None, -1) if taking else slice(None) for taking in takes_part], fired >> 1 if memories > 1 else 0)
        after[target] = arithmetic.plus(after[target], moved[source])


def _log_probabilities(law: Recurrence, t: int) -> tuple[np.ndarray, np.ndarray]:
    """log p and log(1−p) at step t by participations left, each (n,)."""
    p = np.concatenate([[0.0], law.fire_probability[:, t]]) if law.counted else law.fire_probability[:, t]
    return log_of(p), log_of(1.0 - p)


def _decisions(fire: np.ndarray, skip: np.ndarray, fired: int, alpha: int) -> np.ndarray:
    """(n, …, n) log probability that exactly the replicas in the bit set `fired` take part."""
    return sum(np.reshape(fire if fired >> j & 1 else skip, [-1 if axis == j else 1 for axis in range(alpha)]) for j in range(alpha))


def _bits(numbers: np.ndarray, width: int) -> np.ndarray:
    """(n, width) int64 of zeros and ones, lowest bit first."""
    return np.asarray(numbers)[:, None] >> np.arange(width) & 1


def _difference_tuples(starts: int, alpha: int) -> np.ndarray:
    """(D, alpha) int64: all ascending tuples in 0..starts−1 that begin with 0."""
    rest = np.indices([starts] * (alpha - 1)).reshape(alpha - 1, -1).T
    return np.column_stack([np.zeros(len(rest), dtype=np.int64), rest])[(np.diff(rest, axis=1) >= 0).all(axis=1)]


def _residue_tuples(starts: int, differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Difference tuple and smallest residue of every ascending residue tuple."""
    shifts = starts - differences[:, -1]
    ends = np.cumsum(shifts)
    return np.repeat(np.arange(len(differences)), shifts), np.arange(ends[-1]) - np.repeat(ends - shifts, shifts)


def _log_orderings(differences: np.ndarray) -> np.ndarray:
    """log of the number of different orderings of each tuple, (D,)."""
    ways = np.full(len(differences), math.lgamma(differences.shape[1] + 1))
    for j in range(1, differences.shape[1]):
        # The i-th repetition of a value divides the number of orderings by i + 1.
        repeats = np.sum(differences[:, :j] == differences[:, j, None], axis=1)
        ways -= np.log(repeats + 1)
    return ways
