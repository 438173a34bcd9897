"""Exact δ of mechanisms of two iterations, by a trapezoidal sum over the outputs y and the enumeration of all schedules."""

import functools

import numpy as np

from search_spaces.mechanism import Mechanism
from tests.enumeration import log_likelihood_ratio

POINTS_PER_SIGMA = 25
REACH = 7.0


@functools.lru_cache(maxsize=None)
def exact_deltas(mechanism: Mechanism, *, epsilon: float) -> tuple[float, float]:
    """δ of `remove` and `add` at ε, from H(P, Q) = E_Q (LR − e^ε)_+ and H(Q, P) = E_Q (1 − e^ε LR)_+."""
    assert mechanism.scheme.iterations == 2
    farthest = REACH + np.abs(mechanism.strategy.dense()).sum() / mechanism.sigma
    axis = np.linspace(-farthest, farthest, 2 * round(POINTS_PER_SIGMA * farthest) + 1)
    # Turned by one radian, so that the kink at LR = e^ε, often parallel to an axis of y, meets the grid at all phases.
    turn = np.array([[np.cos(1.0), np.sin(1.0)], [-np.sin(1.0), np.cos(1.0)]])
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) @ turn
    density = np.exp(-0.5 * np.sum(z**2, axis=1)) * (axis[1] - axis[0]) ** 2 / (2 * np.pi)
    ratio = np.exp(log_likelihood_ratio(mechanism.scheme, mechanism.strategy, sigma=mechanism.sigma, y=mechanism.sigma * z))
    remove = density @ np.maximum(ratio - np.exp(epsilon), 0.0)
    return float(remove), float(density @ np.maximum(1.0 - np.exp(epsilon) * ratio, 0.0))
