"""A mechanism: scheme + strategy + noise multiplier, the thing whose privacy is accounted."""

import dataclasses
import functools
import math

from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism:
    """DP-BandMF with noise C⁻¹z, z ~ N(0, σ²I), clip norm 1.

    Attributes:
      scheme: batch selection scheme.
      strategy: banded Toeplitz strategy with the scheme's T and a bandwidth no larger than the scheme's.
      sigma: noise multiplier σ > 0.

    Raises:
      InputError: σ not positive, T differs, or the strategy's bandwidth exceeds the scheme's separation.
    """

    scheme: BatchScheme
    strategy: ToeplitzStrategy
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checks.positive(sigma=self.sigma))
        if self.scheme.iterations != self.strategy.iterations:
            raise InputError(
                f"Expected strategy iterations={self.strategy.iterations} to be the scheme's {self.scheme.iterations}."
            )
        if self.strategy.bandwidth > self.scheme.separation:
            raise InputError(
                f"Expected strategy bandwidth={self.strategy.bandwidth} to be at most the separation {self.scheme.separation} "
                f"that {self.scheme.name} guarantees."
            )

    def with_sigma(self, sigma: float) -> "Mechanism":
        """The same scheme and strategy with another noise multiplier."""
        return dataclasses.replace(self, sigma=sigma)

    @functools.cached_property
    def sensitivity(self) -> float:
        """√(max participations) · ‖c‖: no schedule has a larger ‖Cx‖, as participations do not overlap.

        It is attained unless all schedules with that many participations have windows cut off at T.
        """
        return math.sqrt(self.scheme.max_participations) * self.strategy.column_norm

    @property
    def gaussian_factor(self) -> float:
        """ξ = Kκ/σ: the mean of the Gaussian mechanism that every scheme with exactly K participations contains; 0 for the others.

        math/certificates.md, "The Gaussian factor".
        """
        return factor_norm(self.scheme, self.strategy) / self.sigma

    @property
    def rmse(self) -> float:
        """RMSE of the prefix sums, (1/K) √(TSE/T)."""
        return self.strategy.rmse(sigma=self.sigma, participations=self.scheme.participations)


def factor_norm(scheme: BatchScheme, strategy: ToeplitzStrategy) -> float:
    """Kκ, the part of every Cx along C^{−T}1 where participations are fixed; 0 where they are not and there is no such part in common."""
    return scheme.participations * strategy.kappa if scheme.fixed_participations else 0.0
