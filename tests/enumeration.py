"""All schedules of a scheme with their probabilities, straight from each scheme's definition in words.

The definitions are those of math/batch-schemes.md, "The schemes". Nothing here uses a scheme's `recurrence`, `marginals` or `sample`:
those are what gets checked against it.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

Law = Iterator[tuple[tuple[int, ...], float]]


def schedules(scheme: BatchScheme) -> tuple[np.ndarray, np.ndarray]:
    """Every participation vector and its probability.

    Returns:
      (n, T) float64 of zeros and ones, all rows different, and (n,) float64 probabilities > 0.
    """
    law = list(_LAWS[scheme.name](scheme.iterations, scheme.participations, scheme.bandwidth))
    rows = np.zeros((len(law), scheme.iterations))
    for row, (steps, _) in zip(rows, law):
        row[list(steps)] = 1.0
    return rows, np.array([probability for _, probability in law])


def log_likelihood_ratio(scheme: BatchScheme, strategy: ToeplitzStrategy, *, sigma: float, y: np.ndarray) -> np.ndarray:
    """log of dP/dQ at y by the densities of Σ_x p(x) N(Cx, σ²I) and N(0, σ²I), with the dense matrix C.

    Args:
      y: (n, T) float64.

    Returns:
      (n,) float64.
    """
    rows, probabilities = schedules(scheme)
    means = rows @ strategy.dense().T
    exponents = (y @ means.T - 0.5 * np.sum(means**2, axis=1)) / sigma**2
    largest = exponents.max(axis=1, keepdims=True)
    return np.log(np.exp(exponents - largest) @ probabilities) + largest[:, 0]


def _equally_likely(subsets: Iterable[tuple[int, ...]]) -> Law:
    """A uniform law over the given subsets."""
    subsets = list(subsets)
    return ((subset, 1.0 / len(subsets)) for subset in subsets)


def _independent(steps: Iterable[int], probability: float) -> Law:
    """Every one of `steps` takes part with `probability`, independently of the others."""
    steps = list(steps)
    for taken in itertools.product((False, True), repeat=len(steps)):
        weight = float(np.prod([probability if take else 1.0 - probability for take in taken]))
        if weight > 0:
            yield tuple(itertools.compress(steps, taken)), weight


def _evenly_spaced(first: int, iterations: int, participations: int) -> tuple[int, ...]:
    return tuple(first + i * (iterations // participations) for i in range(participations))


def _separated(subset: tuple[int, ...], gap: int) -> bool:
    return all(later - earlier >= gap for earlier, later in itertools.pairwise(subset))


def _min_sep_poisson(iterations: int, participations: int, bandwidth: int) -> Law:
    """Each step throws its own coin; a step is blocked if the example took part in one of the b−1 steps before it."""
    probability = 1.0 / (iterations / participations - bandwidth + 1)
    for count in range(iterations + 1):
        for subset in itertools.combinations(range(iterations), count):
            if not _separated(subset, bandwidth):
                continue
            blocked = {step + wait for step in subset for wait in range(1, bandwidth)} & set(range(iterations))
            weight = probability**count * (1.0 - probability) ** (iterations - count - len(blocked))
            if weight > 0:
                yield subset, weight


_LAWS: dict[str, Callable[[int, int, int], Law]] = {
    "deterministic": lambda T, K, b: _equally_likely([_evenly_spaced(0, T, K)]),
    "poisson": lambda T, K, b: _independent(range(T), K / T),
    "random_allocation": lambda T, K, b: _equally_likely(itertools.combinations(range(T), K)),
    "cyclic_poisson": lambda T, K, b: _independent(range(0, T, b), K * b / T),
    "cyclic_ra": lambda T, K, b: _equally_likely(itertools.combinations(range(0, T, b), K)),
    "balls_in_bins": lambda T, K, b: _equally_likely(_evenly_spaced(first, T, K) for first in range(T // K)),
    "min_sep_poisson": _min_sep_poisson,
    "nested_ra": lambda T, K, b: _equally_likely(
        subset for residue in range(b) for subset in itertools.combinations(range(residue, T, b), K)
    ),
    "min_sep_ra": lambda T, K, b: _equally_likely(s for s in itertools.combinations(range(T), K) if _separated(s, b)),
}
