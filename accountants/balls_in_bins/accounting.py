"""The deterministic accountants of balls-in-bins as plug-ins, and `renyi_evidence` for others to call.

All serve any non-negative C (also overlapping windows, see search_spaces/dense_strategies.py), DP-SGD included, and none states more
than the unamplified Gaussian mechanism of the longest mean.
"""

import abc
import dataclasses
import math
import time

import numpy as np

from accountants.balls_in_bins.conditional_composition import conditional_delta, conditional_epsilon
from accountants.balls_in_bins.conversion import Bound, best
from accountants.balls_in_bins.gram import mechanism_gram, require_memory
from accountants.balls_in_bins.gram_majorant import pld_delta, pld_epsilon
from accountants.balls_in_bins.prefix_statistics import TEMPERATURES, strategy_statistics
from accountants.balls_in_bins.renyi_choice import BUDGET, renyi_bounds
from accountants.base import Accountant
from accountants.evidence import DIRECTIONS, Evidence
from accountants.gaussian import gaussian_delta_bounds, gaussian_epsilon
from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins

_LARGEST_TABLE = 2e7
"""Entries of a table of tail bounds that still takes seconds."""

_QUICK_TABLE = 2e5
"""Entries up to which conditional composition answers within seconds; composing the steps takes most of the time."""


class _BallsInBinsAccountant(Accountant):
    """What the three share; subclasses have `bounds`."""

    kind = "bound"

    @abc.abstractmethod
    def bounds(self, mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None) -> tuple[Bound, Bound]:
        """Bounds for `remove` and `add` on δ at ε, or on ε at δ; arguments are checked already."""

    def unsupported(self, mechanism: Mechanism) -> str | None:
        if not isinstance(mechanism.scheme, BallsInBins):
            return f"Balls-in-bins bounds serve balls_in_bins only, not {mechanism.scheme.name}."
        try:
            self._require_memory(mechanism)
        except InputError as error:
            return str(error)
        return None

    def _require_memory(self, mechanism: Mechanism) -> None:
        require_memory(8.0 * mechanism.scheme.separation**2, "the Gram matrix of balls_in_bins")

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        return self._evidence(mechanism, epsilon=checks.non_negative(epsilon=epsilon))

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        return self._evidence(mechanism, delta=checks.between(0, 1, delta=delta))

    def _evidence(self, mechanism: Mechanism, **question: float) -> tuple[Evidence, Evidence]:
        self.require_support(mechanism)
        return _statements(self.name, mechanism, lambda: self.bounds(mechanism, **question), question)


def _statements(name: str, mechanism: Mechanism, bounds, question: dict[str, float]) -> tuple[Evidence, Evidence]:
    """Evidence from bounds, each at most the unamplified Gaussian's."""
    start = time.perf_counter()
    (given, value), = question.items()
    asked = "epsilon" if given == "delta" else "delta"
    unamplified = _unamplified(mechanism_gram(mechanism), mechanism.sigma, **question)
    found = [best([bound, unamplified]) for bound in bounds()]
    seconds = time.perf_counter() - start
    return tuple(
        Evidence(
            accountant=name, direction=direction, kind="bound", adjacency=mechanism.scheme.adjacency, seconds=seconds,
            details={"of": asked, **bound.details}, **{given: value, asked: float(bound.value)},
        )
        for direction, bound in zip(DIRECTIONS, found, strict=True)
    )


def _unamplified(gram: np.ndarray, sigma: float, *, epsilon: float | None = None, delta: float | None = None) -> Bound:
    mu = math.sqrt(float(np.diag(gram).max())) / sigma
    value = max(0.0, gaussian_epsilon(delta=delta, mu=mu)) if epsilon is None else gaussian_delta_bounds(epsilon=epsilon, mu=mu)[1]
    return Bound(value=float(value), details={"method": "unamplified Gaussian mechanism"})


