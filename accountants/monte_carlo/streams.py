"""Random streams: every block of samples has its own keys, derived from (seed, purpose, path, block).

A block's samples therefore do not depend on which worker draws it, in which chunk, or in which order; and two purposes never
share a key (math/certificates.md, "Arithmetic").
"""

import dataclasses

import jax
import numpy as np

from search_spaces import checks

PURPOSES = {"pilot": 0, "estimate": 1, "histogram": 2, "certify": 3, "verify": 4}
"""What a stream is for. The numbers are part of the file format: never reuse or renumber one."""

_POSITIONS, _NORMALS = 0, 1
_LARGEST_WORD = (1 << 32) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream:
    """The source of randomness of one purpose.

    Attributes:
      seed: non-negative integer (any size).
      purpose: a word of `PURPOSES`.
      path: further integers in 0..2³²−1 that tell apart the streams of one purpose, such as (candidate, direction).

    Raises:
      InputError: a value out of range, or an unknown purpose.
    """

    seed: int
    purpose: str
    path: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checks.integer(at_least=0, seed=self.seed)
        checks.one_of(PURPOSES, purpose=self.purpose)
        # A larger number would spread over two words, and those are another path's.
        for step in self.path:
            checks.integer(at_least=0, at_most=_LARGEST_WORD, path=step)

    def _sequence(self, block: int, kind: int) -> np.random.SeedSequence:
        block = checks.integer(at_least=0, at_most=_LARGEST_WORD, block=block)
        return np.random.SeedSequence(self.seed, spawn_key=(PURPOSES[self.purpose], *self.path, block, kind))

    def positions(self, block: int) -> np.random.Generator:
        """The generator that draws the participations of one block."""
        return np.random.default_rng(self._sequence(block, _POSITIONS))

    def normals(self, block: int) -> jax.Array:
        """The key (threefry) of the Gaussian noise of one block."""
        words = self._sequence(block, _NORMALS).generate_state(2, np.uint32)
        return jax.random.wrap_key_data(np.asarray(words), impl="threefry2x32")
