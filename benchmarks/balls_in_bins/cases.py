"""The strategies under comparison: b bins, k epochs, a family of C and its bandwidth p."""

import dataclasses
import functools
import math

import numpy as np

from accountants.balls_in_bins.gram import mechanism_gram
from search_spaces.dense_strategies import DenseStrategy, FullToeplitzStrategy, inverse_square_root, make_mechanism, square_root
from search_spaces.schemes import BallsInBins

OPTIMISED = ("BandMF", "BLT", "BandInvMF")
"""Families that JAX-Privacy's optimisers make (benchmarks/optimised_strategies.py)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One strategy with b bins and k epochs; a bandwidth above T is T."""

    family: str
    bandwidth: int
    bins: int
    epochs: int

    @property
    def iterations(self) -> int:
        """T = kb."""
        return self.bins * self.epochs

    @property
    def strategy(self) -> DenseStrategy | FullToeplitzStrategy:
        """C."""
        return _strategy(self)

    @property
    def gram(self) -> np.ndarray:
        """(b, b) float64: G of the means."""
        scheme = BallsInBins(iterations=self.iterations, participations=self.epochs)
        return mechanism_gram(make_mechanism(scheme=scheme, strategy=self.strategy, sigma=1.0))

    @property
    def norm(self) -> float:
        """The norm of the longest mean: σ over it is the noise relative to what the unamplified mechanism needs."""
        return math.sqrt(float(np.diag(self.gram).max()))

    @property
    def label(self) -> str:
        """For example BSR-4, b=32, k=2."""
        family = self.family if self.family == "DP-SGD" else f"{self.family}-{self.bandwidth}"
        return f"{family}, b={self.bins}, k={self.epochs}"

    @property
    def key(self) -> dict[str, object]:
        """Plain values for a results file."""
        return dataclasses.asdict(self)


@functools.lru_cache(maxsize=64)
def _strategy(case: Case) -> DenseStrategy | FullToeplitzStrategy:
    bandwidth = min(case.bandwidth, case.iterations)
    if case.family in OPTIMISED:
        from benchmarks.optimised_strategies import FAMILIES

        matrix = FAMILIES[case.family](iterations=case.iterations, participations=case.epochs, bandwidth=bandwidth)
        return DenseStrategy(matrix=matrix, family=case.family)
    build = inverse_square_root if case.family == "BISR" else square_root
    return build(iterations=case.iterations, bandwidth=bandwidth)


def families() -> tuple[tuple[str, ...], str]:
    """(the families that can be built here, why the others cannot or an empty text)."""
    try:
        from benchmarks.optimised_strategies import unavailable
    except ImportError:
        reason = "JAX is not installed."
    else:
        reason = unavailable()
    closed = ("DP-SGD", "BSR", "BISR")
    return (closed, f"{', '.join(OPTIMISED)} are left out: {reason}") if reason else (closed + OPTIMISED, "")
