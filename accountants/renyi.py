"""The accountant `renyi`: Rényi divergences of the amplified mechanism from replica programs, on top of the exact Gaussian factor.

remove. For every α > 1, δ <= Z_⊥(α) · max_l δ_G(ε − l; ξ) e^{−(α−1)l} with Z_⊥(α) = E_Q LR_⊥^α of the residual mechanism and ξ the Gaussian
factor: E_P f(L_⊥) = E_Q LR_⊥^α · f(L_⊥) e^{−(α−1)L_⊥} with f = δ_G(ε − ·; ξ) (math/certificates.md, section 3). Without a factor ξ = 0 and
this is the usual conversion. It is never above the usual conversion of Z_α either, which bounds f by the largest value of its exponential
tilt instead of averaging it. log Z_⊥ is convex in α and 0 at α = 1, so chords between integer orders are upper bounds at real orders
(math/balls-in-bins.md, section (d)).

add. Rényi moments of order 1−α have no expansion over schedules; the closed bound by Jensen's inequality serves (`accountants.jensen`).

balls-in-bins. The dynamic program over bins reaches higher orders, at the price of truncations and without the factor; the smaller of
both bounds is stated in each direction. It is the only one where windows overlap.
"""

import dataclasses
import functools
import time
from collections.abc import Callable

import numpy as np
import scipy.optimize

from accountants.balls_in_bins.accounting import RenyiBallsInBins, renyi_evidence
from accountants.balls_in_bins.gram import cyclic_bandwidth, mechanism_gram
from accountants.balls_in_bins.renyi_dp import moments
from accountants.balls_in_bins.renyi_truncations import operations, wraps
from accountants.base import Accountant, overlap
from accountants.evidence import Evidence
from accountants.gaussian import GaussianAccountant
from accountants.jensen import JensenAccountant
from accountants.tilted import tilted_cost, tilted_log_moment, tilted_unsupported
from accountants.tilted.estimators import bound_from_log, log_remove_bound
from search_spaces import checks
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins

MOST_PRODUCTS = 3e8
"""Total size of the replica programs that are run for their moments alone: a few seconds on one core."""

_MOST_BANDED_PRODUCTS = 1e7

_LOWEST_ORDER = 1 + 1e-3
_HIGHEST_ORDER = 64
_ROUNDING = 1e-9
"""Added to every log moment: sums of non-negative terms over at most 10⁵ decisions err by less relatively."""

_EPSILON_TOLERANCE = 1e-6


