"""Profiles: what is known, before certifying, of one direction's test near the σ to be certified."""

import dataclasses
import math

import numpy as np

from accountants.certificates.records import DirectionTest
from accountants.certificates.sampling import block_size, draw_values
from accountants.estimators import add_envelope
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.pilot import PilotResult
from accountants.monte_carlo.streams import Stream
from accountants.tail_sum import samples_needed
from accountants.tilted import best_add_shift, tilted_cost, tilted_log_moment, tilted_remove_bound, tilted_unsupported
from search_spaces.mechanism import Mechanism

_TRIAL_BLOCKS = 32
_BIAS_FRACTION = 0.005
"""Share of δ that clipping the add values may hide."""

_BOUND_FRACTION = 0.5
"""A deterministic add bound below this share of δ settles the direction without samples."""

_TILTS = (2, 3)
_PRODUCTS_PER_SECOND = 2.5e7
_TABLES = 3
"""Tables that are built: one to plan, and about one for each of two workers."""

_TILTED_SAMPLES_PER_SECOND = 5e3
_TYPICAL_FRACTION = 0.9

_TRIAL_PATH = 1 << 20
"""Path of the trial streams, apart from the pilot's own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """One direction's test near σ.

    Attributes:
      direction, sampler, alpha: which test.
      epsilon: ε.
      sigma: where it was measured.
      delta: estimate of δ there.
      slope: d log δ / d log σ, < 0.
      relative_variance: Var X / δ² of one value.
      relative_error: standard error of `delta`, relative.
      bound: B there.
    """

    direction: str
    sampler: str
    alpha: int
    epsilon: float
    sigma: float
    delta: float
    slope: float
    relative_variance: float
    relative_error: float
    bound: float

    def samples_needed(self, *, threshold: float, delta: float, count: int) -> int:
        """N so that `count` such tests guarantee δ; 0 where nothing needs to be drawn."""
        if self.sampler == "bound":
            return 0
        room = delta * (1 - _BIAS_FRACTION)
        return samples_needed("tail_sum", delta=room, threshold=threshold, bound=self.bound, candidates=count)

    def test(self, mechanism: Mechanism, *, threshold: float, delta: float, count: int) -> DirectionTest:
        """The test of a mechanism with a σ near `sigma`: its own bound, and as many blocks as that needs."""
        if self.sampler == "bound":
            bound = add_envelope(mechanism, epsilon=self.epsilon).bias(0.0)
            return DirectionTest(direction=self.direction, sampler="bound", threshold=bound, accountant="jensen")
        shape = _shape(mechanism, self.direction, self.sampler, self.alpha, epsilon=self.epsilon, delta=delta)
        size = block_size(mechanism)
        needed = dataclasses.replace(self, bound=shape.bound).samples_needed(threshold=threshold, delta=delta, count=count)
        blocks = max(1, -(-needed // size))
        return dataclasses.replace(shape, threshold=threshold, blocks=blocks, samples=blocks * size)


def profile(
    mechanism: Mechanism, pilot: PilotResult, direction: str, *, epsilon: float, delta: float, seed: int, tilt: bool,
) -> Profile:
    """Measure a direction's test on a few blocks of the pilot's randomness.

    Args:
      mechanism: at the σ to measure at, near the pilot's.
      pilot: gives the slopes.
      tilt: whether tilted and shifted laws may be used.
    """
    slope = min(pilot.slopes[direction], -1.0)
    common = dict(direction=direction, epsilon=epsilon, sigma=mechanism.sigma, slope=slope)
    if direction == "add":
        bound = add_envelope(mechanism, epsilon=epsilon).bias(0.0)
        if bound <= _BOUND_FRACTION * delta:
            return Profile(**common, sampler="bound", alpha=1, delta=bound, relative_variance=0.0, relative_error=0.0, bound=bound)
        return _measured(common, "shifted" if tilt and mechanism.scheme.fixed_participations else "plain", 1, mechanism, pilot, delta, seed)
    best = None
    for alpha in _TILTS if tilt else ():
        if tilted_unsupported(mechanism, alpha=alpha) is not None:
            continue
        # A table is built only where it costs less than all that the best choice so far would.
        if best is None or _TABLES * _table_seconds(mechanism, alpha) < _predicted_seconds(best, mechanism, delta):
            one = _measured(common, "tilted", alpha, mechanism, pilot, delta, seed)
            best = one if best is None else min(best, one, key=lambda each: _predicted_seconds(each, mechanism, delta))
    return best or _measured(common, "plain", 1, mechanism, pilot, delta, seed)


def _measured(
    common: dict[str, object], sampler: str, alpha: int, mechanism: Mechanism, pilot: PilotResult, delta: float, seed: int,
) -> Profile:
    direction, epsilon = common["direction"], common["epsilon"]
    shape = _shape(mechanism, direction, sampler, alpha, epsilon=epsilon, delta=delta)
    stream = Stream(seed=seed, purpose="pilot", path=(_TRIAL_PATH, DIRECTIONS.index(direction)))
    values = np.concatenate([draw_values(mechanism, shape, epsilon, stream, block) for block in range(_TRIAL_BLOCKS)])
    mean, deviation = float(values.mean()), float(values.std())
    # Plain samples may see nothing of a small δ; the pilot's mixture does, at its own σ.
    if mean > 0 and mean**2 * values.size >= 20 * deviation**2:
        estimate, variance = mean, (deviation / mean) ** 2
        error = math.sqrt(variance / values.size)
    else:
        piloted = pilot.deltas[direction] * math.exp(pilot.slopes[direction] * math.log(mechanism.sigma / pilot.sigma))
        estimate = max(piloted, np.finfo(float).tiny)
        variance, error = shape.bound / estimate, 1 / math.sqrt(max(pilot.effective_samples[direction], 1.0))
    return Profile(
        **common, sampler=sampler, alpha=alpha, bound=shape.bound, delta=estimate, relative_variance=variance, relative_error=error,
    )


def _shape(mechanism: Mechanism, direction: str, sampler: str, alpha: int, *, epsilon: float, delta: float) -> DirectionTest:
    """The test of a direction but for threshold and samples, which are placeholders: its law, bound, bias and moment."""
    place = dict(
        direction=direction, sampler=sampler, threshold=np.finfo(float).tiny, blocks=1, samples=block_size(mechanism), alpha=alpha,
    )
    if sampler == "tilted":
        log_moment = tilted_log_moment(mechanism, alpha=alpha)
        bound = tilted_remove_bound(mechanism, epsilon=epsilon, alpha=alpha, log_moment=log_moment)
        return DirectionTest(**place, log_moment=log_moment, bound=bound)
    if direction == "remove":
        return DirectionTest(**place)
    envelope = add_envelope(mechanism, epsilon=epsilon)
    if sampler == "shifted":
        best = best_add_shift(envelope)
        return DirectionTest(**place, shift=best.shift, bound=best.bound)
    clip = envelope.clip_for(_BIAS_FRACTION * delta)
    return DirectionTest(**place, bound=clip, bias=envelope.bias(clip))


def _table_seconds(mechanism: Mechanism, alpha: int) -> float:
    return tilted_cost(mechanism, alpha=alpha).operations / _PRODUCTS_PER_SECOND


def _predicted_seconds(one: Profile, mechanism: Mechanism, delta: float) -> float:
    samples = one.samples_needed(threshold=_TYPICAL_FRACTION * delta, delta=delta, count=1)
    return samples / _TILTED_SAMPLES_PER_SECOND + _TABLES * _table_seconds(mechanism, one.alpha)