def _described(method: str, bounds: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    return tuple(dataclasses.replace(bound, details={"method": method, **bound.details}) for bound in bounds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RenyiBallsInBins(_BallsInBinsAccountant):
    """Rényi moments of the best truncation, and the shifted-moment and shifted-Gaussian conversions.

    Attributes:
      budget: multiplications spent on one candidate.
    """

    name = "renyi_balls_in_bins"

    budget: float = BUDGET

    def bounds(self, mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None) -> tuple[Bound, Bound]:
        found = renyi_bounds(mechanism_gram(mechanism), sigma=mechanism.sigma, epsilon=epsilon, delta=delta, budget=self.budget)
        return _described("moments of the likelihood ratio", found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionalComposition(_BallsInBinsAccountant):
    """Conditional composition.

    Attributes:
      bad_event_share: δ_E/δ in (0, 1).
      split: how δ_E is shared among tail bounds (`hazards.SPLITS`).
      block: consecutive steps that share one dominating mixture.
      points: grid points of the widest step.
      temperatures: variational tail bounds tried beside AM–GM, in units of the largest squared column norm; left out where the table of all
        tail bounds would have more than `_LARGEST_TABLE` entries.
    """

    name = "conditional_composition"
    calibrates_by = "epsilon"

    bad_event_share: float = 0.5
    split: str = "monitored"
    block: int = 1
    points: int = 1000
    temperatures: tuple[float, ...] = TEMPERATURES

    def bounds(self, mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None) -> tuple[Bound, Bound]:
        varied = (1 + len(self.temperatures)) * _table_entries(mechanism) <= _LARGEST_TABLE
        statistics = strategy_statistics(mechanism.strategy, mechanism.scheme.separation, self.temperatures if varied else ())
        settings = {"bad_event_share": self.bad_event_share, "split": self.split, "block": self.block, "points": self.points}
        found = [
            conditional_epsilon(statistics, sigma=mechanism.sigma, direction=direction, delta=delta, **settings)
            if epsilon is None
            else conditional_delta(statistics, sigma=mechanism.sigma, direction=direction, epsilon=epsilon, **settings)
            for direction in DIRECTIONS
        ]
        return _described("conditional composition", tuple(found))

    def by_default(self, mechanism: Mechanism) -> bool:
        return _table_entries(mechanism) <= _QUICK_TABLE

    def _require_memory(self, mechanism: Mechanism) -> None:
        super()._require_memory(mechanism)
        require_memory(16.0 * _table_entries(mechanism), "the table of conditional composition for balls_in_bins")


def _table_entries(mechanism: Mechanism) -> int:
    """At most so many (step, monitored bin, bin) triples: a band of p moves at most p bins at each step."""
    bins = mechanism.scheme.separation
    return mechanism.strategy.iterations * min(mechanism.strategy.bandwidth, bins) * bins


@dataclasses.dataclass(frozen=True, kw_only=True)
class GramMajorantPld(_BallsInBinsAccountant):
    """The privacy profile of the best stride majorant; exact for C = I."""

    name = "gram_majorant_pld"

    def bounds(self, mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None) -> tuple[Bound, Bound]:
        gram, sigma = mechanism_gram(mechanism), mechanism.sigma
        found = [
            pld_epsilon(gram, sigma=sigma, direction=direction, delta=delta)
            if epsilon is None
            else pld_delta(gram, sigma=sigma, direction=direction, epsilon=epsilon)
            for direction in DIRECTIONS
        ]
        return _described("random allocation above the Gram matrix", tuple(found))


BALLS_IN_BINS_ACCOUNTANTS = (RenyiBallsInBins(), ConditionalComposition(), GramMajorantPld())
"""The accountants of this package with their default settings."""


def renyi_evidence(
    mechanism: Mechanism, *, epsilon: float | None = None, delta: float | None = None, accountant: str = "renyi"
) -> tuple[Evidence, Evidence]:
    """The Rényi accountant's evidence of a balls-in-bins mechanism under another accountant's name, for `remove` and `add`.

    Args:
      mechanism: balls-in-bins.
      epsilon, delta: exactly one of them.
      accountant: the name the evidence carries.

    Raises:
      InputError: not exactly one of ε and δ, or one out of range.
      UnsupportedError: another scheme.
    """
    if (epsilon is None) == (delta is None):
        raise InputError(f"Expected exactly one of epsilon={epsilon!r} and delta={delta!r} to be given.")
    renyi = RenyiBallsInBins()
    statements = renyi.delta(mechanism, epsilon=epsilon) if delta is None else renyi.epsilon(mechanism, delta=delta)
    return tuple(dataclasses.replace(statement, accountant=accountant) for statement in statements)
