"""How much δ a sampled test can let slip: the published bound and the tail-sum bounds (math/certificates.md, sections 0 and 1).

A test draws N i.i.d. values in [0, B] with mean δ_i and passes iff their mean is at most the threshold δ'. For δ_i > δ',
P(pass) <= p(δ_i) with p(d) = exp(−N·KL(δ'/B ‖ d/B)). Everything here is rounded up.
"""

import math
from collections.abc import Callable

import numpy as np

from search_spaces import checks
from search_spaces.errors import CalibrationError

_ROUND_UP = 1.0 + 1e-9
"""Covers the float64 rounding of every formula below, each a few hundred operations of relative error 1e-16."""

_LARGEST_SAMPLES = 10**13
_INTEGRATION_POINTS = 20_000


def bernoulli_divergence(a: np.ndarray | float, x: np.ndarray | float) -> np.ndarray:
    """KL(Bernoulli(a) ‖ Bernoulli(x)) for 0 <= a <= x <= 1, elementwise; infinite at x = 1 > a.

    Written in the step x − a, to which both terms are proportional: log(a/x) would lose a · 1e-16 absolutely, which N ~ 1e9 makes matter.
    """
    a, x = np.asarray(a, float), np.asarray(x, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(a > 0, a * np.log1p((x - a) / a), 0.0)
        second = np.where(a < 1, (1 - a) * np.log1p(-(x - a) / (1 - a)), 0.0)
    return np.maximum(-(first + second), 0.0)


def pass_probability(d: np.ndarray | float, *, threshold: float, samples: int, bound: float) -> np.ndarray:
    """p(d): an upper bound on the probability that a test whose values have mean d passes; 1 for d <= threshold."""
    a, x = threshold / bound, np.minimum(np.asarray(d, float) / bound, 1.0)
    return np.where(x <= a, 1.0, np.minimum(1.0, _ROUND_UP * np.exp(-samples * bernoulli_divergence(a, np.maximum(x, a)) / _ROUND_UP)))


def candidate_slack(*, threshold: float, samples: int, bound: float = 1.0, base: float | None = None) -> float:
    """max_{d > base} (d − base)·p(d): what one candidate of a fixed list adds to E[δ_sel] beyond `base`.

    With base = δ' this is the slack of math/certificates.md; in a list whose thresholds differ every candidate is charged only for what it
    exceeds the largest of them by, since E[δ_sel] <= base + Σ_i E[(δ_i − base)_+; i is selected]. The logarithm of the objective is concave
    in x = d/B with derivative 1/(x−x₀) − N(x−a)/(x(1−x)), a = δ'/B, x₀ = base/B, so the maximum is at the larger root of
    (N+1)x² − (N(a+x₀)+1)x + N·a·x₀ = 0.

    Args:
      threshold: δ' in (0, bound).
      samples: N >= 1.
      bound: B > 0, no sampled value exceeds it.
      base: at least δ', which is the default.

    Returns:
      The slack, rounded up; a list of candidates adds the sum of theirs to the base.
    """
    _check(threshold=threshold, samples=samples, bound=bound)
    base = threshold if base is None else checks.within(threshold, math.inf, base=base)
    if base >= bound:
        return 0.0
    a, start = threshold / bound, base / bound
    # The discriminant, written without a difference of squares.
    root = math.sqrt((samples * (start - a)) ** 2 + 2 * samples * (a * (1 - start) + start * (1 - a)) + 1)
    x = (samples * (a + start) + 1 + root) / (2 * (samples + 1))
    x = min(1.0, max(x, start))
    return _ROUND_UP * (x - start) * bound * float(pass_probability(x * bound, threshold=threshold, samples=samples, bound=bound))


def descending_slack(*, threshold: float, samples: int, bound: float = 1.0) -> float:
    """∫_{δ'}^{B} p(x) dx: what a descending list (first failure stops) adds to E[δ_sel], whatever its length; rounded up.

    p decreases, so left end points of any grid give an upper sum.
    """
    _check(threshold=threshold, samples=samples, bound=bound)
    width = bound - threshold
    steps = np.concatenate([[0.0], np.geomspace(1e-12 * width, width, _INTEGRATION_POINTS)])
    heights = pass_probability(threshold + steps[:-1], threshold=threshold, samples=samples, bound=bound)
    return _ROUND_UP * float(heights @ np.diff(steps))


def published_delta(*, threshold: float, samples: int, bound: float = 1.0) -> float:
    """min_{τ>=1} [τδ' + q(1 − τδ')], q = exp(−N·KL(δ' ‖ τδ')): the δ of the published procedure (descending list); any τ is valid."""
    _check(threshold=threshold, samples=samples, bound=bound)
    values = lambda d: d + pass_probability(d, threshold=threshold, samples=samples, bound=bound) * (1.0 - d)
    excess = np.geomspace(1e-6, bound / threshold - 1.0, _INTEGRATION_POINTS)
    best = int(np.argmin(values(threshold * (1.0 + excess))))
    near = np.linspace(excess[max(best - 1, 0)], excess[min(best + 1, excess.size - 1)], _INTEGRATION_POINTS)
    return min(1.0, _ROUND_UP * float(values(threshold * (1.0 + near)).min()))


METHODS = ("tail_sum", "descending", "published")


def certified_delta(method: str, *, threshold: float, samples: int, bound: float = 1.0, candidates: int = 1) -> float:
    """E[δ_sel] <= this, for `candidates` >= 1 tests with one threshold, N and B, by the named method."""
    checks.one_of(METHODS, method=method)
    candidates = checks.integer(candidates=candidates)
    if method == "published":
        return published_delta(threshold=threshold, samples=samples, bound=bound)
    if method == "descending":
        return threshold + descending_slack(threshold=threshold, samples=samples, bound=bound)
    return threshold + candidates * candidate_slack(threshold=threshold, samples=samples, bound=bound)


def samples_needed(method: str, *, delta: float, threshold: float, bound: float = 1.0, candidates: int = 1) -> int:
    """The smallest N with `certified_delta(method, …) <= delta`.

    Args:
      delta: the target δ.
      threshold: δ' in (0, delta).
      bound: B; where B <= delta nothing needs to be sampled and 0 is returned.
      candidates: m, used by `tail_sum` only.

    Raises:
      InputError: δ' >= δ or a value out of range.
      CalibrationError: more than 10¹³ samples would be needed.
    """
    checks.between(0, delta, threshold=threshold)
    # Refuses a bad bound, method or number of candidates also where nothing is sampled.
    certified_delta(method, threshold=threshold, samples=1, bound=max(checks.positive(bound=bound), delta), candidates=candidates)
    if bound <= delta:
        return 0
    return _smallest(
        lambda samples: certified_delta(method, threshold=threshold, samples=samples, bound=bound, candidates=candidates) <= delta
    )


def samples_for_slack(slack: float, *, threshold: float, bound: float, base: float) -> int:
    """The smallest N with `candidate_slack(…) <= slack`; arguments and errors as there and in `samples_needed`."""
    slack = checks.positive(slack=slack)
    return _smallest(lambda samples: candidate_slack(threshold=threshold, samples=samples, bound=bound, base=base) <= slack)


def _smallest(holds: Callable[[int], bool]) -> int:
    """The smallest N >= 1 at which a monotone condition holds."""
    high = 1
    while not holds(high):
        high *= 4
        if high > _LARGEST_SAMPLES:
            raise CalibrationError("A test needs more than 1e13 samples; choose a threshold further below delta.")
    low = high // 4
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check(*, threshold: float, samples: int, bound: float) -> None:
    checks.positive(bound=bound)
    checks.between(0, bound, threshold=threshold)
    checks.integer(samples=samples)