class RenyiAccountant(Accountant):
    """Rényi bound for `remove`, Jensen's for `add`; neither is above the unamplified Gaussian's."""

    name = "renyi"
    kind = "bound"

    def unsupported(self, mechanism: Mechanism) -> str | None:
        if overlap(mechanism):
            return RenyiBallsInBins().unsupported(mechanism)
        if reason := tilted_unsupported(mechanism, alpha=2):
            return reason
        if (products := tilted_cost(mechanism, alpha=2).operations) > MOST_PRODUCTS:
            return f"The replica program of {mechanism.scheme.name} takes {products:.3g} products, more than {MOST_PRODUCTS:.3g}."
        return None

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        epsilon = checks.non_negative(epsilon=epsilon)
        self.require_support(mechanism)
        if overlap(mechanism):
            return renyi_evidence(mechanism, epsilon=epsilon)
        curve = _remove_curve(mechanism)
        delta, order = curve.delta(epsilon)
        remove, _ = GaussianAccountant().delta(mechanism, epsilon=epsilon)
        if delta < remove.delta:
            remove = self._amplified(remove, curve, order, start, delta=delta)
        statements = remove, JensenAccountant().delta(mechanism, epsilon=epsilon)[1]
        return self._stated(mechanism, statements, start, epsilon=epsilon)

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        delta = checks.between(0, 1, delta=delta)
        self.require_support(mechanism)
        if overlap(mechanism):
            return renyi_evidence(mechanism, delta=delta)
        curve = _remove_curve(mechanism)
        remove, _ = GaussianAccountant().epsilon(mechanism, delta=delta)
        epsilon = _smallest(lambda candidate: curve.delta(candidate)[0] <= delta, remove.epsilon)
        if epsilon < remove.epsilon:
            remove = self._amplified(remove, curve, curve.delta(epsilon)[1], start, epsilon=epsilon)
        statements = remove, JensenAccountant().epsilon(mechanism, delta=delta)[1]
        return self._stated(mechanism, statements, start, delta=delta)

    def _amplified(self, remove: Evidence, curve: "_Curve", order: float, start: float, **value: float) -> Evidence:
        details = {
            "of": remove.details["of"], "method": "Rényi, replica program", "order": order, "orders": len(curve.log_moments) - 1,
            "gaussian_factor": curve.xi,
        }
        return dataclasses.replace(remove, details=details, **value)

    def _stated(
        self, mechanism: Mechanism, statements: tuple[Evidence, Evidence], start: float, **question: float,
    ) -> tuple[Evidence, Evidence]:
        """The statements under this accountant's name; for balls-in-bins the smaller ones of two programs."""
        if isinstance(mechanism.scheme, BallsInBins):
            banded = renyi_evidence(mechanism, **question)
            # A δ that underflowed to zero is no bound.
            better = lambda one, other: 0 < other.delta and (other.delta, other.epsilon) < (one.delta, one.epsilon)
            statements = tuple(other if better(one, other) else one for one, other in zip(statements, banded, strict=True))
        seconds = time.perf_counter() - start
        return tuple(dataclasses.replace(statement, accountant=self.name, seconds=seconds) for statement in statements)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Curve:
    """What the remove direction needs at every ε.

    Attributes:
      log_moments: (A+1,) upper bounds on log Z_⊥(t), t = 0..A.
      xi: ξ, or 0.
    """

    log_moments: np.ndarray
    xi: float

    def delta(self, epsilon: float) -> tuple[float, float]:
        """δ and the real order that gives it; any order is valid.

        log δ is convex in the order: log Z_⊥ interpolated between integers is, and so is a largest value of functions linear in α.
        """
        log_bound = lambda order: log_remove_bound(epsilon=epsilon, xi=self.xi, order=order, log_moment=self._log_moment(order))
        highest = len(self.log_moments) - 1
        found = scipy.optimize.minimize_scalar(
            log_bound, bounds=(_LOWEST_ORDER, highest), method="bounded", options={"xatol": 1e-4 * highest},
        ).x
        order = min((found, max(np.floor(found), _LOWEST_ORDER), np.ceil(found)), key=log_bound)
        return min(1.0, bound_from_log(log_bound(order))), float(order)

    def _log_moment(self, order: float) -> float:
        return float(np.interp(order, np.arange(len(self.log_moments)), self.log_moments))


@functools.lru_cache(maxsize=8)
def _remove_curve(mechanism: Mechanism) -> _Curve:
    xi = mechanism.gaussian_factor
    plain = _banded_log_moments(mechanism) if isinstance(mechanism.scheme, BallsInBins) else None
    if plain is not None:
        t = np.arange(len(plain))
        return _Curve(log_moments=plain - t * (t - 1) / 2 * xi**2 + _ROUNDING * (t > 1), xi=xi)
    log_moments, products = [0.0, 0.0], 0
    for alpha in range(2, _HIGHEST_ORDER + 1):
        if tilted_unsupported(mechanism, alpha=alpha):
            break
        products += tilted_cost(mechanism, alpha=alpha).operations
        if products > MOST_PRODUCTS:
            break
        log_moments.append(tilted_log_moment(mechanism, alpha=alpha) + _ROUNDING)
    return _Curve(log_moments=np.array(log_moments), xi=xi)


def _banded_log_moments(mechanism: Mechanism) -> np.ndarray | None:
    """All orders at once where the Gram matrix has a band narrow enough for at least the fourth; None otherwise."""
    gram = mechanism_gram(mechanism)
    bandwidth = cyclic_bandwidth(gram)
    shape = dict(bins=len(gram), bandwidth=bandwidth, wraps=wraps(gram, bandwidth=bandwidth))
    orders = [order for order in range(2, _HIGHEST_ORDER + 1) if operations(order=order, **shape) <= _MOST_BANDED_PRODUCTS]
    if not orders or orders[-1] < 5:
        return None
    log_moments = moments(gram, sigma=mechanism.sigma, order=orders[-1], bandwidth=bandwidth).upper_logs()
    return log_moments[np.isfinite(log_moments)]


def _smallest(holds: Callable[[float], bool], enough: float) -> float:
    """An ε in [0, enough] at which `holds` was seen, close to the smallest; `enough` where it holds nowhere below."""
    if enough == 0 or holds(0.0):
        return 0.0
    low, high = 0.0, enough
    while high - low > _EPSILON_TOLERANCE * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
