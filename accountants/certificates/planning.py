"""Planning a certificate: candidates, thresholds and numbers of samples, from pilot estimates on random numbers of their own.

A plan only decides how good the certified σ will be and how likely it is to pass; whether the guarantee holds never depends on what
happens here, because `conclusion.guaranteed_delta` is computed from the plan alone.
"""

import dataclasses
import math
from collections.abc import Sequence

from accountants.certificates.profiles import BIAS_FRACTION, Profile, needs_memory, profile, slope
from accountants.certificates.records import Candidate, DirectionTest, Plan
from accountants.certificates.sampling import block_size
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_mu
from accountants.monte_carlo.pilot import PilotResult
from accountants.tail_sum import samples_for_slack, samples_needed
from accountants.tilted import LARGEST_MEMORY, MEMORY_LIMIT
from search_spaces import checks
from search_spaces.errors import CalibrationError
from search_spaces.mechanism import Mechanism

_FRACTIONS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97)
"""Thresholds that are tried, as fractions of δ."""

_STANDARD_ERRORS = 3.0
"""A candidate's σ is chosen so that its test passes unless the estimates err by this many standard errors."""

_SIGMA_TOLERANCE = 0.001
"""Fewer samples are preferred where they cost less than this in σ."""

_FIRST_SHARE = 0.8
"""Share of the slack that the first candidate has; samples go with the inverse square of a share."""

_SAFER_FRACTION = 0.7
"""Thresholds of the other candidates, relative to the first's: far enough below that they need little slack."""

_WANTED_LOSS = 0.01
"""Larger tables are tried where the first candidate's σ would lie this much above the smallest that meets the target."""

_LARGEST_OF_BOUND = 0.999
"""No threshold is more than this share of B, below which almost any mean of values in [0, B] lies."""

_STEP = 1.01
_TINY = 1e-300
_PUBLISHED_FRACTION = 0.5
_PUBLISHED_STEP = 1.01
_PUBLISHED_CANDIDATES = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """A scheme and strategy worth certifying.

    Attributes:
      mechanism: scheme and strategy, at the pilot's σ.
      pilot: the pilot's result.
    """

    mechanism: Mechanism
    pilot: PilotResult


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Option:
    """One way to test a direction: threshold, samples, and the σ that would then pass."""

    threshold: float
    samples: int
    sigma: float


def plan_tail_sum(
    choices: Sequence[Choice], *, epsilon: float, delta: float, seed: int, max_samples: int, tilt: bool,
) -> Plan:
    """A fixed list in ascending RMSE: the first choice at the smallest σ that should pass, every choice (the first again) at a safer σ with a
    lower threshold, and the unamplified Gaussian σ as last resort.

    Tilted laws have tables of at most `MEMORY_LIMIT` bytes; where no test is then possible, or only one well above the smallest σ, of at
    most `LARGEST_MEMORY`.

    Args:
      choices: best first, at least one.
      epsilon, delta: the target.
      seed: of the streams.
      max_samples: the most one test may draw.
      tilt: whether tilted and shifted laws may be sampled.

    Raises:
      CalibrationError: no test within `max_samples` can certify the target.
    """
    checks.integer(max_samples=max_samples)
    settings = dict(epsilon=epsilon, delta=delta, seed=seed, max_samples=max_samples, tilt=tilt)
    try:
        plan, loss = _plan(choices, **settings, memory_limit=MEMORY_LIMIT)
    except CalibrationError:
        if not tilt:
            raise
        return _plan(choices, **settings, memory_limit=LARGEST_MEMORY)[0]
    if tilt and loss > _WANTED_LOSS and needs_memory(choices[0].mechanism, more_than=MEMORY_LIMIT, at_most=LARGEST_MEMORY):
        larger, _ = _plan(choices, **settings, memory_limit=LARGEST_MEMORY)
        return min(plan, larger, key=lambda one: (one.candidates or (one.fallback,))[0].mechanism.rmse)
    return plan


