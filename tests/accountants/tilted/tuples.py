"""The tilted law of α-tuples by brute force: every tuple of schedules with its weight Π P(x^i) · exp(Σ_{i<j} ⟨Cx^i, Cx^j⟩/σ²)."""

import itertools
import math

import numpy as np
import scipy.stats

from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy
from tests.enumeration import schedules


def mechanism(
    name: str, iterations: int, participations: int, bandwidth: int, *, sigma: float = 0.8, coefficients: int | None = None,
) -> Mechanism:
    """A small mechanism; `coefficients` is how many of 1.05, 0.55, 0.38, … the strategy has (as many as fit by default)."""
    scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
    column = 1.0 / np.arange(1, (coefficients or scheme.separation) + 1) + 0.05
    strategy = ToeplitzStrategy(iterations=iterations, coefficients=tuple(column.tolist()))
    return Mechanism(scheme=scheme, strategy=strategy, sigma=sigma)


def log_weights(one: Mechanism, alpha: int) -> np.ndarray:
    """(n,)·alpha float64: log weights of all α-tuples of the n schedules, in the order of `schedules`."""
    rows, probabilities = schedules(one.scheme)
    means = rows @ one.strategy.dense().T
    gram = means @ means.T / one.sigma**2
    total = np.zeros([len(rows)] * alpha)
    for i in range(alpha):
        total += np.log(probabilities).reshape([-1 if axis == i else 1 for axis in range(alpha)])
    for i, j in itertools.combinations(range(alpha), 2):
        total += gram.reshape([len(rows) if axis in (i, j) else 1 for axis in range(alpha)])
    return total


def log_moment(one: Mechanism, alpha: int) -> float:
    """log Z_α."""
    weights = log_weights(one, alpha)
    return float(np.log(np.sum(np.exp(weights - weights.max()))) + weights.max())


def p_value(one: Mechanism, samples: np.ndarray) -> float:
    """Chi-squared p-value of sampled α-tuples against the tilted law; cells that expect fewer than five are pooled."""
    size, alpha, _ = samples.shape
    rows, _ = schedules(one.scheme)
    number = {tuple(np.flatnonzero(row)): index for index, row in enumerate(rows)}
    steps = [[number[tuple(step for step in replica if step < one.scheme.iterations)] for replica in tuple_] for tuple_ in samples.tolist()]
    weights = log_weights(one, alpha)
    expected = size * np.exp(weights - log_moment(one, alpha)).ravel()
    observed = np.bincount(np.ravel_multi_index(np.array(steps).T, weights.shape), minlength=expected.size)
    rare = expected < 5
    cells = np.append(expected[~rare], expected[rare].sum()), np.append(observed[~rare], observed[rare].sum())
    kept = cells[0] > 0
    statistic = float(np.sum((cells[1] - cells[0])[kept] ** 2 / cells[0][kept]))
    return float(scipy.stats.chi2.sf(statistic, max(int(kept.sum()) - 1, 1)))


def log_ratio(one: Mechanism, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log LR and, by projecting y off v, log LR_⊥ (the same where participations are not fixed), each (n,), by enumeration."""
    rows, probabilities = schedules(one.scheme)
    means = rows @ one.strategy.dense().T
    removed = 0.0
    residual = y
    if one.scheme.fixed_participations:
        direction = np.linalg.solve(one.strategy.dense().T, np.ones(one.scheme.iterations))
        direction /= np.linalg.norm(direction)
        residual = y - np.outer(y @ direction, direction)
        removed = float((means[0] @ direction) ** 2)
    return tuple(_log_mean(points, means, probabilities, one.sigma, norm) for points, norm in ((y, 0.0), (residual, removed)))


def _log_mean(y: np.ndarray, means: np.ndarray, probabilities: np.ndarray, sigma: float, removed: float) -> np.ndarray:
    exponents = (y @ means.T - 0.5 * (np.sum(means**2, axis=1) - removed)) / sigma**2
    largest = exponents.max(axis=1)
    return np.log(np.exp(exponents - largest[:, None]) @ probabilities) + largest


def outputs(one: Mechanism, positions: np.ndarray, rng: np.random.Generator, *, scale: float = 1.0) -> np.ndarray:
    """(n, T): y = θ·Σ_i C x^i + σz for sampled tuples of positions."""
    signal = np.zeros((len(positions), one.scheme.iterations + 1))
    for replica in range(positions.shape[1]):
        np.add.at(signal, (np.arange(len(positions))[:, None], positions[:, replica]), 1.0)
    mean = signal[:, :-1] @ one.strategy.dense().T
    return scale * mean + one.sigma * rng.standard_normal(mean.shape)


def separation_exponent(one: Mechanism, alpha: int) -> float:
    """The largest exponent a sum over tuples can reach."""
    return alpha * (alpha - 1) / 2 * math.ceil(one.scheme.iterations / one.scheme.separation) * (one.strategy.column_norm / one.sigma) ** 2
