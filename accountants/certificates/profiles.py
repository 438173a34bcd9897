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
from accountants.tilted import tilted_log_moment, tilted_remove_bound, tilted_unsupported
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism

_TRIAL_BLOCKS = 8
_TILTS = (2,)
_BIAS_FRACTION = 0.005
"""Share of δ that clipping the add values may hide."""

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
        """N so that `count` such tests guarantee δ; 0 where the deterministic bound is below the threshold already."""
        if self.sampler == "bound":
            return 0
        room = delta * (1 - _BIAS_FRACTION)
        # A fraction of a percent is left for rounding N up to whole blocks at a slightly different σ.
        return samples_needed("tail_sum", delta=room, threshold=threshold, bound=self.bound, candidates=count)

    def test(self, mechanism: Mechanism, *, threshold: float, delta: float, count: int) -> DirectionTest:
        """The test of a mechanism with a σ near `sigma`: its own bound, and as many blocks as that needs."""
        if self.sampler == "bound":
            bound = add_envelope(mechanism, epsilon=self.epsilon).bias(0.0)
            return DirectionTest(direction=self.direction, sampler="bound", threshold=bound, accountant="jensen")
        test = _test_shape(mechanism, self.direction, self.sampler, self.alpha, epsilon=self.epsilon, delta=delta)
        size = block_size(mechanism)
        room = delta * (1 - _BIAS_FRACTION)
        blocks = -(-samples_needed("tail_sum", delta=room, threshold=threshold, bound=test.bound, candidates=count) // size)
        return dataclasses.replace(test, threshold=threshold, blocks=max(blocks, 1), samples=max(blocks, 1) * size)


def profile(
    mechanism: Mechanism, pilot: PilotResult, direction: str, *, epsilon: float, delta: float, seed: int, tilt: bool,
) -> Profile:
    """Measure a direction's test on a few blocks of the pilot's randomness.

    Args:
      mechanism: at the σ to measure at, near the pilot's.
      pilot: gives the slopes.
      tilt: whether "remove" may use the tilted law.
    """
    sampler, alpha = ("tilted", _TILTS[0]) if direction == "remove" and tilt and _tiltable(mechanism, _TILTS[0]) else ("plain", 1)
    slope = min(pilot.slopes[direction], -1.0)
    if direction == "add" and add_envelope(mechanism, epsilon=epsilon).bias(0.0) <= 0.5 * delta:
        return Profile(
            direction=direction, sampler="bound", alpha=1, epsilon=epsilon, sigma=mechanism.sigma, slope=slope, relative_variance=0.0,
            relative_error=0.0, bound=delta, delta=add_envelope(mechanism, epsilon=epsilon).bias(0.0),
        )
    test = _test_shape(mechanism, direction, sampler, alpha, epsilon=epsilon, delta=delta)
    stream = Stream(seed=seed, purpose="pilot", path=(_TRIAL_PATH, DIRECTIONS.index(direction)))
    values = np.concatenate([draw_values(mechanism, test, epsilon, stream, block) for block in range(_TRIAL_BLOCKS)])
    mean, deviation = float(values.mean()), float(values.std())
    # Plain samples may see nothing of a small δ; the pilot's mixture does, at its own σ.
    piloted = pilot.deltas[direction] * math.exp(pilot.slopes[direction] * math.log(mechanism.sigma / pilot.sigma))
    trusted = mean > 0 and mean**2 * values.size >= 20 * deviation**2
    estimate = mean if trusted else max(piloted, np.finfo(float).tiny)
    variance = deviation**2 / mean**2 if trusted else test.bound / estimate
    effective = pilot.effective_samples[direction]
    return Profile(
        direction=direction, sampler=sampler, alpha=alpha, epsilon=epsilon, sigma=mechanism.sigma, slope=slope, bound=test.bound,
        delta=estimate, relative_variance=variance,
        relative_error=math.sqrt(variance / values.size) if trusted else 1 / math.sqrt(max(effective, 1.0)),
    )


def _test_shape(mechanism: Mechanism, direction: str, sampler: str, alpha: int, *, epsilon: float, delta: float) -> DirectionTest:
    """The test of a direction but for threshold and samples, which are placeholders: its sampler, bound, bias and moment."""
    place = dict(direction=direction, sampler=sampler, threshold=np.finfo(float).tiny, blocks=1, samples=block_size(mechanism))
    if direction == "add":
        envelope = add_envelope(mechanism, epsilon=epsilon)
        clip = envelope.clip_for(_BIAS_FRACTION * delta)
        return DirectionTest(**place, bound=clip, bias=envelope.bias(clip))
    if sampler == "plain":
        return DirectionTest(**place)
    log_moment = tilted_log_moment(mechanism, alpha=alpha)
    bound = tilted_remove_bound(mechanism, epsilon=epsilon, alpha=alpha, log_moment=log_moment)
    return DirectionTest(**place, alpha=alpha, log_moment=log_moment, bound=bound)


def _tiltable(mechanism: Mechanism, alpha: int) -> bool:
    return tilted_unsupported(mechanism, alpha=alpha) is None