def _plan(
    choices: Sequence[Choice], *, epsilon: float, delta: float, seed: int, max_samples: int, tilt: bool, memory_limit: int,
) -> tuple[Plan, float]:
    """A plan, and how far its first candidate's σ is above the smallest that is estimated to meet the target, relatively."""
    measured = [
        _measure(choice, epsilon=epsilon, delta=delta, seed=seed, tilt=tilt, memory_limit=memory_limit) for choice in choices
    ]
    deterministic = tuple(
        max((one[index].delta for one in measured if one[index].sampler == "bound"), default=0.0) for index in range(len(DIRECTIONS))
    )
    thresholds = _thresholds(measured[0], deterministic, delta, max_samples)
    room = _Room(delta=delta, thresholds=thresholds, deterministic=deterministic)
    candidates = _candidate(measured[0], room, max_samples, fraction=1.0, share=_FIRST_SHARE)
    smallest = max(_sigma_at(one, delta) for one in measured[0] if one.sampler != "bound")
    loss = candidates[0].mechanism.sigma / smallest - 1 if candidates else math.inf
    for one in measured:
        candidates += _candidate(one, room, max_samples, fraction=_SAFER_FRACTION, share=(1 - _FIRST_SHARE) / len(measured))
    candidates.sort(key=lambda candidate: candidate.mechanism.rmse)
    plan = Plan(method="tail_sum", epsilon=epsilon, delta=delta, seed=seed, candidates=tuple(candidates))
    return dataclasses.replace(plan, fallback=unamplified(choices[0].mechanism, epsilon=epsilon, delta=min(
        max(room.base(index), _TINY) for index in range(len(DIRECTIONS))
    ))), loss


