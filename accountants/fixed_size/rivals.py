"""The two older Rényi bounds for fixed-size batches, for comparison in reports only.

Wang, Balle and Kasiviswanathan (2019), Theorem 9, and Birrell, Ebrahimi, Behnia and Pathak (2024), Theorem 3.4; as stated in
math/fixed-size-batches.md, section 8, with λ = Δ² = 4/σ². Both are evaluated in float64 and are not re-proved here, so their statements are
estimates: they show what the certified accountant improves on and guarantee nothing.
"""

import functools
import math

import numpy as np
from flint import arb
from scipy.special import gammaln

from accountants.fixed_size.balls import exact, precision
from accountants.fixed_size.conversion import DEFAULT_CAP, epsilon_at, log_delta_at
from accountants.fixed_size.mechanism import FixedSizeMechanism
from accountants.fixed_size.renyi import Result
from search_spaces.errors import NumericalError, UnsupportedError

_REASON = "comparison only: a published bound evaluated in float64, not certified here; deterministic, so its standard error is 0"
_TAYLOR_ORDERS = (3, 4, 5)


def wang_epsilon(mechanism: FixedSizeMechanism, *, delta: float) -> Result:
    """ε at δ by Wang et al., an estimate; orders 2 to 256."""
    return _least_epsilon(_wang_curves(mechanism), mechanism, delta)


def wang_delta(mechanism: FixedSizeMechanism, *, epsilon: float) -> Result:
    """δ at ε by Wang et al., an estimate."""
    return _least_delta(_wang_curves(mechanism), mechanism, epsilon)


def birrell_epsilon(mechanism: FixedSizeMechanism, *, delta: float) -> Result:
    """ε at δ by Birrell et al., an estimate; orders 2 to 256, Taylor orders 3 to 5."""
    return _least_epsilon(_birrell_curves(mechanism), mechanism, delta)


def birrell_delta(mechanism: FixedSizeMechanism, *, epsilon: float) -> Result:
    """δ at ε by Birrell et al., an estimate."""
    return _least_delta(_birrell_curves(mechanism), mechanism, epsilon)


