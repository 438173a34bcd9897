"""Conditional composition: per-step mixtures that dominate on all good prefixes, composed (math/balls-in-bins.md, sections (e) and (f)).

H_γ <= H_γ(composition of the steps) + δ_E, where δ_E bounds the probability of a bad prefix under the first argument. Each direction has
its own events and its own budget.
"""

import math
from collections.abc import Callable

from accountants.balls_in_bins.connect_the_dots import LossDistribution, compose, loss_range, mixture_losses, self_compose
from accountants.balls_in_bins.conversion import Bound
from accountants.balls_in_bins.hazards import Mixture, envelope, mixtures, tail_probabilities
from accountants.balls_in_bins.prefix_statistics import PrefixStatistics
from search_spaces import checks

_FIRST_LOG_DELTA = math.log(1e-5)
_LEAST_LOG_DELTA = math.log(1e-18)
_DELTA_STEPS = 25
_DELTA_TOLERANCE = 5e-7


def composed_losses(
    statistics: PrefixStatistics, *, sigma: float, direction: str, bad_event: float, split: str = "monitored", block: int = 1,
    points: int = 1000,
) -> LossDistribution:
    """The loss distribution of all steps, without δ_E.

    Args:
      statistics: of the strategy's prefixes.
      sigma: σ > 0.
      direction: `remove` or `add`.
      bad_event: δ_E in (0, 1).
      split: one of `hazards.SPLITS`.
      block: so many consecutive steps share one dominating mixture (faster, a little looser).
      points: grid points of the step with the widest losses.

    Raises:
      InputError: an argument out of range.
    """
    sigma, bad_event = checks.positive(sigma=sigma), checks.between(0, 1, bad_event=bad_event)
    block, points = checks.integer(block=block), checks.integer(at_least=10, points=points)
    beta = tail_probabilities(statistics, bad_event=bad_event, split=split)
    steps = mixtures(statistics, sigma=sigma, direction=direction, beta=beta)
    blocks = [steps[start : start + block] for start in range(0, len(steps), block)]
    shared = [(envelope(members) if len(members) > 1 else members[0], len(members)) for members in blocks]
    interval = max(max(loss_range(mixture, sigma=sigma, direction=direction) for mixture, _ in shared) / points, 1e-12)
    return compose(_losses(shared, sigma, direction, interval))


def _losses(shared: list[tuple[Mixture, int]], sigma: float, direction: str, interval: float) -> list[LossDistribution]:
    """One loss distribution per distinct (mixture, repetition), self-composed as often as it occurs."""
    repeats: dict[tuple, tuple[Mixture, int]] = {}
    for mixture, times in shared:
        _, before = repeats.get(mixture.key(), (mixture, 0))
        repeats[mixture.key()] = (mixture, before + times)
    return [
        self_compose(mixture_losses(mixture, sigma=sigma, direction=direction, interval=interval), times)
        for mixture, times in repeats.values()
    ]


def conditional_epsilon(
    statistics: PrefixStatistics, *, sigma: float, direction: str, delta: float, bad_event_share: float = 0.5, **settings: object
) -> Bound:
    """ε at δ in one direction with δ_E = bad_event_share·δ; `settings` as for `composed_losses`."""
    delta, share = checks.between(0, 1, delta=delta), checks.between(0, 1, bad_event_share=bad_event_share)
    bad_event = share * delta
    losses = composed_losses(statistics, sigma=sigma, direction=direction, bad_event=bad_event, **settings)
    return Bound(value=losses.epsilon(delta - bad_event), details={"bad_event": bad_event, **settings})


def conditional_delta(
    statistics: PrefixStatistics, *, sigma: float, direction: str, epsilon: float, bad_event_share: float = 0.5, **settings: object
) -> Bound:
    """δ at ε in one direction: the δ whose ε by `conditional_epsilon` is this one; 1 if there is none."""
    epsilon, share = checks.non_negative(epsilon=epsilon), checks.between(0, 1, bad_event_share=bad_event_share)

    def excess(log_delta: float) -> float:
        """log of what is needed over what is left for the composition; <= 0 where δ is enough."""
        bad_event = share * math.exp(log_delta)
        losses = composed_losses(statistics, sigma=sigma, direction=direction, bad_event=bad_event, **settings)
        return math.log(max(losses.delta(epsilon), 1e-300) / (1 - share)) - log_delta

    delta = _smallest_delta(excess)
    return Bound(value=delta, details={"bad_event": share * delta, **settings})


def _smallest_delta(excess: Callable[[float], float]) -> float:
    """e^x for the smallest x found with excess(x) <= 0, to a relative `_DELTA_TOLERANCE`; `excess` falls about as fast as x rises."""
    low, high, at_low, at_high = -math.inf, 0.0, math.nan, math.nan
    x = _FIRST_LOG_DELTA
    for _ in range(_DELTA_STEPS):
        found = excess(x)
        if found <= 0:
            high, at_high = x, found
        else:
            low, at_low = x, found
        if -_DELTA_TOLERANCE <= found <= 0 or high - low <= _DELTA_TOLERANCE:
            break
        slope = (at_high - at_low) / (high - low) if math.isfinite(at_low + at_high) else -1.0
        step = x - found / slope + 0.3 * _DELTA_TOLERANCE
        inside = max(low, _LEAST_LOG_DELTA) < step < high
        x = step if inside else 0.5 * (max(low, _LEAST_LOG_DELTA) + high)
        if x < _LEAST_LOG_DELTA + 1.0:
            break
    return math.exp(high)
