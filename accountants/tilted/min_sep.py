"""Replica program of the schemes in which all replicas share one clock: min-sep RA and Poisson, RA, Poisson and the cyclic schemes.

A replica is busy for b−1 decisions after taking part. While all are busy nothing is decided, so the program only visits decisions at which
at least one replica is free. The state is the number of participations left of every replica and the age of every replica but one that is
free: the decisions since it last took part, 1..b−1, or b for free (math/certificates.md, section 2, "min-sep RA"). Schemes without a
separation have b = 1 here: everybody is always free. In the cyclic schemes a decision is a block of steps.
"""

import dataclasses
import math

import numpy as np

from accountants.tilted.arithmetic import Arithmetic, log_of
from accountants.tilted.cost import Cost
from accountants.tilted.event_sampler import sample_events
from accountants.tilted.interactions import Interactions
from accountants.tilted.layers import Layers, count_window
from search_spaces.recurrences import Recurrence
from search_spaces.schemes import BatchScheme


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MinSepTable:
    """Sums of the replica program from every state to the end.

    Attributes:
      law: the recurrence per decision: after_skip == 1, after_fire == b.
      stride: steps per decision.
      pairs: interactions, in steps.
      columns: places per replica in a sample.
      layers: the sums. For two replicas state a−1 is the other's age a; for three it is `pair_index` of the other ages a_1 >= a_2.
        Count axes: the free replica's participations left first, then in the order of the ages.
    """

    law: Recurrence
    stride: int
    pairs: Interactions
    columns: int
    layers: Layers

    @property
    def alpha(self) -> int:
        """Replicas."""
        return self.layers.alpha

    @property
    def log_moment(self) -> float:
        """log Z_α."""
        start = np.zeros(1, dtype=np.int64)
        free, left = (np.full((self.alpha, 1), value) for value in (self.law.after_fire, self.law.rows))
        return float(self.log_sums(start, free, left)[0])

    @property
    def bytes(self) -> int:
        """Memory of the table."""
        return self.layers.bytes

    def log_weights(self, later: np.ndarray, lag: np.ndarray) -> np.ndarray:
        """Interactions in decisions."""
        return self.pairs.log_weights(later * self.stride, lag * self.stride)

    def log_sums(self, t: np.ndarray, ages: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Log sums from states with ages in descending order and at least one free replica.

        Args:
          t: (m,) int64 decisions; 1 (log 0) beyond the last.
          ages: (alpha, m) int64, descending columns that start with b.
          left: (alpha, m) int64 in the same order.

        Returns:
          (m,) float64.
        """
        states = ages[1] - 1 if self.alpha == 2 else pair_index(ages[1], ages[2])
        return self.layers.log_at(t, states, left)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """(size, alpha, columns) int64 from the tilted law; rows ascending, unused places hold T."""
        return sample_events(self, rng, size)


def pair_index(older: np.ndarray, younger: np.ndarray) -> np.ndarray:
    """Index of the ages older >= younger >= 1 in a packed triangle."""
    return older * (older - 1) // 2 + younger - 1


def decision_law(scheme: BatchScheme) -> tuple[Recurrence, int]:
    """The scheme's recurrence per decision, and the steps per decision; for schemes with one start."""
    law = scheme.recurrence()
    if law.after_skip == 1:
        return law, 1
    # All decisions are `after_skip` steps apart, whether or not the example takes part.
    return dataclasses.replace(law, fire_probability=law.fire_probability[:, :: law.after_skip], after_fire=1, after_skip=1), law.after_skip


def min_sep_cost(scheme: BatchScheme, alpha: int) -> Cost:
    """Products formed and bytes held by `min_sep_table`."""
    law, _ = decision_law(scheme)
    sizes = _states(law.after_fire, alpha) * count_window(law)[1] ** alpha
    total = int(sizes.sum())
    # The table and six temporaries of its largest layer.
    return Cost(operations=2 * total, bytes=8 * (total + 6 * int(sizes.max())))


def min_sep_table(scheme: BatchScheme, pairs: Interactions, *, alpha: int, arithmetic: Arithmetic) -> MinSepTable:
    """Run the program from the last decision to the first, for alpha = 2 or 3 replicas."""
    law, stride = decision_law(scheme)
    layers = Layers(law=law, states=_states(law.after_fire, alpha), alpha=alpha, arithmetic=arithmetic)
    table = MinSepTable(law=law, stride=stride, pairs=pairs, columns=scheme.max_participations, layers=layers)
    decide = _TwoReplicas(law.after_fire) if alpha == 2 else _ThreeReplicas(law.after_fire)
    whole = arithmetic.lift(table.log_weights(0, np.arange(law.after_fire)))
    for t in reversed(range(law.terms)):
        cut = t * stride + pairs.overlaps.shape[0] > pairs.iterations
        weights = arithmetic.lift(table.log_weights(t, np.arange(law.after_fire))) if cut else whole
        decide(layers, _Decision(law=law, t=t, layers=layers, weights=weights))
    return table


def _states(gap: int, alpha: int) -> int:
    return gap if alpha == 2 else gap * (gap + 1) // 2


class _Decision:
    """What is known at one decision, represented and shaped for broadcasting over (states, n, …, n).

    Attributes:
      t: the decision.
      here: (n,) participations left before it.
      less: (n,) the same after taking part.
      skip, fire: per replica, the probabilities of not taking part and of taking part.
      weights: (b,) weights of taking part together with a replica of age 0..b−1.
    """

    def __init__(self, *, law: Recurrence, t: int, layers: Layers, weights: np.ndarray) -> None:
        self.t, self.weights, self.here = t, weights, layers.left(t)
        self.less = self.here - law.counted
        p = law.fire_probability[:, t]
        if law.counted:
            p = np.where(self.here > 0, p[np.maximum(self.here - 1, 0)], 0.0)
        shapes = [[1] + [-1 if axis == replica else 1 for axis in range(layers.alpha)] for replica in range(layers.alpha)]
        fire, skip = (layers.arithmetic.lift(log_of(q)) for q in (p, 1.0 - p))
        self.fire, self.skip = [fire.reshape(shape) for shape in shapes], [skip.reshape(shape) for shape in shapes]


class _TwoReplicas:
    """Fills one layer for two replicas; state a−1 is the age a of the one that need not be free."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.busy = np.arange(1, gap)
        self.wait = gap - self.busy

    def __call__(self, layers: Layers, now: _Decision) -> None:
        times, plus, layer = layers.arithmetic.times, layers.arithmetic.plus, layers.layer(now.t)
        t, gap, here, less, skip, fire = now.t, self.gap, now.here, now.less, now.skip, now.fire
        # The busy replica is free after `wait` decisions, when the age of the other one is `wait`.
        freed = layers.read_along(t + self.wait, self.wait - 1, here, less).transpose(0, 2, 1)
        fires = times(times(fire[0], now.weights[self.busy, None, None]), freed)
        layer[:-1] = plus(times(skip[0], layers.read(t + 1, self.busy, here, here)), fires)
        free, young, both = np.array([gap - 1]), np.array([0]), times(fire[0], fire[1])
        total = times(times(skip[0], skip[1]), layers.read(t + 1, free, here, here))
        total = plus(total, times(times(fire[0], skip[1]), layers.read(t + 1, young, here, less).transpose(0, 2, 1)))
        total = plus(total, times(times(skip[0], fire[1]), layers.read(t + 1, young, here, less)))
        layer[-1:] = plus(total, times(both, times(now.weights[0], layers.read(t + gap, free, less, less))))


class _ThreeReplicas:
    """Fills one layer for three replicas; states are pairs of ages of the two that need not be free."""

    def __init__(self, gap: int) -> None:
        self.gap, self._memory = gap, np.empty(0)
        older, younger = np.tril_indices(gap - 1)
        self.older, self.younger = older + 1, younger + 1
        self.aged = pair_index(self.older + 1, self.younger + 1)
        self.wait = gap - self.older
        self.freed = pair_index(self.younger + self.wait, self.wait)
        self.busy = np.arange(1, gap)
        self.busy_aged, self.busy_fired = pair_index(gap, self.busy + 1), pair_index(self.busy + 1, 1)
        self.both_fired = pair_index(gap - self.busy, gap - self.busy)
        self.free, self.free_young, self.young = (
            np.array([pair_index(*ages)]) for ages in ((gap, gap), (gap, 1), (1, 1))
        )

    def __call__(self, layers: Layers, now: _Decision) -> None:
        layer, two_busy, one_busy = layers.layer(now.t), self.older.size, self.older.size + self.busy.size
        self._two_busy(layers, now, layer[:two_busy])
        layer[two_busy:one_busy] = self._one_busy(layers, now)
        layer[one_busy:] = self._none_busy(layers, now)

    def _two_busy(self, layers: Layers, now: _Decision, out: np.ndarray) -> None:
        times, rows = layers.arithmetic.times, len(out)
        width = math.prod(out.shape[1:])
        flat = lambda values: np.broadcast_to(values, (1, *out.shape[1:])).reshape(1, width)
        # Nearly all the time is spent here: long rows and one transposed operand keep NumPy's inner loops long.
        layers.read(now.t + 1, self.aged, now.here, now.here, now.here, out=out)
        times(out.reshape(rows, width), flat(now.skip[0]), out=out.reshape(rows, width))
        # The older replica becomes the free one: stored count axes are (older, younger, the one that fired).
        freed = self._work(out.shape)
        layers.read_along(now.t + self.wait, self.freed, now.here, now.here, now.less, out=freed)
        weights = times(now.weights[self.older], now.weights[self.younger])[:, None]
        times(freed.reshape(rows, width), flat(now.fire[2]), out=freed.reshape(rows, width))
        times(freed.reshape(rows, width), weights, out=freed.reshape(rows, width))
        layers.arithmetic.plus(out, freed.transpose(0, 3, 1, 2), out=out)

    def _work(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of this shape in memory that is kept between decisions."""
        size = math.prod(shape)
        if self._memory.size < size:
            self._memory = np.empty(size)
        return self._memory[:size].reshape(shape)

    def _one_busy(self, layers: Layers, now: _Decision) -> np.ndarray:
        times, plus, skip, fire = layers.arithmetic.times, layers.arithmetic.plus, now.skip, now.fire
        weights = now.weights[self.busy][:, None, None, None]
        fired = layers.read(now.t + 1, self.busy_fired, now.here, now.here, now.less)
        total = times(times(skip[0], skip[1]), layers.read(now.t + 1, self.busy_aged, now.here, now.here, now.here))
        total = plus(total, times(times(times(fire[0], skip[1]), weights), fired.transpose(0, 3, 1, 2)))
        total = plus(total, times(times(times(skip[0], fire[1]), weights), fired.transpose(0, 1, 3, 2)))
        both = layers.read_along(now.t + self.gap - self.busy, self.both_fired, now.here, now.less, now.less).transpose(0, 2, 3, 1)
        weights = times(times(weights, weights), now.weights[0])
        return plus(total, times(times(times(fire[0], fire[1]), weights), both))

    def _none_busy(self, layers: Layers, now: _Decision) -> np.ndarray:
        times, plus, skip, fire = layers.arithmetic.times, layers.arithmetic.plus, now.skip, now.fire
        here, less, pair = now.here, now.less, now.weights[0]
        one = layers.read(now.t + 1, self.free_young, here, here, less)
        two = layers.read(now.t + 1, self.young, here, less, less)
        total = times(times(skip[0], skip[1]), times(skip[2], layers.read(now.t + 1, self.free, here, here, here)))
        for j, (a, b) in enumerate(((1, 2), (0, 2), (0, 1))):
            # Only j takes part: stored count axes are (a, b, j). All but j do: (j, a, b).
            total = plus(total, times(times(skip[a], skip[b]), times(fire[j], _as_replicas(one, a, b, j))))
            total = plus(total, times(times(fire[a], fire[b]), times(skip[j], times(pair, _as_replicas(two, j, a, b)))))
        everybody = times(times(pair, pair), times(pair, layers.read(now.t + self.gap, self.free, less, less, less)))
        return plus(total, times(times(fire[0], fire[1]), times(fire[2], everybody)))


def _as_replicas(values: np.ndarray, *replicas: int) -> np.ndarray:
    """`values` with the count axes, stored for the given replicas in this order, moved to the replicas' own places."""
    return values.transpose(0, *(1 + np.argsort(replicas)))
