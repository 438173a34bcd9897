"""Monte Carlo estimates of ε for any Gram matrix: importance sampling in b dimensions. No guarantee."""

import math

import numpy as np
from scipy.special import logsumexp

from accountants.balls_in_bins.conversion import smallest_epsilon
from accountants.evidence import DIRECTIONS


def monte_carlo_epsilon(gram: np.ndarray, *, sigma: float, delta: float, samples: int, seed: int = 0) -> float:
    """Estimate of the larger direction's ε(δ) by importance sampling in b dimensions with several shifts (no guarantee)."""
    bins, rng = len(gram), np.random.default_rng(seed)
    root = np.linalg.cholesky(gram + 1e-12 * np.trace(gram) / bins * np.eye(bins)) / sigma
    mean_norm, own_norm = math.sqrt(gram.mean()) / sigma, math.sqrt(gram.max()) / sigma
    worst = 0.0
    for direction in DIRECTIONS:
        # (along the bin drawn, along the mean bin): the target, and shifts that bring the middle of the samples to the tail of δ.
        if direction == "remove":
            shifts = [(1.0, 0.0), (1.0, 1.5 / mean_norm), (1.0, 3.0 / mean_norm), (1.0 + 2.0 / own_norm, 0.0), (1.0 + 4.0 / own_norm, 0.0)]
        else:
            shifts = [(0.0, 0.0), (0.0, -1.5 / mean_norm), (0.0, -3.0 / mean_norm)]
        payoffs, weights = _importance_samples(gram, root, sigma, shifts, samples, rng)

        def estimate(epsilon: float) -> float:
            paid = np.maximum(-np.expm1(epsilon - payoffs), 0.0) if direction == "remove" else np.maximum(-np.expm1(epsilon + payoffs), 0.0)
            return float(np.mean(paid * weights))

        worst = max(worst, smallest_epsilon(estimate, delta))
    return worst


def _importance_samples(
    gram: np.ndarray, root: np.ndarray, sigma: float, shifts: list[tuple[float, float]], samples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(log dP/dQ, weight against the first law) of samples from the even mixture of shifted laws, weighted by the balance heuristic."""
    bins, h = len(gram), 1 / sigma**2
    average, total = gram.mean(axis=1), float(gram.mean())
    logs, ratios = [], []
    for along_bin, along_mean in shifts:
        done, per_shift = 0, samples // len(shifts)
        while done < per_shift:
            count = min(20000, per_shift - done)
            r = rng.integers(bins, size=count)
            zeta = rng.standard_normal((count, bins)) @ root.T + (along_bin * gram[r] + along_mean * average) * h
            own = logsumexp(zeta - 0.5 * h * np.diag(gram), axis=1) - math.log(bins)
            # Each law is Q weighted by the mean over r of exp((u·e_r + t/b)·ζ − half its variance).
            laws = np.stack([
                t * zeta.mean(axis=1) - 0.5 * h * t**2 * total
                + logsumexp(u * zeta - h * (0.5 * u**2 * np.diag(gram) + t * u * average), axis=1) - math.log(bins)
                for u, t in shifts
            ])
            logs.append(own)
            ratios.append(np.exp(laws[0] - logsumexp(laws, axis=0) + math.log(len(shifts))))
            done += count
    return np.concatenate(logs), np.concatenate(ratios)
