"""Planning a certificate: candidates, thresholds and numbers of samples, from pilot estimates on random numbers of their own.

A plan only decides how good the certified σ will be and how likely it is to pass; whether the guarantee holds never depends on what
happens here, because `conclusion.guaranteed_delta` is computed from the plan alone.
"""

import dataclasses
import math
from collections.abc import Sequence

from accountants.certificates.conclusion import guaranteed_delta
from accountants.certificates.profiles import Profile, profile
from accountants.certificates.records import Candidate, DirectionTest, Plan
from accountants.certificates.sampling import block_size
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_mu
from accountants.monte_carlo.pilot import PilotResult
from accountants.tail_sum import samples_needed
from search_spaces import checks
from search_spaces.errors import CalibrationError
from search_spaces.mechanism import Mechanism

_FRACTIONS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97)
"""Thresholds that are tried, as fractions of δ."""

_STANDARD_ERRORS = 3.0
"""A candidate's σ is chosen so that its test passes unless the estimates err by this many standard errors."""

_SIGMA_TOLERANCE = 0.002
"""Fewer samples are preferred where they cost less than this in σ."""

_FALLBACK_STEP = 1.01
_PUBLISHED_FRACTION = 0.5
_PUBLISHED_STEP = 1.01
_PUBLISHED_START = 8
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
    choices: Sequence[Choice], *, epsilon: float, delta: float, seed: int, max_samples: int, tilt: bool, purpose: str = "certify",
) -> Plan:
    """A fixed list of two candidates for each choice, in ascending RMSE, with the unamplified Gaussian σ as last resort.

    Args:
      choices: at least one.
      epsilon, delta: the target.
      seed: of the certifying streams; profiles are measured on the pilot's.
      max_samples: the most one test may draw.
      tilt: whether "remove" may be sampled from the Rényi-tilted law.

    Raises:
      CalibrationError: no test within `max_samples` can certify the target.
    """
    count = 2 * len(choices)
    candidates = [
        candidate for choice in choices
        for candidate in _pair(choice, epsilon=epsilon, delta=delta, seed=seed, max_samples=max_samples, count=count, tilt=tilt)
    ]
    candidates.sort(key=lambda candidate: candidate.mechanism.rmse)
    plan = Plan(method="tail_sum", epsilon=epsilon, delta=delta, seed=seed, candidates=tuple(candidates), purpose=purpose)
    # The fallback may have all that the slack leaves, less a little for the rounding of this difference.
    spare = (1 - 1e-9) * min(delta - _slack(plan, direction) for direction in DIRECTIONS)
    return dataclasses.replace(plan, fallback=unamplified(choices[0].mechanism, epsilon=epsilon, delta=spare))


def plan_published(choice: Choice, *, epsilon: float, delta: float, seed: int, max_samples: int, purpose: str = "certify") -> Plan:
    """The published procedure: σ descends by a factor of 1.01 from a little above the pilot's, base threshold δ/2, plain samples.

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
    start = choice.pilot.sigma * _PUBLISHED_STEP**_PUBLISHED_START
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
    return Plan(method="published", epsilon=epsilon, delta=delta, seed=seed, candidates=candidates, fallback=fallback, purpose=purpose)


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


def _pair(choice: Choice, *, epsilon, delta, seed, max_samples, count, tilt) -> list[Candidate]:
    """The candidate that should pass, and one a little safer."""
    checks.integer(max_samples=max_samples)
    measured = choice.mechanism.with_sigma(choice.pilot.sigma * _FALLBACK_STEP)
    profiles = [profile(measured, choice.pilot, direction, epsilon=epsilon, delta=delta, seed=seed, tilt=tilt) for direction in DIRECTIONS]
    options = [_options(one, delta=delta, max_samples=max_samples, count=count) for one in profiles]
    for one, found in zip(profiles, options):
        if not found:
            raise CalibrationError(
                f"No {one.direction} test of {choice.mechanism.scheme.name} within {max_samples} samples certifies delta={delta:g}; "
                "allow more samples."
            )
    sigma = max(min(option.sigma for option in found) for found in options) * (1 + _SIGMA_TOLERANCE)
    affordable = [min((o for o in found if o.sigma <= sigma), key=lambda o: o.samples) for found in options]
    sigma = max(option.sigma for option in affordable)
    return [
        Candidate(mechanism=measured.with_sigma(sigma * step), tests=tuple(
            one.test(measured.with_sigma(sigma * step), threshold=option.threshold, delta=delta, count=count)
            for one, option in zip(profiles, affordable)
        ))
        for step in (1.0, _FALLBACK_STEP)
    ]


def _options(one: Profile, *, delta: float, max_samples: int, count: int) -> list[_Option]:
    options = []
    for fraction in _FRACTIONS:
        threshold = fraction * delta
        samples = one.samples_needed(threshold=threshold, delta=delta, count=count)
        if samples <= max_samples:
            relative = math.sqrt(one.relative_variance / max(samples, 1) + one.relative_error**2) if samples else 0.0
            wanted = threshold / (1 + _STANDARD_ERRORS * relative)
            options.append(_Option(
                threshold=threshold, samples=samples, sigma=one.sigma * math.exp(math.log(one.delta / wanted) / -one.slope),
            ))
    return options


def _slack(plan: Plan, direction: str) -> float:
    tests = [candidate.tests[DIRECTIONS.index(direction)] for candidate in plan.candidates]
    return guaranteed_delta(plan, direction) - max(test.threshold + test.bias for test in tests)
