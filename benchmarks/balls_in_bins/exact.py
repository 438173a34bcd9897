"""Rényi divergences by enumeration and quadrature, straight from the definitions: what bounds are compared with."""

import math

import numpy as np
from scipy.special import logsumexp

from accountants.balls_in_bins.gram import cyclic_bandwidth
from accountants.balls_in_bins.renyi_dp import moments
from search_spaces.errors import UnsupportedError

_REACH, _STEP, _FINE_STEP = 16.0, 0.4, 0.02
"""Trapezoidal rules of integrands that fall like a Gaussian: exact to rounding at these steps."""

_NARROW = 4


def remove_log_moment(gram: np.ndarray, *, sigma: float, order: int) -> float:
    """log E_Q X^α: over all pairs, triples or quadruples of bins, or by the sum over a narrow band.

    Raises:
      UnsupportedError: α > 4 and a wide band.
    """
    pairs, bins = np.exp(gram / sigma**2), len(gram)
    if order == 2:
        total = pairs.sum()
    elif order == 3:
        total = (pairs @ pairs * pairs).sum()
    elif order == 4:
        total = sum(np.trace(np.linalg.matrix_power(pairs * row, 3)) for row in pairs)
    elif cyclic_bandwidth(gram) <= _NARROW:
        return float(moments(gram, sigma=sigma, order=order, bandwidth=cyclic_bandwidth(gram)).logs[order])
    else:
        raise UnsupportedError(f"Expected order={order} to be at most 4 for a band wider than {_NARROW}.")
    return math.log(float(total)) - order * math.log(bins)


def add_log_moment(gram: np.ndarray, *, sigma: float, order: int) -> float | None:
    """log E_Q X^{1−α} by quadrature for up to three bins and for equal uncorrelated ones; None otherwise."""
    if len(gram) <= 3:
        return _few_bins(gram / sigma**2, order - 1)
    own = float(gram[0, 0])
    if np.allclose(gram, own * np.eye(len(gram)), rtol=1e-9, atol=1e-9 * own):
        return _equal_bins(own / sigma**2, len(gram), order - 1)
    return None


def _few_bins(covariance: np.ndarray, power: int) -> float:
    bins = len(covariance)
    z = np.arange(-_REACH, _REACH + _STEP, _STEP)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    grid = np.stack(np.meshgrid(*[z] * bins, indexing="ij"), axis=-1).reshape(-1, bins)
    logs = logsumexp(grid @ root.T - 0.5 * np.diag(covariance), axis=1) - math.log(bins)
    densities = -0.5 * (grid**2).sum(axis=1) + bins * math.log(_STEP / math.sqrt(2 * math.pi))
    return float(logsumexp(densities - power * logs))


def _equal_bins(variance: float, bins: int, power: int) -> float:
    """E X^{−t} = ∫ u^{t−1} (E e^{−uY/b})^b du / Γ(t), Y = e^{vz − v²/2}, on a grid of log u."""
    z = np.arange(-_REACH, _REACH + _FINE_STEP, _FINE_STEP)
    weights = np.exp(-0.5 * z**2) * _FINE_STEP / math.sqrt(2 * math.pi)
    y = np.exp(math.sqrt(variance) * z - 0.5 * variance)
    steps = np.linspace(-40.0, 40.0, 2001)
    logs = np.array([power * s + bins * math.log(max(float(weights @ np.exp(-math.exp(s) / bins * y)), 1e-300)) for s in steps])
    return float(logsumexp(logs) + math.log(steps[1] - steps[0])) - math.lgamma(power)
