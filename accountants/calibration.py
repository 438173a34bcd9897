"""`calibrate`: the smallest noise multiplier that an accountant says meets a target (ε, δ) in both directions."""

import dataclasses
import math
import time

from accountants.base import Accountant
from accountants.evidence import Evidence, worst
from accountants.gaussian import GaussianAccountant, gaussian_mu
from accountants.registry import supported
from search_spaces import checks
from search_spaces.dense_strategies import Strategy, make_mechanism
from search_spaces.errors import CalibrationError, NumericalError, UnresolvedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BatchScheme

TOLERANCE = 1e-4
"""Default relative distance of σ from the largest multiplier that was seen to miss the target."""

_RAISED = 6
_LOWERED = 24
_STEPS = (0.01, 1.0)
_SLOPE = 20.0
"""Smallest and largest step down in log σ; how fast log δ rises as log σ falls where nothing is known yet (about that at δ = 1e-5)."""

_ROOM = 1e-5
"""How far below the target's ε an ε must lie, so that δ at the target's ε, with rounding of its own, is below the target's as well."""

_OVERSHOT = 1.2
_STEEPEST = 50.0
"""A log δ excess beyond ± this is no guide for interpolation."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """A noise multiplier that meets a target.

    Attributes:
      sigma: σ.
      evidence: `remove` and `add` at this very σ and the target ε, both with δ at most the target's.
      accountant: name of the accountant.
      evaluations: how many multipliers were tried.
      seconds: wall time spent.
    """

    sigma: float
    evidence: tuple[Evidence, Evidence]
    accountant: str
    evaluations: int
    seconds: float


def calibrate(
    scheme: BatchScheme, strategy: Strategy, *,
    epsilon: float, delta: float, accountant: Accountant | str, tolerance: float = TOLERANCE, at_most: float | None = None,
) -> Calibration:
    """The smallest σ at which both directions of the accountant's δ(ε) are at most δ.

    The returned σ was itself evaluated and meets the target; a multiplier smaller by the factor 1 − tolerance was evaluated and does not.

    Args:
      epsilon: target ε > 0.
      delta: target δ in (0, 1).
      accountant: an accountant or the name of one.
      tolerance: relative tolerance of σ, > 0.
      at_most: a σ > 0 beyond which none is of interest; None means no such limit.

    Raises:
      InputError: a target, or `at_most`, out of range.
      UnsupportedError: the accountant does not support the scheme.
      CalibrationError: no multiplier in the searched range was seen to meet the target, or all did.
    """
    started = time.perf_counter()
    epsilon, delta = checks.positive(epsilon=epsilon), checks.between(0, 1, delta=delta)
    tolerance = checks.between(0, 1, tolerance=tolerance)
    mechanism = make_mechanism(scheme=scheme, strategy=strategy, sigma=1.0)
    accountant = supported(accountant, mechanism)
    search = _Search(accountant=accountant, mechanism=mechanism, epsilon=epsilon, delta=delta)
    if isinstance(accountant, GaussianAccountant):
        best = search.probe(math.log(accountant.sigma(scheme, strategy, epsilon=epsilon, delta=delta)))
    else:
        # No amplified bound needs more than the unamplified Gaussian mechanism does, up to rounding.
        enough = mechanism.sensitivity / gaussian_mu(epsilon=epsilon, delta=delta) * (1 + 1e-9)
        if at_most is not None:
            enough = min(enough, checks.positive(at_most=at_most))
        best = search.narrowed(*search.bracket(math.log(enough), raised=_RAISED if at_most is None else 0), tolerance)
    if not best.meets:
        raise CalibrationError(f"{accountant.name} finds no noise multiplier for ({epsilon:g}, {delta:g})-DP: {search.report(best)}.")
    return Calibration(
        sigma=best.sigma, evidence=best.evidence, accountant=accountant.name,
        evaluations=search.evaluations, seconds=time.perf_counter() - started,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Probe:
    """One evaluated multiplier.

    Attributes:
      sigma: σ.
      excess: log of the worse direction's δ over the target; <= 0 meets it. NaN where the answer was unresolved, infinite where it failed.
      evidence: both directions, or None.
      failure: why there is none.
    """

    sigma: float
    excess: float
    evidence: tuple[Evidence, Evidence] | None = None
    failure: str = ""

    @property
    def meets(self) -> bool:
        return self.excess <= 0

    @property
    def misses(self) -> bool:
        return self.excess > 0


@dataclasses.dataclass(kw_only=True)
class _Search:
    """The root of δ(σ) − δ in log σ; a σ whose δ is unresolved counts as large enough to bracket with, but is never returned."""

    accountant: Accountant
    mechanism: Mechanism
    epsilon: float
    delta: float
    evaluations: int = 0

    def probe(self, log_sigma: float) -> _Probe:
        """The accountant's answer at one multiplier."""
        self.evaluations += 1
        sigma = math.exp(log_sigma)
        try:
            evidence, excess = self._answer(self.mechanism.with_sigma(sigma))
        except UnresolvedError as error:
            return _Probe(sigma=sigma, excess=math.nan, failure=str(error))
        except NumericalError as error:
            return _Probe(sigma=sigma, excess=math.inf, failure=str(error))
        return _Probe(sigma=sigma, excess=excess, evidence=evidence)

    def _answer(self, mechanism: Mechanism) -> tuple[tuple[Evidence, Evidence], float]:
        """(what the accountant says, by how much log δ exceeds the target's)."""
        if self.accountant.calibrates_by == "delta":
            evidence = self.accountant.delta(mechanism, epsilon=self.epsilon)
            achieved = worst(evidence).delta
            return evidence, math.log(achieved / self.delta) if achieved > 0 else -math.inf
        evidence = self.accountant.epsilon(mechanism, delta=self.delta)
        achieved, target = worst(evidence).epsilon, self.epsilon * (1 - _ROOM)
        if achieved <= target:
            # What holds at a smaller ε holds at the target's.
            evidence = tuple(dataclasses.replace(statement, epsilon=self.epsilon) for statement in evidence)
        return evidence, _SLOPE * math.log(achieved / target) if achieved > 0 else -math.inf

    def bracket(self, log_sigma: float, *, raised: int) -> tuple[_Probe, _Probe]:
        """(too small, large enough), from a multiplier that should be large enough and is else doubled up to `raised` times."""
        high = self.probe(log_sigma)
        for _ in range(raised):
            if not high.misses:
                break
            high = self.probe(math.log(high.sigma) + math.log(2))
        if high.misses:
            raise CalibrationError(
                f"{self.accountant.name} finds no noise multiplier up to {high.sigma:.4g} for ({self.epsilon:g}, {self.delta:g})-DP: "
                f"{self.report(high)}."
            )
        step = _step_down(high.excess, _SLOPE, unknown=0.25)
        for _ in range(_LOWERED):
            low = self.probe(math.log(high.sigma) - step)
            if low.misses:
                return low, high
            high, step = low, _step_down(low.excess, (low.excess - high.excess) / step, unknown=1.5 * step)
        if not high.meets:
            raise CalibrationError(
                f"{self.accountant.name} resolves no noise multiplier down to {high.sigma:.3g} for ({self.epsilon:g}, {self.delta:g})-DP: "
                f"{self.report(high)}."
            )
        raise CalibrationError(
            f"{self.accountant.name} finds even sigma={high.sigma:.3g} enough for ({self.epsilon:g}, {self.delta:g})-DP; "
            f"at this delta the scheme itself is the protection, choose a smaller one."
        )

    def narrowed(self, low: _Probe, high: _Probe, tolerance: float) -> _Probe:
        """The upper end of the bracket once it is narrower than the tolerance.

        Interpolation aims a little to the side of the root that was hit less recently, so that the bracket closes from both ends; every
        third step bisects, which bounds the number of steps whatever the function.
        """
        width = lambda: math.log(high.sigma / low.sigma)
        aim = 1.0
        while width() > tolerance:
            middle = 0.5 * math.log(high.sigma * low.sigma)
            if self.evaluations % 3 and abs(low.excess) < _STEEPEST and abs(high.excess) < _STEEPEST:
                root = math.log(low.sigma) + width() * low.excess / (low.excess - high.excess)
                margin = min(0.4 * tolerance, 0.1 * width())
                middle = min(max(root + aim * margin, math.log(low.sigma) + margin), math.log(high.sigma) - margin)
            probe = self.probe(middle)
            if probe.misses:
                low, aim = probe, 1.0
            else:
                high, aim = probe, -1.0
        return high

    def report(self, probe: _Probe) -> str:
        """What the accountant said at one multiplier."""
        if probe.evidence is None:
            return f"at sigma={probe.sigma:.4g}, {probe.failure.rstrip('.')}"
        statement = worst(probe.evidence)
        floor = statement.details.get("delta_floor")
        resolved = f" (delta_floor={floor:.3g})" if floor is not None else ""
        value = f"epsilon is {statement.epsilon:.4g}" if statement.epsilon > self.epsilon else f"delta is {statement.delta:.4g}"
        return f"at sigma={probe.sigma:.4g}, {value} in direction {statement.direction}{resolved}"


def _step_down(excess: float, slope: float, *, unknown: float) -> float:
    """How far to lower log σ from where log δ is off by `excess` <= 0, to a little beyond the root; `unknown` where that cannot be told."""
    beyond = _OVERSHOT * -excess / slope if slope > 0 and math.isfinite(excess) and math.isfinite(slope) else unknown
    return min(max(beyond, _STEPS[0]), _STEPS[1])
