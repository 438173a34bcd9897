"""δ(ε) of a mechanism by every accountant that answers within seconds, in every direction.

What can be shared between the points of a curve is: Monte Carlo draws its samples once, and the Rényi moments and privacy loss distributions
are kept by their accountants. The number of points is fixed by the mechanism, never by the clock, so that the same run gives the same curves.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from accountants.base import Accountant
from accountants.evidence import DIRECTIONS, Evidence
from accountants.fixed_size import FixedSizeMechanism, statements
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.monte_carlo.mixture import FEWEST_EFFECTIVE_SAMPLES, draw_weighted_sample
from accountants.monte_carlo.streams import Stream
from accountants.registry import ACCOUNTANTS, asked_by_default
from search_spaces.errors import BandsmithError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import FIXED_SIZE

SAMPLES = 16_384
"""Monte Carlo samples of a whole curve."""

POINTS = 33
"""Points of a curve: odd, so that the target's ε, in the middle, is one of them."""

FEWER_POINTS = {"balls_in_bins": 7, FIXED_SIZE: 13}
"""Where a bound takes long at each ε."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """δ(ε) in one direction.

    Attributes:
      accountant: who says so; for fixed-size batches with its geometry.
      direction: `remove`, `add` or `replace`.
      kind: `estimate` or `bound`.
      epsilons, deltas: the points, finite, by ascending ε.
      errors: standard error of each δ; empty for bounds.
    """

    accountant: str
    direction: str
    kind: str
    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    errors: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """All curves of a mechanism, and one sentence for each accountant that left something out."""

    curves: tuple[Curve, ...]
    notes: tuple[str, ...]


def grid(epsilon: float, points: int) -> list[float]:
    """ε from 0 to twice the target's."""
    return [float(value) for value in np.linspace(0.0, 2.0 * epsilon, points)]


def privacy_curves(mechanism: Mechanism, *, epsilon: float, seed: int, accountants: Iterable[Accountant] | None = None) -> Curves:
    """The curves of a mechanism of an add/remove scheme around a target ε > 0.

    Args:
      mechanism: what is accounted.
      epsilon: of the target.
      seed: of the Monte Carlo samples.
      accountants: None means those that are asked by default.
    """
    asked = [ACCOUNTANTS[name] for name in asked_by_default(mechanism)] if accountants is None else accountants
    curves, notes = [], []
    for accountant in asked:
        if isinstance(accountant, MonteCarloAccountant):
            made, left_out = _sampled(mechanism, grid(epsilon, POINTS), target=epsilon, seed=seed)
        else:
            points = FEWER_POINTS.get(mechanism.scheme.name, POINTS)
            made, left_out = _stated(accountant.name, grid(epsilon, points), functools.partial(_delta, accountant, mechanism))
        curves += made
        notes += left_out
    return Curves(curves=tuple(curves), notes=tuple(notes))


def fixed_size_curves(mechanism: FixedSizeMechanism, *, epsilon: float) -> Curves:
    """The curves of a mechanism with fixed-size batches around a target ε > 0."""
    made, notes = _stated("bounds", grid(epsilon, FEWER_POINTS[FIXED_SIZE]), lambda value: statements(mechanism=mechanism, epsilon=value))
    return Curves(curves=tuple(made), notes=tuple(notes))


def name_of(statement: Evidence) -> str:
    """The accountant of a statement, with its geometry where it has several."""
    geometry = statement.details.get("geometry")
    return statement.accountant if geometry is None else f"{statement.accountant} ({geometry})"


def _delta(accountant: Accountant, mechanism: Mechanism, epsilon: float) -> Sequence[Evidence]:
    return accountant.delta(mechanism, epsilon=epsilon)


def _stated(name: str, epsilons: Sequence[float], ask) -> tuple[list[Curve], list[str]]:
    """One curve per accountant and direction from statements at each ε; a note where some could not be made or are not finite."""
    found: dict[tuple[str, str, str], list[tuple[float, float, float | None]]] = {}
    missing, reason = [], ""
    for epsilon in epsilons:
        try:
            stated = ask(epsilon)
        except BandsmithError as error:
            missing.append(epsilon)
            reason = str(error)
            continue
        for one in stated:
            if math.isfinite(one.epsilon):
                found.setdefault((name_of(one), one.direction, one.kind), []).append((one.epsilon, one.delta, one.standard_error))
            else:
                missing.append(epsilon)
                reason = str(one.details.get("reason", "not finite"))
    curves = [
        Curve(
            accountant=accountant, direction=direction, kind=kind, epsilons=tuple(e for e, _, _ in points),
            deltas=tuple(d for _, d, _ in points), errors=tuple(error for _, _, error in points) if kind == "estimate" else (),
        )
        for (accountant, direction, kind), points in found.items()
    ]
    return curves, [_note(name, missing, len(epsilons), reason)] if missing else []


def _sampled(mechanism: Mechanism, epsilons: Sequence[float], *, target: float, seed: int) -> tuple[list[Curve], list[str]]:
    """The Monte Carlo curves of both directions from one set of samples; unresolved points are left out with a note."""
    name = MonteCarloAccountant.name
    try:
        drawn = draw_weighted_sample(mechanism, epsilon=target, stream=Stream(seed=seed, purpose="estimate"), samples=SAMPLES)
    except BandsmithError as error:
        return [], [_note(name, list(epsilons), len(epsilons), str(error))]
    points = {direction: [] for direction in DIRECTIONS}
    missing = {direction: [] for direction in DIRECTIONS}
    for epsilon in epsilons:
        for direction, estimate in drawn.estimates(epsilon).items():
            delta, error, effective = (float(part[0]) for part in (estimate.delta, estimate.standard_error, estimate.effective_samples))
            resolved = effective >= FEWEST_EFFECTIVE_SAMPLES and math.isfinite(delta) and math.isfinite(error)
            (points if resolved else missing)[direction].append((epsilon, min(delta, 1.0), error))
    reason = f"fewer than {FEWEST_EFFECTIVE_SAMPLES:g} of {drawn.log_ratio.size} samples are effective there"
    return (
        [
            Curve(
                accountant=name, direction=direction, kind="estimate", epsilons=tuple(e for e, _, _ in known),
                deltas=tuple(d for _, d, _ in known), errors=tuple(s for _, _, s in known),
            )
            for direction, known in points.items() if known
        ],
        [
            _note(f"{name}, {direction}", [e for e, _, _ in left], len(epsilons), reason)
            for direction, left in missing.items() if left
        ],
    )


def _note(name: str, missing: Sequence[float], of: int, reason: str) -> str:
    first, last = min(missing), max(missing)
    where = f"at ε = {first:.3g}" if first == last else f"between ε = {first:.3g} and {last:.3g}"
    return f"{name}: {len(set(missing))} of {of} points {where} are left out: {' '.join(reason.split()).rstrip('.')}."
