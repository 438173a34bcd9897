"""Profiles: what is known, before certifying, of one direction's test near the σ to be certified."""

import dataclasses
import math

import numpy as np

from accountants.certificates.records import DirectionTest
from accountants.certificates.sampling import block_size, draw_values, forget_table, table_moment
from accountants.estimators import add_envelope
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.pilot import PilotResult
from accountants.monte_carlo.streams import Stream
from accountants.tail_sum import samples_needed
from accountants.tilted import (
    MEMORY_LIMIT,
    best_add_shift,
    tilted_cost,
    tilted_remove_bound,
    tilted_unsupported,
)
from search_spaces.mechanism import Mechanism

_TRIAL_SAMPLES = 16_384
_MOST_TRIAL_SAMPLES = 131_072
_TRIAL_ERROR = 0.02
"""Relative standard error at which a trial may end: σ is placed three of them above where the estimate puts it, 0.2 % at slopes of −33."""

_TRIAL_SHARE = 0.5
"""A trial takes no more than this share of the samples of the test it prepares."""

BIAS_FRACTION = 0.005
"""Share of δ that clipping the add values may hide."""

_BOUND_FRACTION = 0.5
"""A deterministic add bound below this share of δ settles the direction without samples."""

_BOUND_SIGMA = 0.98
"""It is taken at this fraction of the σ to measure at, so that it need not keep the candidates' σ from being smaller."""

_TILTS = (2, 3)
_PRODUCTS_PER_SECOND = 6e7
_TABLES = 3
"""Tables that are built: one to plan, and about one for each of two workers."""

_TILTED_SAMPLES_PER_SECOND = 5e3
_TYPICAL_FRACTION = 0.9

_TRIAL_PATH = 1 << 20
"""Path of the trial streams, apart from the pilot's own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """One direction's test of a mechanism, before its threshold is chosen.

    Attributes:
      mechanism: scheme, strategy and σ.
      epsilon: ε.
      shape: the test's law and bound; threshold and samples are placeholders. For `bound` the threshold is the bound on δ.
      delta: estimate of δ, or the bound on it.
      slope: d log δ / d log σ, < 0.
      relative_variance: Var X / δ² of one value.
      relative_error: standard error of `delta`, relative.
    """

    mechanism: Mechanism
    epsilon: float
    shape: DirectionTest
    delta: float
    slope: float
    relative_variance: float = 0.0
    relative_error: float = 0.0

    @property
    def direction(self) -> str:
        """`remove` or `add`."""
        return self.shape.direction

    @property
    def sampler(self) -> str:
        """How values are drawn."""
        return self.shape.sampler

    @property
    def bound(self) -> float:
        """B."""
        return self.shape.bound

    def at(self, mechanism: Mechanism, *, delta: float) -> "Profile":
        """The same kind of test for another σ nearby, with its own law and bound; estimates are kept."""
        shape = _shape(mechanism, self.direction, self.sampler, self.shape.alpha, epsilon=self.epsilon, delta=delta)
        # Workers build tables of their own.
        forget_table()
        return dataclasses.replace(self, mechanism=mechanism, shape=shape)

    def test(self, *, threshold: float, samples: int) -> DirectionTest:
        """The test with its threshold and at least so many samples, in whole blocks."""
        if self.sampler == "bound":
            return self.shape
        size = block_size(self.mechanism)
        blocks = max(1, -(-samples // size))
        return dataclasses.replace(self.shape, threshold=threshold, blocks=blocks, samples=blocks * size)


def profile(
    mechanism: Mechanism, pilot: PilotResult, direction: str, *, epsilon: float, delta: float, seed: int, tilt: bool,
    memory_limit: int = MEMORY_LIMIT,
) -> Profile:
    """Measure a direction's test on a few blocks of the pilot's randomness.

    Args:
      mechanism: at the σ to measure at, near the pilot's.
      pilot: gives the slopes.
      epsilon, delta: the target.
      seed: of the pilot's streams.
      tilt: whether tilted and shifted laws may be used.
      memory_limit: bytes a tilted law's table may hold, at most `LARGEST_MEMORY`.
    """
    shape = lambda sampler, alpha=1: _shape(mechanism, direction, sampler, alpha, epsilon=epsilon, delta=delta)
    measure = lambda one: _measured(mechanism, one, pilot, epsilon=epsilon, delta=delta, seed=seed)
    if direction == "add":
        lower = mechanism.with_sigma(_BOUND_SIGMA * mechanism.sigma)
        bound = _shape(lower, direction, "bound", 1, epsilon=epsilon, delta=delta)
        if bound.threshold <= _BOUND_FRACTION * delta:
            return Profile(mechanism=lower, epsilon=epsilon, shape=bound, delta=bound.threshold, slope=slope(pilot, direction))
        samplers = ("shifted", "plain") if tilt and mechanism.scheme.fixed_participations else ("plain",)
        return measure(min(map(shape, samplers), key=lambda one: one.bound))
    best = None
    for alpha in _TILTS if tilt else ():
        if tilted_unsupported(mechanism, alpha=alpha, memory_limit=memory_limit) is not None:
            continue
        # A table is built only where it costs less than all that the best choice so far would.
        if best is None or _TABLES * _table_seconds(mechanism, alpha) < _predicted_seconds(mechanism, best, delta):
            one = shape("tilted", alpha)
            best = one if best is None else min(best, one, key=lambda each: _predicted_seconds(mechanism, each, delta))
    return measure(best or shape("plain"))


def needs_memory(mechanism: Mechanism, *, more_than: int, at_most: int) -> bool:
    """Whether a tilted law that may be used has a table of more than one and at most the other number of bytes."""
    unsupported = lambda alpha, limit: tilted_unsupported(mechanism, alpha=alpha, memory_limit=limit) is not None
    return any(unsupported(alpha, more_than) and not unsupported(alpha, at_most) for alpha in _TILTS)


def _measured(mechanism: Mechanism, shape: DirectionTest, pilot: PilotResult, *, epsilon: float, delta: float, seed: int) -> Profile:
    direction = shape.direction
    stream = Stream(seed=seed, purpose="pilot", path=(_TRIAL_PATH, DIRECTIONS.index(direction)))
    draw = lambda blocks: np.concatenate([draw_values(mechanism, shape, epsilon, stream, block) for block in blocks])
    blocks = -(-_TRIAL_SAMPLES // block_size(mechanism))
    values = draw(range(blocks))
    mean, deviation = float(values.mean()), float(values.std())
    # Plain samples may see nothing of a small δ; the pilot's mixture does, at its own σ.
    if mean > 0 and mean**2 * values.size >= 20 * deviation**2:
        wanted = min((deviation / mean / _TRIAL_ERROR) ** 2, _MOST_TRIAL_SAMPLES, _TRIAL_SHARE * _typical_samples(shape, delta))
        if more := range(blocks, math.ceil(wanted / block_size(mechanism))):
            values = np.concatenate([values, draw(more)])
            mean, deviation = float(values.mean()), float(values.std())
        estimate, variance = mean, (deviation / mean) ** 2
        error = math.sqrt(variance / values.size)
    else:
        piloted = pilot.deltas[direction] * math.exp(pilot.slopes[direction] * math.log(mechanism.sigma / pilot.sigma))
        estimate = max(piloted, np.finfo(float).tiny)
        variance, error = shape.bound / estimate, 1 / math.sqrt(max(pilot.effective_samples[direction], 1.0))
    # The candidates have other σ, and workers build tables of their own.
    forget_table()
    return Profile(
        mechanism=mechanism, epsilon=epsilon, shape=shape, delta=estimate, slope=slope(pilot, direction),
        relative_variance=variance, relative_error=error,
    )


def slope(pilot: PilotResult, direction: str) -> float:
    """d log δ / d log σ at the pilot's σ; where an estimate is so noisy that it is flat, or rises, a slope as small as any."""
    return min(pilot.slopes[direction], -1.0)


