"""Exact backward sampling from a table of min-sep sums, event by event, for all samples at once.

An event is either the next participation of a free replica, found by inverting its exact survival function, or the step at which the
oldest busy replica becomes free. A sample has at most 2αK events, however many steps there are.
"""

from typing import Protocol

import numpy as np

from accountants.tilted.arithmetic import choose, log_of
from accountants.tilted.interactions import Interactions
from search_spaces.recurrences import Recurrence

_NEVER = -1e4
"""Stands for log 0 in running sums of log(1−p): e^−10000 is 0 in float64, and differences of finite numbers stay defined."""


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
    sample = np.arange(size)
    t = np.zeros(size, dtype=np.int64)
    ages = np.full((size, alpha), law.after_fire)
    left = np.full((size, alpha), law.rows if law.counted else 0)
    used = np.zeros((size, alpha), dtype=np.int64)
    while sample.size:
        order = np.argsort(-ages, axis=1, kind="stable")
        ages, left = (np.take_along_axis(array, order, axis=1) for array in (ages, left))
        fired, step = walk.next_event(rng, t, ages, left)
        rows, places = np.nonzero(fired)
        replicas = order[rows, places]
        positions[sample[rows], replicas, used[rows, replicas]] = table.stride * (t[rows] + step.quiet[rows])
        used[rows, replicas] += 1
        t, ages, left = step.t, step.ages, step.left
        inverse = np.argsort(order, axis=1)
        ages, left = (np.take_along_axis(array, inverse, axis=1) for array in (ages, left))
        going = t < law.terms
        if law.counted:
            going &= (left > 0).any(axis=1)
        sample, t, ages, left, used = (array[going] for array in (sample, t, ages, left, used))
    return positions


class _Next:
    """The state after an event; `quiet` is the number of steps before the participation."""

    def __init__(self, *, t: np.ndarray, ages: np.ndarray, left: np.ndarray, quiet: np.ndarray) -> None:
        self.t, self.ages, self.left, self.quiet = t, ages, left, quiet


class _Walk:
    """Draws events; arrays are (m,) or (m, alpha) with replicas in descending order of age, so that the free ones come first."""

    def __init__(self, table: EventTable) -> None:
        law = table.law
        self._table, self._gap, self._steps = table, law.after_fire, law.terms
        p = np.vstack([np.zeros(law.terms), law.fire_probability]) if law.counted else law.fire_probability
        self._log_fire, self._log_skip = log_of(p), log_of(1.0 - p)
        self._skipped = np.zeros((p.shape[0], law.terms + 1))
        np.cumsum(np.maximum(self._log_skip, _NEVER), axis=1, out=self._skipped[:, 1:])

    def next_event(self, rng: np.random.Generator, t: np.ndarray, ages: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, _Next]:
        """Who takes part, (m, alpha) bool (nobody where the event is a replica becoming free), and the state after it."""
        free = ages == self._gap
        oldest_busy = np.where(free, 0, ages).max(axis=1)
        horizon = np.minimum(np.where(oldest_busy > 0, self._gap - oldest_busy, self._steps), self._steps - t)
        quiet = self._quiet_steps(rng, t, ages, left, free, horizon)
        happens = quiet < horizon
        fired = np.zeros(ages.shape, dtype=bool)
        state = t + quiet, np.minimum(ages + quiet[:, None], self._gap), left
        m = np.flatnonzero(happens)
        fired[m] = self._who(rng, *(array[m] for array in state), free[m])
        step, after, less = self._after(state[1], left, free, fired)
        step = np.where(happens, step, 0)
        return fired, _Next(
            t=state[0] + step, left=np.where(happens[:, None], less, left), quiet=quiet,
            ages=np.where(happens[:, None], after, state[1]),
        )

    def _quiet_steps(self, rng, t, ages, left, free, horizon) -> np.ndarray:
        """Steps without a participation before the next one, (m,); `horizon` where there is none before it."""
        log_uniform = np.log1p(-rng.random(t.size)) + self._table.log_sums(t, ages, left)
        low, high = np.zeros_like(t), horizon + 1
        while (searching := np.flatnonzero(high - low > 1)).size:
            middle = (low[searching] + high[searching]) // 2
            later = t[searching] + middle
            skipped = self._skipped[left[searching], later[:, None]] - self._skipped[left[searching], t[searching, None]]
            quiet = np.where(free[searching], skipped, 0.0).sum(axis=1)
            aged = np.minimum(ages[searching] + middle[:, None], self._gap)
            survives = quiet + self._table.log_sums(later, aged, left[searching]) >= log_uniform[searching]
            low[searching] = np.where(survives, middle, low[searching])
            high[searching] = np.where(survives, high[searching], middle)
        return low

    def _who(self, rng, t, ages, left, free) -> np.ndarray:
        """(m, alpha) bool: the replicas that take part at t, at least one."""
        alpha = ages.shape[1]
        sets = np.arange(1, 2**alpha)[:, None] >> np.arange(alpha) & 1 == 1
        log_weights = np.empty((t.size, len(sets)))
        for column, members in enumerate(sets):
            fired = np.broadcast_to(members, ages.shape)
            log_weights[:, column] = self._log_weight(t, ages, left, free, fired)
        return sets[choose(rng, log_weights)] if t.size else np.empty((0, alpha), dtype=bool)

    def _log_weight(self, t, ages, left, free, fired) -> np.ndarray:
        """Log weight of exactly the replicas `fired` taking part at t, and of everything after it."""
        log_p = np.where(fired, self._log_fire[left, t[:, None]], self._log_skip[left, t[:, None]])
        decisions = np.where(free, log_p, np.where(fired, -np.inf, 0.0)).sum(axis=1)
        number = fired.sum(axis=1)
        busy = np.where(free, 0.0, self._table.log_weights(t[:, None], ages)).sum(axis=1)
        together = number * (number - 1) / 2 * self._table.log_weights(t, 0)
        step, after, less = self._after(ages, left, free, fired)
        order = np.argsort(-after, axis=1, kind="stable")
        after, less = (np.take_along_axis(array, order, axis=1) for array in (after, np.maximum(less, 0)))
        return decisions + number * busy + together + self._table.log_sums(t + step, after, less)

    def _after(self, ages, left, free, fired) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps to the next decision, and ages and participations left then."""
        somebody_waits = (free & ~fired).any(axis=1)
        oldest_busy = np.where(free, 0, ages).max(axis=1)
        step = np.where(somebody_waits, 1, self._gap - oldest_busy)
        after = np.minimum(np.where(fired, 0, ages) + step[:, None], self._gap)
        return step, after, left - fired * self._table.law.counted
