"""The add direction: bounds on H(Q‖P) by the AM–GM inequality (math/balls-in-bins.md, section (c)).

X >= e^{−Z} with Z ~ N(h·trG/(2b), h·‖m̄‖²) under Q, ‖m̄‖² = Σ_ij G_ij / b².
"""

import math

import numpy as np

from accountants.balls_in_bins.conversion import ROUND_UP, smallest_epsilon
from accountants.gaussian import gaussian_delta_bounds


def _shift_and_mean(gram: np.ndarray, sigma: float) -> tuple[float, float]:
    """(h·trG/(2b), h·‖m̄‖²), rounded up."""
    up = (1 + ROUND_UP) / sigma**2
    return 0.5 * up * float(np.diag(gram).mean()), up * float(gram.mean())


def add_log_moments(gram: np.ndarray, *, sigma: float, orders: np.ndarray) -> np.ndarray:
    """The published bound on log E_Q X^{1−α} = (α−1)·R_α(Q‖P), at real orders α > 1."""
    shift, mean = _shift_and_mean(gram, sigma)
    steps = np.asarray(orders, float) - 1
    return steps * shift + 0.5 * steps**2 * mean


def published_add_epsilon(gram: np.ndarray, *, sigma: float, delta: float, order: int) -> tuple[float, float]:
    """(ε, α) of the published bound with integer α in 2..order; `shifted_gaussian_epsilon` is never larger."""
    orders = np.arange(2, order + 1, dtype=float)
    logs = add_log_moments(gram, sigma=sigma, orders=orders)
    epsilons = (logs + orders * np.log1p(-1 / orders) - math.log(delta) - np.log(orders - 1)) / (orders - 1)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best]) * (1 + ROUND_UP)), float(orders[best])


def shifted_gaussian_delta(gram: np.ndarray, *, sigma: float, epsilon: float) -> float:
    """δ >= H_{e^ε}(Q‖P): δ_Gauss(ε − Δ; μ), μ² = h‖m̄‖², Δ = (h/2)(trG/b − ‖m̄‖²) >= 0."""
    shift, mean = _shift_and_mean(gram, sigma)
    # Rounding the mean up alone would make Δ smaller, so Δ gets the inflation back.
    gap = shift - 0.5 * mean + ROUND_UP * (shift + mean)
    return float(gaussian_delta_bounds(epsilon=epsilon - max(gap, 0.0), mu=math.sqrt(mean))[1])


def shifted_gaussian_epsilon(gram: np.ndarray, *, sigma: float, delta: float) -> float:
    """The smallest ε >= 0 found with `shifted_gaussian_delta` at most δ."""
    return smallest_epsilon(lambda epsilon: shifted_gaussian_delta(gram, sigma=sigma, epsilon=epsilon), delta)