def _shape(mechanism: Mechanism, direction: str, sampler: str, alpha: int, *, epsilon: float, delta: float) -> DirectionTest:
    """A test but for its threshold and samples: its law, bound, bias and moment."""
    if sampler == "bound":
        bound = add_envelope(mechanism, epsilon=epsilon).bias(0.0)
        return DirectionTest(direction=direction, sampler="bound", threshold=bound, accountant="jensen")
    place = dict(
        direction=direction, sampler=sampler, threshold=np.finfo(float).tiny, blocks=1, samples=block_size(mechanism), alpha=alpha,
    )
    if sampler == "tilted":
        log_moment = table_moment(mechanism, alpha)
        bound = tilted_remove_bound(mechanism, epsilon=epsilon, alpha=alpha, log_moment=log_moment)
        return DirectionTest(**place, log_moment=log_moment, bound=bound)
    if direction == "remove":
        return DirectionTest(**place)
    envelope = add_envelope(mechanism, epsilon=epsilon)
    if sampler == "shifted":
        best = best_add_shift(envelope)
        return DirectionTest(**place, shift=best.shift, bound=best.bound)
    clip = envelope.clip_for(BIAS_FRACTION * delta)
    return DirectionTest(**place, bound=clip, bias=envelope.bias(clip))


def _table_seconds(mechanism: Mechanism, alpha: int) -> float:
    return tilted_cost(mechanism, alpha=alpha).operations / _PRODUCTS_PER_SECOND


def _predicted_seconds(mechanism: Mechanism, shape: DirectionTest, delta: float) -> float:
    return _typical_samples(shape, delta) / _TILTED_SAMPLES_PER_SECOND + _TABLES * _table_seconds(mechanism, shape.alpha)


def _typical_samples(shape: DirectionTest, delta: float) -> int:
    return samples_needed("tail_sum", delta=delta, threshold=_TYPICAL_FRACTION * delta, bound=shape.bound)
