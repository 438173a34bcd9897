"""Storage of the min-sep sums: one layer per decision, holding only participation counts that can occur there.

With a separation of `gap` decisions a replica has taken part at most ⌈t/gap⌉ times before decision t, and what it has left must fit into
the rest. That window of counts is far smaller than 0..K for most t, and a table for α replicas shrinks by its α-th power.
"""

import numpy as np

from accountants.tilted.arithmetic import Arithmetic
from search_spaces.recurrences import Recurrence


class Layers:
    """Represented numbers indexed by decision t, state, and participations left of each of alpha replicas.

    Beyond the last decision every number is 1. Numbers outside the window of counts read as some number inside it; they only
    ever meet probabilities of zero.

    Args:
      law: the recurrence; `after_fire` is the separation in decisions.
      states: number of states per decision.
      alpha: replicas.
      arithmetic: representation of the numbers.
    """

    def __init__(self, *, law: Recurrence, states: int, alpha: int, arithmetic: Arithmetic) -> None:
        self.alpha, self.arithmetic = alpha, arithmetic
        self._counted, self._terms, self._states = law.counted, law.terms, states
        self._low, self._size = count_window(law)
        sizes = states * self._size**alpha
        self._offset = np.concatenate([[0], np.cumsum(sizes)])
        self._flat = np.empty(self._offset[-1])
        self._scratch = np.empty(sizes.max())
        changes = np.flatnonzero(np.diff(self._low) | np.diff(self._size)) + 1
        self._starts = np.concatenate([[0], changes, [law.terms]])
        self._views = [
            self._flat[self._offset[start] : self._offset[stop]].reshape(stop - start, states, *[self._size[start]] * alpha)
            for start, stop in zip(self._starts[:-1], self._starts[1:])
        ]

    @property
    def bytes(self) -> int:
        """Memory held."""
        return self._flat.nbytes

    def left(self, t: int) -> np.ndarray:
        """(n,) int64: the participations left that have numbers at decision t."""
        return self._low[t] + np.arange(self._size[t])

    def layer(self, t: int) -> np.ndarray:
        """(states, n, …, n) writable view of decision t."""
        segment = np.searchsorted(self._starts, t, side="right") - 1
        return self._views[segment][t - self._starts[segment]]

    def read(self, t: int, states: np.ndarray, *left: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """(m, n_0, n_1, …): numbers at one decision for the given states and participations left of each replica.

        Written to `out` if given. Reusing memory matters: fresh pages for every layer cost more than the arithmetic.
        """
        return self.read_along(np.full(len(states), t), states, *left, out=out)

    def read_along(self, t: np.ndarray, states: np.ndarray, *left: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """As `read`, with decision t[i] for state states[i]; t must be monotone."""
        out = np.empty((len(states), *map(len, left))) if out is None else out
        segments = np.searchsorted(self._starts, t, side="right") - 1
        edges = np.concatenate([[0], np.flatnonzero(np.diff(segments)) + 1, [len(t)]])
        for first, last in zip(edges[:-1], edges[1:]):
            if first == last:
                continue
            if (segment := segments[first]) == len(self._views):
                out[first:last] = self.arithmetic.one
                continue
            rows = (t[first:last] - self._starts[segment]) * self._states + states[first:last]
            self._select(segment, rows, left, out[first:last])
        return out

    def log_at(self, t: np.ndarray, states: np.ndarray, left: np.ndarray) -> np.ndarray:
        """(m,) logarithms of single numbers; t and states (m,), left (alpha, m)."""
        inside = np.minimum(t, self._terms - 1)
        if self._counted:
            size, low = self._size[inside], self._low[inside]
            for replica_left in left:
                states = states * size + np.minimum(np.maximum(replica_left - low, 0), size - 1)
        values = self.arithmetic.log(self._flat[self._offset[inside] + states])
        return np.where(t < self._terms, values, 0.0)

    def _select(self, segment: int, rows: np.ndarray, left: tuple[np.ndarray, ...], out: np.ndarray) -> None:
        """Copy the given rows of a segment, and of them the wanted participations left, to `out`."""
        low, size = self._low[self._starts[segment]], self._size[self._starts[segment]]
        shape = (len(rows), *[size] * self.alpha)
        stored = self._views[segment].reshape(-1, size**self.alpha)
        gathered = self._scratch[: len(rows) * stored.shape[1]].reshape(len(rows), -1)
        np.take(stored, rows, axis=0, out=gathered, mode="clip")
        picked = gathered.reshape(shape)
        for axis, wanted in enumerate(left if self._counted else (), start=1):
            places = np.clip(wanted - low, 0, size - 1)
            # Consecutive places are a view; only a clipped end needs a copy.
            if places[-1] - places[0] == len(places) - 1:
                picked = picked[(slice(None),) * axis + (slice(places[0], places[-1] + 1),)]
            else:
                picked = np.take(picked, places, axis=axis)
        np.copyto(out, picked)


def count_window(law: Recurrence) -> tuple[np.ndarray, np.ndarray]:
    """Smallest number of participations left and how many numbers from there can occur, both (terms,) int64."""
    if not law.counted:
        return np.zeros(law.terms, dtype=np.int64), np.ones(law.terms, dtype=np.int64)
    t, gap = np.arange(law.terms), law.after_fire
    low = np.maximum(law.rows + (-t // gap), 0)
    high = np.minimum(1 + (law.terms - 1 - t) // gap, law.rows)
    return low, np.maximum(high - low + 1, 1)
