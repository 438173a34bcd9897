"""The Gaussian mechanism: δ_G, its inverses, the accountant `gaussian`, and the lower bounds that the Gaussian factor gives.

δ_G(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) is H(N(μ,1), N(0,1)) = H(N(0,1), N(μ,1)) at any real ε. Values used as bounds are rounded
outwards. Sources: math/batch-schemes.md, "The schemes", and math/certificates.md, "The Gaussian factor".
"""

import math
import time
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from accountants.base import Accountant, overlap
from accountants.evidence import DIRECTIONS, Evidence
from search_spaces import checks
from search_spaces.errors import UnsupportedError
from search_spaces.mechanism import Mechanism, factor_norm
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

_EPS = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)


def gaussian_delta(*, epsilon: np.ndarray | float, mu: np.ndarray | float) -> np.ndarray | float:
    """δ_G(ε; μ), elementwise and broadcast: float64 in [0, 1], down to 1e-300 with relative error below 1e-11 for μ >= 1e-3.

    Args:
      epsilon: any real numbers; ±inf give 0 and 1.
      mu: means, > 0.
    """
    delta, _ = _delta_and_slack(epsilon, mu)
    return delta if np.ndim(delta) else float(delta)


def gaussian_delta_bounds(*, epsilon: np.ndarray | float, mu: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """A lower and an upper bound of δ_G(ε; μ) that hold despite float64 rounding; shapes as in `gaussian_delta`."""
    delta, slack = _delta_and_slack(epsilon, mu)
    return np.maximum(delta - slack - _TINY, 0.0), np.minimum(delta + slack + _TINY, 1.0)


def _delta_and_slack(epsilon: np.ndarray | float, mu: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """δ_G by δ_G(−e) = 1 − e^{−e} + e^{−e} δ_G(e), and a bound on its rounding error."""
    epsilon, mu = np.asarray(epsilon, float), np.asarray(mu, float)
    delta, slack = _at_non_negative(np.abs(epsilon), mu)
    weight = np.exp(np.minimum(epsilon, 0.0))
    delta = np.where(epsilon < 0, weight * delta - np.expm1(np.minimum(epsilon, 0.0)), delta)
    return delta, np.where(epsilon < 0, weight * slack + 4 * _EPS, slack)


def _at_non_negative(epsilon: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With x = ε/μ − μ/2: Φ(−x) − ½e^{−x²/2} erfcx((x+μ)/√2), in which e^ε has cancelled and both tails are relative to e^{−x²/2}."""
    x = epsilon / mu - mu / 2
    density = 0.5 * np.exp(-0.5 * np.square(x))
    first = np.where(x < 0, ndtr(-x), density * erfcx(np.maximum(x, 0.0) / math.sqrt(2)))
    delta = np.maximum(first - density * erfcx((x + mu) / math.sqrt(2)), 0.0)
    # x carries the rounding of ε/μ and μ/2; d log Φ(−x)/dx is at most |x| + 1 in size.
    with np.errstate(invalid="ignore"):
        conditioning = np.where(np.isinf(x), 0.0, 16 + 4 * (epsilon / mu + mu) * (np.abs(x) + 1))
    return delta, _EPS * first * conditioning


def interval_probabilities(z: np.ndarray) -> np.ndarray:
    """(..., n−1) float64: Φ(z_{k+1}) − Φ(z_k) along the last axis of ascending z, (..., n), from whichever tail loses fewer digits."""
    return np.where(z[..., 1:] > 0, ndtr(-z[..., :-1]) - ndtr(-z[..., 1:]), np.diff(ndtr(z), axis=-1))


def gaussian_epsilon(*, delta: float, mu: float) -> float:
    """The smallest real ε (possibly negative) with δ_G(ε; μ) <= δ, rounded up by less than about 1e-12."""
    delta, mu = checks.between(0, 1, delta=delta), checks.positive(mu=mu)
    holds = lambda epsilon: gaussian_delta_bounds(epsilon=epsilon, mu=mu)[1] <= delta
    # δ_G(e) <= Φ(μ/2 − e/μ) bounds the root from above, δ_G(e) >= 1 − e^e from below.
    low, high = math.log1p(-delta), mu * (mu / 2 - float(ndtri(delta)))
    high = max(high, low) + mu * 1e-6
    while not holds(high):
        high += mu
    return _boundary(holds, inside=high, outside=low)


def gaussian_mu(*, epsilon: float, delta: float, round_up: bool = False) -> float:
    """μ* with δ_G(ε; μ*) = δ, rounded down (so that μ* is (ε, δ)-DP), or up for use in lower limits.

    Raises:
      InputError: ε negative or not finite, or δ not in (0, 1).
    """
    epsilon, delta = checks.non_negative(epsilon=epsilon), checks.between(0, 1, delta=delta)
    safe = lambda mu: gaussian_delta_bounds(epsilon=epsilon, mu=mu)[1] <= delta
    unsafe = lambda mu: gaussian_delta_bounds(epsilon=epsilon, mu=mu)[0] >= delta
    # δ_G(ε; μ) <= δ_G(0; μ) < μ/2.
    low, high = delta, 1.0
    while not unsafe(high):
        high *= 2
    return _boundary(unsafe, inside=high, outside=low) if round_up else _boundary(safe, inside=low, outside=high)


def _boundary(holds: Callable[[float], bool], *, inside: float, outside: float) -> float:
    """The point closest to `outside` found by bisection at which `holds`, which it does at `inside`."""
    while abs(outside - inside) > 1e-14 * max(abs(inside), abs(outside)):
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


class GaussianAccountant(Accountant):
    """The unamplified Gaussian mechanism of sensitivity √(max participations)·‖c‖: an upper bound for every scheme.

    A schedule is a Gaussian mechanism of mean ‖Cx‖ at most that sensitivity, and a scheme is a mixture of schedules against one Q, so the
    bound follows from joint convexity in both directions. It is exact for `deterministic`, whose windows are never truncated.
    """

    name = "gaussian"
    kind = "bound"

    def unsupported(self, mechanism: Mechanism) -> str | None:
        return overlap(mechanism)

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        self.require_support(mechanism)
        epsilon = checks.non_negative(epsilon=epsilon)
        delta = float(gaussian_delta_bounds(epsilon=epsilon, mu=mechanism.sensitivity / mechanism.sigma)[1])
        return self._evidence(mechanism, epsilon, delta, "delta", start)

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        self.require_support(mechanism)
        delta = checks.between(0, 1, delta=delta)
        epsilon = max(0.0, gaussian_epsilon(delta=delta, mu=mechanism.sensitivity / mechanism.sigma))
        return self._evidence(mechanism, epsilon, delta, "epsilon", start)

    def sigma(self, scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float) -> float:
        """The closed form: the smallest σ this bound certifies, rounded up."""
        sensitivity = Mechanism(scheme=scheme, strategy=strategy, sigma=1.0).sensitivity
        return math.nextafter(sensitivity / gaussian_mu(epsilon=epsilon, delta=delta), math.inf)

    def _evidence(self, mechanism: Mechanism, epsilon: float, delta: float, of: str, start: float) -> tuple[Evidence, Evidence]:
        exact = not mechanism.scheme.amplified
        details = {
            "of": of, "method": "Gaussian mechanism", "sensitivity": mechanism.sensitivity, "exact": exact,
            "reason": "exact" if exact else "upper bound: amplification is not used",
        }
        seconds = time.perf_counter() - start
        return tuple(
            Evidence(
                accountant=self.name, direction=direction, kind=self.kind, epsilon=epsilon, delta=delta,
                adjacency=mechanism.scheme.adjacency, seconds=seconds, details=details,
            )
            for direction in DIRECTIONS
        )


def lower_delta(mechanism: Mechanism, *, epsilon: float) -> float:
    """δ_G(ε; ξ), rounded down: no accounting of this mechanism can give less, in either direction.

    Raises:
      UnsupportedError: participations are not fixed.
    """
    _require_fixed(mechanism.scheme)
    epsilon = checks.non_negative(epsilon=epsilon)
    return float(gaussian_delta_bounds(epsilon=epsilon, mu=mechanism.gaussian_factor * (1 - 8 * _EPS))[0])


def lowest_sigma(scheme: BatchScheme, strategy: ToeplitzStrategy, *, epsilon: float, delta: float) -> float:
    """Kκ/μ*, rounded down: no smaller σ can be (ε, δ)-DP with this scheme and strategy, whatever the accounting.

    Raises:
      UnsupportedError: participations are not fixed.
    """
    _require_fixed(scheme)
    mu = gaussian_mu(epsilon=epsilon, delta=delta, round_up=True)
    return factor_norm(scheme, strategy) / mu * (1 - 8 * _EPS)


def rmse_lower_limit(*, iterations: int, epsilon: float, delta: float) -> float:
    """√((T+1)/(2T)) / μ*: the RMSE that no scheme with fixed participations goes below while h = cumsum(C⁻¹e₀) is non-increasing."""
    iterations = checks.integer(iterations=iterations)
    return math.sqrt((iterations + 1) / (2 * iterations)) / gaussian_mu(epsilon=epsilon, delta=delta, round_up=True)


def _require_fixed(scheme: BatchScheme) -> None:
    if not scheme.fixed_participations:
        raise UnsupportedError(f"Expected a scheme with exactly K participations; {scheme.name} has no Gaussian factor.")