def plan_published(choice: Choice, *, epsilon: float, delta: float, seed: int, max_samples: int) -> Plan:
    """The published procedure: σ descends by a factor of 1.01 from the first that should pass, base threshold δ/2, plain samples.

    Raises:
      CalibrationError: it needs more than `max_samples` per candidate and direction.
    """
    threshold = _PUBLISHED_FRACTION * delta
    size = block_size(choice.mechanism)
    blocks = -(-samples_needed("published", delta=delta, threshold=threshold) // size)
    if blocks * size > max_samples:
        raise CalibrationError(
            f"The published certificate at delta={delta:g} draws {blocks * size} samples per candidate and direction, more than the "
            f"{max_samples} allowed; allow more or use the tail_sum certificate."
        )
    start = _published_start(choice.pilot, threshold, blocks * size)
    candidates = tuple(
        Candidate(
            mechanism=choice.mechanism.with_sigma(start / _PUBLISHED_STEP**step),
            tests=tuple(
                DirectionTest(direction=direction, sampler="plain", threshold=threshold, blocks=blocks, samples=blocks * size)
                for direction in DIRECTIONS
            ),
        )
        for step in range(_PUBLISHED_CANDIDATES)
    )
    fallback = unamplified(choice.mechanism, epsilon=epsilon, delta=threshold)
    return Plan(method="published", epsilon=epsilon, delta=delta, seed=seed, candidates=candidates, fallback=fallback)


def _published_start(pilot: PilotResult, threshold: float, samples: int) -> float:
    """A σ whose tests should both pass: plain values lie in [0, 1], so their variance is at most their mean."""
    def passing(direction: str) -> float:
        relative = math.sqrt(1 / (threshold * samples) + 1 / max(pilot.effective_samples[direction], 1.0))
        wanted = threshold / (1 + _STANDARD_ERRORS * relative)
        return pilot.sigma * math.exp(math.log(max(pilot.deltas[direction], _TINY) / wanted) / -slope(pilot, direction))

    return max(map(passing, DIRECTIONS))


def unamplified(mechanism: Mechanism, *, epsilon: float, delta: float) -> Candidate:
    """The same scheme and strategy at the σ of the unamplified Gaussian mechanism, which needs no samples."""
    sigma = mechanism.sensitivity / gaussian_mu(epsilon=epsilon, delta=delta)
    return deterministic(mechanism.with_sigma(sigma), delta=delta, accountant="gaussian")


def deterministic(mechanism: Mechanism, *, delta: float | dict[str, float], accountant: str) -> Candidate:
    """A candidate whose δ (one for both directions, or by direction) is a deterministic bound of the named accountant."""
    by_direction = delta if isinstance(delta, dict) else dict.fromkeys(DIRECTIONS, delta)
    return Candidate(mechanism=mechanism, tests=tuple(
        DirectionTest(direction=direction, sampler="bound", threshold=by_direction[direction], accountant=accountant)
        for direction in DIRECTIONS
    ))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Room:
    """How the tests of a list share δ, by direction.

    Attributes:
      delta: the target δ.
      thresholds: the first candidate's.
      deterministic: the largest deterministic bound among the candidates.
    """

    delta: float
    thresholds: tuple[float, float]
    deterministic: tuple[float, float]

    def base(self, index: int) -> float:
        """What no threshold (with its bias) or deterministic bound exceeds."""
        return max(self.thresholds[index] + BIAS_FRACTION * self.delta, self.deterministic[index])

    def samples(self, one: Profile, *, threshold: float, share: float) -> int:
        """N for a test that may use this share of the slack; 0 where nothing is drawn."""
        if one.sampler == "bound":
            return 0
        base = self.base(DIRECTIONS.index(one.direction))
        # A little less than all of it, for the rounding of the sum.
        slack = (1 - 1e-6) * share * (self.delta - base)
        return samples_for_slack(slack, threshold=threshold, bound=one.bound, base=base - one.shape.bias)


def _measure(choice: Choice, **settings: object) -> tuple[Profile, Profile]:
    near = choice.mechanism.with_sigma(choice.pilot.sigma * _STEP)
    return tuple(profile(near, choice.pilot, direction, **settings) for direction in DIRECTIONS)


def _thresholds(
    profiles: tuple[Profile, Profile], deterministic: tuple[float, float], delta: float, max_samples: int,
) -> tuple[float, float]:
    """The thresholds of both directions that suit the first candidate: a small σ first, then few samples."""
    options = []
    for index, one in enumerate(profiles):
        tried = [_option(one, fraction * delta, deterministic, delta) for fraction in _FRACTIONS]
        options.append([option for option in tried if option.samples <= max_samples])
        if not options[index]:
            raise CalibrationError(
                f"No {one.direction} test of {one.mechanism.scheme.name} within {max_samples} samples certifies delta={delta:g}; "
                "allow more samples."
            )
    sigma = max(min(option.sigma for option in found) for found in options) * (1 + _SIGMA_TOLERANCE)
    return tuple(min((o for o in found if o.sigma <= sigma), key=lambda o: o.samples).threshold for found in options)


def _option(one: Profile, threshold: float, deterministic: tuple[float, float], delta: float) -> _Option:
    threshold = _below_bound(one, threshold)
    room = _Room(delta=delta, thresholds=(threshold, threshold), deterministic=deterministic)
    samples = room.samples(one, threshold=threshold, share=_FIRST_SHARE)
    return _Option(threshold=threshold, samples=samples, sigma=_passing_sigma(one, threshold, samples))


def _passing_sigma(one: Profile, threshold: float, samples: int) -> float:
    """The σ whose test should pass: its δ is below the threshold by a few standard errors of the estimate and of the test's mean."""
    if one.sampler == "bound":
        return one.mechanism.sigma
    relative = math.sqrt(one.relative_variance / samples + one.relative_error**2)
    wanted = threshold / (1 + _STANDARD_ERRORS * relative)
    return _sigma_at(one, wanted)


def _sigma_at(one: Profile, delta: float) -> float:
    """The σ at which this direction's δ is estimated to be `delta`."""
    return one.mechanism.sigma * math.exp(math.log(one.delta / delta) / -one.slope)


def _candidate(
    profiles: tuple[Profile, Profile], room: _Room, max_samples: int, *, fraction: float, share: float,
) -> list[Candidate]:
    """The candidate with this fraction of the thresholds and this share of the slack; none where a test would draw too much."""
    def tests(ones: Sequence[Profile]) -> list[tuple[Profile, float, int]]:
        thresholds = [_below_bound(one, fraction * threshold) for one, threshold in zip(ones, room.thresholds)]
        return [(one, threshold, room.samples(one, threshold=threshold, share=share)) for one, threshold in zip(ones, thresholds)]

    sigma = max(_passing_sigma(one, threshold, min(samples, max_samples)) for one, threshold, samples in tests(profiles))
    mechanism = profiles[0].mechanism.with_sigma(sigma)
    placed = tests([one.at(mechanism, delta=room.delta) for one in profiles])
    if max(samples for _, _, samples in placed) > max_samples:
        return []
    return [Candidate(mechanism=mechanism, tests=tuple(one.test(threshold=threshold, samples=samples) for one, threshold, samples in placed))]


def _below_bound(one: Profile, threshold: float) -> float:
    """A threshold below B, as a test must have one: where σ is large for a direction's sake, the other's values may all be below δ."""
    return threshold if one.sampler == "bound" else min(threshold, _LARGEST_OF_BOUND * one.bound)
