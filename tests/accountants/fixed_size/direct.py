"""Slow, independent references for fixed-size batches: F by plain quadrature in two dimensions, random triples, the reference tables."""

import csv
import functools
from fractions import Fraction
from pathlib import Path

import numpy as np

from accountants.fixed_size.mechanism import FixedSizeMechanism

REFERENCE = Path(__file__).parents[2] / "reference"


@functools.cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a reference file, comment lines left out."""
    with open(REFERENCE / name, encoding="utf-8") as lines:
        return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))


def mechanism_of(row: dict[str, str]) -> FixedSizeMechanism:
    """The mechanism of a table row."""
    rate = Fraction(row["p"])
    return FixedSizeMechanism(
        dataset_size=rate.denominator, batch_size=rate.numerator, iterations=int(row["T"]), sigma=float(row["sigma"])
    )


def log_f(order: float, rate: float, a: np.ndarray, b: np.ndarray, nodes: int = 900) -> float:
    """log ∫ P_a^α P_b^{1−α}, P_x = (1−p)N(0, I) + pN(x, I), for a, b in the plane; trapezoidal sum over a box that holds the integrand.

    The integrand is at most a mixture of Gaussians with unit variance in every direction whose centres are combinations of a and b with
    coefficients up to α, of which those with weight lie within the box.
    """
    points = [i * a - j * b for i in (0, 1, order) for j in (0, order - 1)]
    low, high = np.min(points, axis=0) - 9, np.max(points, axis=0) + 9
    x, y = np.linspace(low[0], high[0], nodes), np.linspace(low[1], high[1], nodes)
    squares = lambda centre: -0.5 * ((x - centre[0])[:, None] ** 2 + (y - centre[1])[None, :] ** 2)
    base, log_p = np.log1p(-rate) + squares((0.0, 0.0)), np.log(rate)
    logs = order * np.logaddexp(base, log_p + squares(a)) + (1 - order) * np.logaddexp(base, log_p + squares(b))
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum() * (x[1] - x[0]) * (y[1] - y[0]) / (2 * np.pi)))


def pairwise_triple(squared_shift: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) with |a| = |a−b| = Δ and |b|² = s."""
    u, shift = s / (2 * squared_shift), np.sqrt(squared_shift)
    return np.array([shift, 0.0]), shift * np.array([u, np.sqrt(2 * u - u * u)])


def in_disc(rng: np.random.Generator, size: int, diameter: float, on_circle: float = 0.5) -> np.ndarray:
    """(size, 3, 2): triples of points in a disc, each on its circle with probability `on_circle`."""
    radius = 0.5 * diameter * np.where(rng.random((size, 3)) < on_circle, 1.0, np.sqrt(rng.random((size, 3))))
    angle = 2 * np.pi * rng.random((size, 3))
    return radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