@functools.lru_cache(maxsize=64)
def wang_curve(rate: float, squared_shift: float) -> np.ndarray:
    """(257,) float64: ρ_W(α) at index α, inf below 2.

    e^{(α−1)ρ} = 1 + Σ_{j=2}^{α} C(α,j) p^j ζ_j, ζ_2 = min(4(e^λ−1), 2e^λ), ζ_j = min(4√(M_{2⌊j/2⌋}M_{2⌈j/2⌉}), 2e^{j(j−1)λ/2}).
    """
    lam, log_p = squared_shift, math.log(rate)
    log_moments = _log_moments(lam)
    j = np.arange(2, DEFAULT_CAP + 1)
    central = math.log(4) + 0.5 * (log_moments[2 * (j // 2)] + log_moments[2 * ((j + 1) // 2)])
    central[0] = math.log(4) + _log_expm1(lam)
    log_zeta = np.minimum(central, math.log(2) + 0.5 * j * (j - 1) * lam)
    alpha = j[:, None]
    logs = np.where(j <= alpha, _log_choose(alpha, np.minimum(j, alpha)) + j * log_p + log_zeta, -np.inf)
    return _curve(np.logaddexp.reduce(logs, axis=1))


@functools.lru_cache(maxsize=64)
def birrell_curve(rate: float, squared_shift: float, taylor_order: int) -> np.ndarray:
    """(257,) float64: ρ_B(α) at index α with a Taylor expansion of `taylor_order` m in {3, 4, 5}, inf below 2.

    Raises:
      UnsupportedError: rate 1, where the remainder of the expansion is infinite.
    """
    if rate == 1:
        raise UnsupportedError("Expected batch_size < dataset_size for birrell, whose Taylor remainder is infinite at rate 1.")
    bounds = _log_even_moments(squared_shift)
    logs = [_birrell_log_excess(order, taylor_order, rate, squared_shift, bounds) for order in range(2, DEFAULT_CAP + 1)]
    return _curve(np.array(logs))


def _birrell_curves(mechanism: FixedSizeMechanism) -> dict[str, np.ndarray]:
    return {str(m): birrell_curve(float(mechanism.rate), float(mechanism.squared_shift), m) for m in _TAYLOR_ORDERS}


def _wang_curves(mechanism: FixedSizeMechanism) -> dict[str, np.ndarray]:
    return {"": wang_curve(float(mechanism.rate), float(mechanism.squared_shift))}


def _birrell_log_excess(order: int, m: int, p: float, lam: float, bounds: np.ndarray) -> float:
    """log(e^{(α−1)ρ_B} − 1)."""
    pairs = order * (order - 1)
    logs = [2 * math.log(p) + math.log(pairs) + lam / 2 + _log_expm1(lam / 2)]
    for k in range(3, m):
        factor = (4 if k % 2 == 0 else 3) + _taylor_coefficient(order, k)
        logs.append(k * math.log(p) - math.lgamma(k + 1) + (k - 1) * math.log(order) + math.log(order - 1) + bounds[k] + math.log(factor))
    logs.extend(_remainder(order, m, p, bounds))
    return float(np.logaddexp.reduce(logs))


def _taylor_coefficient(order: int, k: int) -> float:
    """Σ_j C(k,j) |α/(α−1) Π_{l=1}^{j−1}(1−l/α) Π_{l=0}^{k−j−1}(1+(l−1)/α) − 1|."""
    total = 0.0
    for j in range(k + 1):
        falling = math.prod(1 - i / order for i in range(1, j))
        rising = math.prod(1 + (i - 1) / order for i in range(k - j))
        total += math.comb(k, j) * abs(order / (order - 1) * falling * rising - 1)
    return total


def _remainder(order: int, m: int, p: float, bounds: np.ndarray) -> list[float]:
    """Logs of the positive terms of E_m; the leading B_m and the ℓ = 0 term both count, as in the authors' public code."""
    logs = []
    for j in range(min(m, order) + 1):
        falling = math.prod(order - i for i in range(j))
        rising = math.prod(order + i - 1 for i in range(m - j))
        if falling * rising == 0:
            continue
        rest = math.log1p(-p)
        if order <= j:
            inner = (order - j) * rest + bounds[m]
        else:
            power = np.arange(order - j + 1)
            terms = power * math.log(p) + gammaln(order - j + 1) - gammaln(order - j - power + 1) + math.lgamma(m + 1)
            terms = terms - gammaln(m + power + 1) + bounds[m + power]
            inner = np.logaddexp(bounds[m], np.logaddexp.reduce(terms))
        logs.append(
            m * math.log(p) - math.lgamma(m + 1) + math.log(math.comb(m, j) * falling * rising) - (order + m - j - 1) * rest + inner
        )
    return logs


def _curve(log_excess: np.ndarray) -> np.ndarray:
    """ρ at index α from log(e^{(α−1)ρ} − 1) for α = 2, 3, …"""
    orders = np.arange(2, log_excess.size + 2)
    rho = np.full(log_excess.size + 2, np.inf)
    rho[2:] = np.where(log_excess > 0, np.logaddexp(0, log_excess), np.log1p(np.exp(np.minimum(log_excess, 0)))) / (orders - 1)
    return rho


def _least_epsilon(curves: dict[str, np.ndarray], mechanism: FixedSizeMechanism, delta: float) -> Result:
    costs = {
        (order, name): epsilon_at(order, float(curve[order]), iterations=mechanism.iterations, delta=delta)
        for name, curve in curves.items() for order in range(2, DEFAULT_CAP + 1)
    }
    return _least(costs, lambda cost: max(0.0, cost))


def _least_delta(curves: dict[str, np.ndarray], mechanism: FixedSizeMechanism, epsilon: float) -> Result:
    costs = {
        (order, name): log_delta_at(order, float(curve[order]), iterations=mechanism.iterations, epsilon=epsilon)
        for name, curve in curves.items() for order in range(2, DEFAULT_CAP + 1)
    }
    return _least(costs, lambda cost: math.exp(min(0.0, cost)))


def _least(costs: dict[tuple[int, str], float], value) -> Result:
    (order, name), cost = min(costs.items(), key=lambda item: item[1])
    if not math.isfinite(cost):
        raise NumericalError("The older Rényi bounds are not finite here: their moments exceed float64 at this sigma.")
    details = {"reason": _REASON, "order": order, "order_cap": DEFAULT_CAP} | ({"taylor_order": int(name)} if name else {})
    return Result(value=value(cost), kind="estimate", details=details)


def _log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def _log_expm1(x: float) -> float:
    return math.log(math.expm1(x)) if x < 1 else x + math.log1p(-math.exp(-x))


@functools.lru_cache(maxsize=8)
def _log_even_moments(lam: float) -> np.ndarray:
    """(m,) float64: log B_k, B_k = M_k for even k and √(M_{k−1}M_{k+1}) for odd k."""
    bounds = _log_moments(lam).copy()
    odd = np.arange(1, bounds.size - 1, 2)
    bounds[odd] = 0.5 * (bounds[odd - 1] + bounds[odd + 1])
    return bounds


@functools.lru_cache(maxsize=8)
def _log_moments(lam: float) -> np.ndarray:
    """(265,) float64: log M_k, M_k = E(L−1)^k = Σ_l (−1)^{k−l} C(k,l) e^{l(l−1)λ/2}, in balls with enough bits for the cancellation."""
    size, bits = DEFAULT_CAP + 9, 256
    while True:
        with precision(bits):
            moments = _moments(exact(lam), size)
            if all(moment.rel_accuracy_bits() > 60 for moment in moments[2:]):
                return np.array([0.0, -math.inf] + [float(moment.log()) for moment in moments[2:]])
        bits *= 2


def _moments(lam: arb, size: int) -> list[arb]:
    """M_0 … M_{size−1} as the leading entries of repeated differences of the raw moments e^{l(l−1)λ/2}."""
    row = [(lam * (l * (l - 1) // 2)).exp() for l in range(size)]
    moments = []
    for _ in range(size):
        moments.append(row[0])
        row = [right - left for left, right in zip(row, row[1:])]
    return moments
