"""Exact backward sampling from a table of min-sep sums, event by event, for all samples at once.

An event is either the next participation of a free replica, found by inverting its exact survival function, or the decision at which the
oldest busy replica becomes free. A sample has at most 2αK events, however many decisions there are.
"""

import itertools
from typing import Protocol

import numpy as np

from accountants.tilted.arithmetic import choose, log_of
from accountants.tilted.interactions import Interactions
from search_spaces.recurrences import Recurrence

_NEVER = -1e4
"""Stands for log 0 in running sums of log(1−p): e^−10000 is 0 in float64, and differences of finite numbers stay defined."""

_AGE, _LEFT, _NAME, _USED = range(4)
"""Rows of a walk's replica state: age, participations left, index of the replica, participations so far."""


class EventTable(Protocol):
    """What the sampler needs of a table; see `accountants.tilted.min_sep.MinSepTable`."""

    law: Recurrence
    pairs: Interactions
    stride: int
    alpha: int
    columns: int

    def log_weights(self, later: np.ndarray, lag: np.ndarray) -> np.ndarray:
        """Interactions in decisions."""

    def log_sums(self, t: np.ndarray, ages: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Log sums from states in canonical order."""


def sample_events(table: EventTable, rng: np.random.Generator, size: int) -> np.ndarray:
    """(size, alpha, columns) int64: α-tuples of participation vectors; rows ascending, unused places hold T."""
    law, alpha = table.law, table.alpha
    positions = np.full((size, alpha, table.columns), table.pairs.iterations, dtype=np.int64)
    walk = _Walk(table)
    sample, t = np.arange(size), np.zeros(size, dtype=np.int64)
    replicas = np.zeros((4, alpha, size), dtype=np.int64)
    replicas[_AGE], replicas[_LEFT], replicas[_NAME] = law.after_fire, law.rows * law.counted, np.arange(alpha)[:, None]
    while sample.size:
        t, fired = walk.advance(rng, t, replicas)
        for j in range(alpha):
            rows = np.flatnonzero(fired[j])
            positions[sample[rows], replicas[_NAME, j, rows], replicas[_USED, j, rows]] = table.stride * t[rows]
        t = walk.settle(t, replicas, fired)
        going = t < law.terms
        if law.counted:
            going &= replicas[_LEFT].any(axis=0)
        if not going.all():
            sample, t, replicas = sample[going], t[going], replicas[:, :, going]
        _sort_by_age(replicas)
    return positions


def _sort_by_age(replicas: np.ndarray) -> None:
    """Order the replicas of every sample by descending age, in place."""
    alpha = replicas.shape[1]
    for end in range(alpha - 1, 0, -1):
        for i in range(end):
            younger_first = replicas[_AGE, i] < replicas[_AGE, i + 1]
            replicas[:, i : i + 2] = np.where(younger_first, replicas[:, i : i + 2][:, ::-1], replicas[:, i : i + 2])


class _Walk:
    """Draws events. Arrays are (m,) or (alpha, m), replicas in descending order of age, so that the free ones come first."""

    def __init__(self, table: EventTable) -> None:
        law = table.law
        self._table, self._gap, self._steps = table, law.after_fire, law.terms
        p = np.vstack([np.zeros(law.terms), law.fire_probability]) if law.counted else law.fire_probability
        self._log_fire, self._log_skip = log_of(p), log_of(1.0 - p)
        # Row i is the running sum of log(1−p) with i participations left; the last row is for busy replicas, which decide nothing.
        skipped = np.zeros((len(p) + 1, law.terms + 1))
        np.cumsum(np.maximum(self._log_skip, _NEVER), axis=1, out=skipped[:-1, 1:])
        self._skipped, self._busy_row = skipped.ravel(), len(p)

    def advance(self, rng: np.random.Generator, t: np.ndarray, replicas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Move to the next event: ages in `replicas` grow in place.

        Returns:
          t at the event, and who takes part then, (alpha, m) bool; nobody where the event is a replica becoming free.
        """
        free = replicas[_AGE] == self._gap
        oldest_busy = np.where(free, 0, replicas[_AGE]).max(axis=0)
        horizon = np.minimum(np.where(oldest_busy > 0, self._gap - oldest_busy, self._steps), self._steps - t)
        quiet = self._quiet(rng, t, replicas, free, horizon)
        t = t + quiet
        replicas[_AGE] = np.minimum(replicas[_AGE] + quiet, self._gap)
        happens = quiet < horizon
        fired = np.zeros(free.shape, dtype=bool)
        # A single free replica is the one that takes part.
        fired[0] = happens
        several = np.flatnonzero(happens & free[1])
        if several.size:
            fired[:, several] = self._who(rng, t[several], replicas[:, :, several], free[:, several])
        return t, fired

    def settle(self, t: np.ndarray, replicas: np.ndarray, fired: np.ndarray) -> np.ndarray:
        """The next decision at which a replica is free after `fired` took part at t; `replicas` changes in place."""
        free = replicas[_AGE] == self._gap
        happens = fired.any(axis=0)
        step, ages, left = self._after(replicas[_AGE], replicas[_LEFT], free, fired)
        replicas[_AGE] = np.where(happens, ages, replicas[_AGE])
        replicas[_LEFT], replicas[_USED] = left, replicas[_USED] + fired
        return t + np.where(happens, step, 0)

    def _quiet(self, rng, t, replicas, free, horizon) -> np.ndarray:
        """Decisions without a participation before the next one, (m,); `horizon` where there is none before it."""
        ages, left = replicas[_AGE], replicas[_LEFT]
        base = np.where(free, left, self._busy_row) * (self._steps + 1)
        now = self._skipped[base + t].sum(axis=0) + self._table.log_sums(t, ages, left)
        threshold = now + np.log1p(-rng.random(t.size))
        low, high = np.zeros_like(t), horizon + 1
        for _ in range(int(high.max()).bit_length()):
            # Once low and high are neighbours this finds low again, which survives.
            middle = (low + high) >> 1
            aged = np.minimum(ages + middle, self._gap)
            later = t + middle
            log_survival = self._skipped[base + later].sum(axis=0) + self._table.log_sums(later, aged, left)
            survives = log_survival >= threshold
            low, high = np.where(survives, middle, low), np.where(survives, high, middle)
        return low

    def _who(self, rng, t, replicas, free) -> np.ndarray:
        """(alpha, m) bool: the replicas that take part at t, at least one."""
        sets = np.array(list(itertools.product((False, True), repeat=len(free))))[1:]
        able = free & (replicas[_LEFT] > 0) if self._table.law.counted else free
        possible = (able.T[:, None, :] | ~sets).all(axis=2)
        m, chosen = np.nonzero(possible)
        log_weights = np.full(possible.shape, -np.inf)
        log_weights[m, chosen] = self._log_weight(t[m], replicas[:, :, m], free[:, m], sets[chosen].T)
        return sets[choose(rng, log_weights)].T

    def _log_weight(self, t, replicas, free, fired) -> np.ndarray:
        """Log weight of exactly the free replicas `fired` taking part at t, and of everything after it."""
        ages, left = replicas[_AGE], replicas[_LEFT]
        decisions = np.where(free, np.where(fired, self._log_fire[left, t], self._log_skip[left, t]), 0.0).sum(axis=0)
        number = fired.sum(axis=0)
        busy = np.where(free, 0.0, self._table.log_weights(t, ages)).sum(axis=0)
        together = number * (number - 1) / 2 * self._table.log_weights(t, 0)
        after = replicas.copy()
        step, after[_AGE], after[_LEFT] = self._after(ages, left, free, fired)
        _sort_by_age(after)
        return decisions + number * busy + together + self._table.log_sums(t + step, after[_AGE], after[_LEFT])

    def _after(self, ages, left, free, fired) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Decisions to the next one with a free replica, and ages and participations left then."""
        somebody_waits = (free & ~fired).any(axis=0)
        oldest_busy = np.where(free, 0, ages).max(axis=0)
        step = np.where(somebody_waits, 1, self._gap - oldest_busy)
        after = np.minimum(np.where(fired, 0, ages) + step, self._gap)
        return step, after, left - fired * self._table.law.counted
