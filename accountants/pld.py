"""The accountant `pld`: privacy loss distributions of Poisson sampling and random allocation; cyclic schemes by reduction to them.

Windows do not overlap, so a cyclic scheme is DP-SGD over the T/b eligible steps with noise σ/‖c‖ (math/batch-schemes.md, "The schemes").
One step (Poisson) or one group of steps (random allocation) becomes a law of likelihood ratios rounded up in convex order
(accountants/ratio_law.py); dp_accounting composes its privacy loss distributions in both directions.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import numpy as np
import scipy.stats
from dp_accounting.pld.pld_pmf import DensePLDPmf
from scipy.special import log_ndtr

from accountants import ratio_law
from accountants.balls_in_bins.accounting import GramMajorantPld
from accountants.base import Accountant
from accountants.evidence import DIRECTIONS, Evidence
from accountants.gaussian import gaussian_delta_bounds, gaussian_epsilon
from accountants.ratio_law import RatioLaw
from search_spaces import checks
from search_spaces.errors import UnresolvedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins

_POISSON = ("poisson", "cyclic_poisson")
_ALLOCATION = ("random_allocation", "cyclic_ra", "nested_ra")
_SMALLEST_MU, _LARGEST_MU = 1e-6, 25.0
"""Outside this range the unamplified mixture answers: e^{μ²/2 + 9μ} would leave float64, or the rounding of e^{μz} would count."""

_HOPELESS = 0.9
"""Where a test of one step already shows this much δ, the unamplified mixture answers and no distribution is built."""

_RESOLVED = 10.0
"""A δ is resolved from this multiple of the mass that rounding can misplace."""

_CACHED = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reduction:
    """DP-SGD with the same privacy.

    Attributes:
      steps: T/b.
      mu: ‖c‖/σ, the mean that one participation adds to one step, in standard deviations.
      probability: the participation probability of one step.
      participations: K where exactly K steps are drawn, None where every step is drawn on its own (Poisson).
    """

    steps: int
    mu: float
    probability: float
    participations: int | None

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Reduction":
        """The reduction of a supported mechanism."""
        scheme = mechanism.scheme
        steps, mu = scheme.iterations // scheme.bandwidth, mechanism.strategy.column_norm / mechanism.sigma
        if scheme.fixed_participations:
            return cls(steps=steps, mu=mu, probability=scheme.participations / steps, participations=scheme.participations)
        return cls(steps=steps, mu=mu, probability=scheme.probability, participations=None)

    @property
    def resolvable(self) -> bool:
        """Whether a law of ratios can be built."""
        return _SMALLEST_MU <= self.mu <= _LARGEST_MU

    def mixture_delta(self, epsilon: float) -> float:
        """An upper bound without amplification: schedules are mixed over the number of their participations alone (joint convexity)."""
        counts, weights = self._counts()
        return min(1.0, (1 + 1e-9) * float(weights @ gaussian_delta_bounds(epsilon=epsilon, mu=np.sqrt(counts) * self.mu)[1]))

    def mixture_epsilon(self, delta: float) -> float:
        """ε of the same bound, rounded up."""
        if self.mixture_delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, max(0.0, gaussian_epsilon(delta=delta, mu=math.sqrt(self._counts()[0][-1]) * self.mu)) * (1 + 1e-6)
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.mixture_delta(middle) <= delta else (middle, high)
        return high

    def detected_delta(self, epsilon: float) -> float:
        """A lower bound on δ_remove: the event that the largest of all steps exceeds the best of a few thresholds."""
        thresholds = np.linspace(0.2, 1.0, 17) * self.mu
        quiet, loud = log_ndtr(thresholds), log_ndtr(thresholds - self.mu)
        if self.participations is None:
            with np.errstate(divide="ignore"):
                missed = self.steps * np.logaddexp(np.log1p(-self.probability) + quiet, math.log(self.probability) + loud)
        else:
            missed = (self.steps - self.participations) * quiet + self.participations * loud
        false_alarm = -np.expm1(self.steps * quiet)
        with np.errstate(over="ignore"):
            return float(np.max(-np.expm1(missed) - np.exp(epsilon) * false_alarm))

    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        if self.participations is not None:
            return np.array([float(self.participations)]), np.ones(1)
        counts = np.arange(1, self.steps + 1, dtype=float)
        return counts, scipy.stats.binom.pmf(counts, self.steps, self.probability)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LossDistribution:
    """A composed privacy loss distribution in one direction, as an upper bound.

    Attributes:
      pmf: the distribution.
      rounding: a bound on the probability mass that float64 rounding can have misplaced; added to every δ.
    """

    pmf: DensePLDPmf
    rounding: float

    @property
    def delta_floor(self) -> float:
        """The smallest δ at which ε is resolved."""
        return _RESOLVED * (self.rounding + self.pmf.get_delta_for_epsilon(math.inf))

    def delta(self, epsilon: float) -> float:
        """δ at ε >= 0, an upper bound."""
        return float(min(1.0, max(0.0, self.pmf.get_delta_for_epsilon(epsilon)) + self.rounding))

    def epsilon(self, delta: float) -> float:
        """ε at δ, an upper bound.

        Raises:
          UnresolvedError: δ is below `delta_floor`.
        """
        if delta < self.delta_floor:
            raise UnresolvedError(
                f"delta={delta:.3g} is below delta_floor={self.delta_floor:.3g}, the smallest that this discretisation resolves; "
                "use the accountant gaussian or a larger delta."
            )
        return float(self.pmf.get_epsilon_for_delta(delta - self.rounding))


def loss_distributions(reduction: Reduction) -> tuple[LossDistribution, LossDistribution]:
    """`remove` and `add` of a resolvable reduction; kept in a bounded cache, since a search asks for one μ at many strategies."""
    # Strategies of one norm differ by its last bits; rounded up to 40 bits they share an entry.
    fraction, exponent = math.frexp(reduction.mu)
    mu = math.ldexp(math.ceil(math.ldexp(fraction, 40)), exponent - 40)
    return _cached_distributions(dataclasses.replace(reduction, mu=mu))


@functools.lru_cache(maxsize=_CACHED)
def _cached_distributions(reduction: Reduction) -> tuple[LossDistribution, LossDistribution]:
    if reduction.participations is None:
        law = ratio_law.subsampled_gaussian_law(mu=reduction.mu, probability=reduction.probability)
        return _composed([(law, reduction.steps)])
    size, longer = divmod(reduction.steps, reduction.participations)
    law = ratio_law.mean_gaussian_law(mu=reduction.mu, steps=size)
    if not longer:
        return _composed([(law, reduction.participations)])
    # K does not divide the steps: some groups of the partition have one step more.
    law, longer_law = ratio_law.aligned(law, ratio_law.mean_gaussian_law(mu=reduction.mu, steps=size + 1))
    return _composed([(law, reduction.participations - longer), (longer_law, longer)])


def _composed(laws: list[tuple[RatioLaw, int]]) -> tuple[LossDistribution, LossDistribution]:
    """Independent laws, each so many times."""
    return tuple(_composed_direction([(*pmf(law), times) for law, times in laws]) for pmf in (_remove_pmf, _add_pmf))


def _composed_direction(factors: list[tuple[DensePLDPmf, float, int]]) -> LossDistribution:
    pmf, compositions = None, sum(times for *_, times in factors)
    for factor, _, times in factors:
        power = factor.self_compose(times) if times > 1 else factor
        pmf = power if pmf is None else pmf.compose(power)
    # Each Fourier transform errs by about log₂(size) roundings of its largest term, and a power multiplies that by its exponent.
    rounding = sum(defect * times for _, defect, times in factors) + compositions * math.log2(pmf.size + 1) * np.finfo(float).eps
    return LossDistribution(pmf=pmf, rounding=rounding)


def _remove_pmf(law: RatioLaw) -> tuple[DensePLDPmf, float]:
    """Losses log W under P, and how far their mass is from 1."""
    masses = law.masses * law.ratios
    return DensePLDPmf(law.step, law.first, masses, law.at_infinity, True), abs(math.fsum(masses) + law.at_infinity - 1)


def _add_pmf(law: RatioLaw) -> tuple[DensePLDPmf, float]:
    """Losses −log W under Q, and how far their mass is from 1."""
    masses = law.masses[::-1].copy()
    return DensePLDPmf(law.step, -law.last, masses, law.at_zero, True), abs(math.fsum(masses) + law.at_zero - 1)


class PldAccountant(Accountant):
    """Upper bounds from privacy loss distributions: Poisson schemes to discretisation, random allocation as K compositions of 1-out-of-n.

    `nested_ra` is bounded by `cyclic_ra`: it is the mixture over residues of what `cyclic_ra` is for the worst one (joint convexity).
    `balls_in_bins` is bounded by random allocation above its Gram matrix (accountants/balls_in_bins/gram_majorant.py).
    """

    name = "pld"
    kind = "bound"

    def unsupported(self, mechanism: Mechanism) -> str | None:
        if isinstance(mechanism.scheme, BallsInBins):
            return GramMajorantPld().unsupported(mechanism)
        if mechanism.scheme.name in _POISSON + _ALLOCATION:
            return None
        served = ", ".join((*_POISSON, *_ALLOCATION, BallsInBins.name))
        return f"{mechanism.scheme.name} has no reduction to Poisson sampling or random allocation; pld serves {served}."

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        epsilon = checks.non_negative(epsilon=epsilon)
        if isinstance(mechanism.scheme, BallsInBins):
            return self._renamed(GramMajorantPld().delta(mechanism, epsilon=epsilon))
        reduction = self._reduction(mechanism)
        start = time.perf_counter()
        mixture = reduction.mixture_delta(epsilon)
        if not reduction.resolvable or reduction.detected_delta(epsilon) >= _HOPELESS:
            return self._evidence(mechanism, start, "delta", None, lambda _: (epsilon, mixture))
        pair = loss_distributions(reduction)
        return self._evidence(mechanism, start, "delta", pair, lambda loss: (epsilon, min(mixture, loss.delta(epsilon))))

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        delta = checks.between(0, 1, delta=delta)
        if isinstance(mechanism.scheme, BallsInBins):
            return self._renamed(GramMajorantPld().epsilon(mechanism, delta=delta))
        reduction = self._reduction(mechanism)
        start = time.perf_counter()
        mixture = reduction.mixture_epsilon(delta)
        if not reduction.resolvable:
            return self._evidence(mechanism, start, "epsilon", None, lambda _: (mixture, delta))
        pair = loss_distributions(reduction)
        return self._evidence(mechanism, start, "epsilon", pair, lambda loss: (min(mixture, loss.epsilon(delta)), delta))

    def _renamed(self, evidence: tuple[Evidence, Evidence]) -> tuple[Evidence, Evidence]:
        return tuple(dataclasses.replace(statement, accountant=self.name) for statement in evidence)

    def _reduction(self, mechanism: Mechanism) -> Reduction:
        self.require_support(mechanism)
        return Reduction.of(mechanism)

    def _evidence(
        self, mechanism: Mechanism, start: float, of: str, pair: tuple[LossDistribution, LossDistribution] | None,
        answer: Callable[[LossDistribution | None], tuple[float, float]],
    ) -> tuple[Evidence, Evidence]:
        evidence = []
        for direction, loss in zip(DIRECTIONS, pair or (None, None)):
            epsilon, delta = answer(loss)
            evidence.append(Evidence(
                accountant=self.name, direction=direction, kind=self.kind, epsilon=epsilon, delta=delta,
                adjacency=mechanism.scheme.adjacency, seconds=time.perf_counter() - start, details=_details(mechanism, of, loss),
            ))
        return tuple(evidence)


def _details(mechanism: Mechanism, of: str, loss: LossDistribution | None) -> dict[str, object]:
    poisson = mechanism.scheme.name in _POISSON
    details = {"of": of, "method": "privacy loss distribution", "sampling": "poisson" if poisson else "random allocation"}
    if loss is None:
        details |= {"method": "unamplified mixture", "reason": "too little (or too much) noise for amplification to be worth computing"}
    else:
        details |= {"delta_floor": float(loss.delta_floor), "points": loss.pmf.size}
    if mechanism.scheme.name == "nested_ra":
        details["reduction"] = "upper bound: cyclic_ra, the residue made public"
    return details
