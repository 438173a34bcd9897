"""How much two participations of different replicas attract each other: log weights g(s, s')/σ² (math/certificates.md, section 2)."""

import dataclasses
import functools

import numpy as np

from search_spaces.mechanism import Mechanism
from search_spaces.strategies import ToeplitzStrategy


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Interactions:
    """Log weights of pairs of participations.

    Attributes:
      overlaps: (p + 1, p + 1) float64; [d, n] = Σ_{j<n} c_{j+d} c_j, the Gram entry at lag d with n coordinates left. Row p is zero.
      iterations: T.
      sigma: σ.
    """

    overlaps: np.ndarray
    iterations: int
    sigma: float

    def log_weights(self, later: np.ndarray, lag: np.ndarray) -> np.ndarray:
        """⟨C e_later, C e_{later−lag}⟩/σ², with windows cut off at T; arguments broadcast, 0 <= later, 0 <= lag (steps >= T weigh 0)."""
        bandwidth = self.overlaps.shape[0] - 1
        left = np.clip(self.iterations - np.asarray(later), 0, bandwidth)
        return self.overlaps[np.minimum(lag, bandwidth), left] / self.sigma**2


def interactions(mechanism: Mechanism) -> Interactions:
    """The interactions of a mechanism; for another noise multiplier only σ is new, the overlaps are cached."""
    return Interactions(
        overlaps=_overlaps(mechanism.strategy), iterations=mechanism.strategy.iterations, sigma=mechanism.sigma,
    )


@functools.lru_cache(maxsize=8)
def _overlaps(strategy: ToeplitzStrategy) -> np.ndarray:
    bandwidth = strategy.bandwidth
    c = np.pad(np.asarray(strategy.coefficients), (0, bandwidth))
    table = np.zeros((bandwidth + 1, bandwidth + 1))
    for lag in range(bandwidth):
        np.cumsum(c[lag : lag + bandwidth] * c[:bandwidth], out=table[lag, 1:])
    table.flags.writeable = False
    return table
