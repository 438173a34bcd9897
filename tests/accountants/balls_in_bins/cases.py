"""Reference data, random Gram matrices, and δ by quadrature, enumeration and sampling, all straight from the definitions."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import scipy.integrate
from scipy.special import ndtr

from accountants.balls_in_bins.gram import toeplitz_gram
from search_spaces.dense_strategies import inverse_square_root_column, square_root_column

REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "balls_in_bins.json").read_text(encoding="utf-8"))


def column(kind: str, p: int, iterations: int) -> np.ndarray:
    """First column of the reference data's C."""
    if kind == "identity":
        return np.eye(1, iterations)[0]
    return {"bsr": square_root_column, "bisr": inverse_square_root_column}[kind](iterations=iterations, bandwidth=min(p, iterations))


def gram(case: dict) -> np.ndarray:
    """G of a reference case."""
    return toeplitz_gram(column=column(case["kind"], case["p"], case["b"] * case["k"]), bins=case["b"], epochs=case["k"])


def random_gram(rng: np.random.Generator, bins: int, dimension: int | None = None) -> np.ndarray:
    """G of random non-negative means, many entries zero."""
    means = rng.exponential(size=(dimension or 2 * bins, bins)) * (rng.random((dimension or 2 * bins, bins)) < 0.4)
    means[rng.integers(len(means), size=bins), np.arange(bins)] += 0.5
    return means.T @ means / len(means)


def enumerated_log_moment(gram: np.ndarray, *, sigma: float, order: int, band: int | None = None) -> float:
    """log E_Q X^α by the sum over all b^α tuples; entries at cyclic distance `band` or more are left out."""
    bins, total = len(gram), 0.0
    distance = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins)))
    kept = np.where(np.minimum(distance, bins - distance) < (band or bins), gram, 0.0)
    for r in itertools.product(range(bins), repeat=order):
        pairs = kept[np.ix_(r, r)]
        total += math.exp((pairs.sum() - np.trace(pairs)) / (2 * sigma**2))
    return math.log(total) - order * math.log(bins)


def exact_deltas(gram: np.ndarray, *, sigma: float, epsilon: float) -> tuple[float, float]:
    """δ of `remove` and `add` for two bins: a closed form in the second Gaussian, an integral split at its kink in the first.

    X = ½(e^A + e^B) with (A, B) Gaussian under Q, E e^A = E e^B = 1, and given A, B is Gaussian as well.
    """
    v = gram / sigma**2
    sd_a = math.sqrt(v[0, 0])
    slope = v[0, 1] / v[0, 0]
    sd_b = math.sqrt(max(v[1, 1] - slope * v[0, 1], 0.0))
    gamma = math.exp(epsilon)

    def integrand(z: float, strike: float, call: bool) -> float:
        a = sd_a * z - 0.5 * v[0, 0]
        mean_b = slope * sd_a * z - 0.5 * v[1, 1]
        left = strike - 0.5 * math.exp(a)
        forward = 0.5 * math.exp(mean_b + 0.5 * sd_b**2)
        if left <= 0:
            value = forward - left if call else 0.0
        elif sd_b < 1e-9:
            value = max(forward - left, 0.0) if call else max(left - forward, 0.0)
        else:
            d = (math.log(forward / left)) / sd_b + 0.5 * sd_b
            value = forward * ndtr(d) - left * ndtr(d - sd_b)
            value = value if call else value - forward + left
        return value * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

    def integral(strike: float, call: bool) -> float:
        kink = (math.log(2 * strike) + 0.5 * v[0, 0]) / sd_a
        ends = sorted({-12.0, min(max(kink, -12.0), 12.0 + sd_a), 12.0 + sd_a})
        return sum(
            scipy.integrate.quad(integrand, low, high, args=(strike, call), epsabs=1e-14, epsrel=1e-10, limit=200)[0]
            for low, high in zip(ends, ends[1:])
        )

    return integral(gamma, True), gamma * integral(1.0 / gamma, False)


def sampled_deltas(
    gram: np.ndarray, *, sigma: float, epsilon: float, samples: int, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(estimate, standard error) of δ for `remove` and `add`: means of payoffs in [0, 1] under P and under Q."""
    bins = len(gram)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    under_null = rng.standard_normal((samples, bins)) @ root.T / sigma - np.diag(gram) / (2 * sigma**2)
    under_mixture = under_null + gram[rng.integers(bins, size=samples)] / sigma**2
    gamma = math.exp(epsilon)
    remove = np.maximum(1.0 - gamma / np.exp(under_mixture).mean(axis=1), 0.0)
    add = np.maximum(1.0 - gamma * np.exp(under_null).mean(axis=1), 0.0)
    return tuple((float(payoff.mean()), float(payoff.std() / math.sqrt(samples))) for payoff in (remove, add))


def label(case: dict) -> str:
    """A short name of a reference case, for test ids."""
    return f"{case['kind']}{case['p']}-{case['b']}x{case['k']}-{case['sigma']}"
