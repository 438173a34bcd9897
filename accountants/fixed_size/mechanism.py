"""The mechanism of this package: DP-SGD with fixed-size batches, adjacent data sets differ by replacing one example."""

import dataclasses
import fractions
import math
from typing import ClassVar

from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.problem import FIXED_SIZE


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedSizeMechanism:
    """T steps of: draw `batch_size` of `dataset_size` examples without replacement, sum gradients clipped to norm 1, add N(0, σ²I).

    The batch is fresh in every step and its size never varies, so under replace adjacency n is public and the batch size is exact.

    Attributes:
      dataset_size: n >= 1.
      batch_size: 1..n; n itself means no amplification at all.
      iterations: T >= 1.
      sigma: noise multiplier σ > 0 (noise standard deviation over clip norm). Replacing an example moves the sum by up to 2.

    Raises:
      InputError: a value outside its range.
    """

    scheme: ClassVar[str] = FIXED_SIZE
    adjacency: ClassVar[str] = "replace"

    dataset_size: int
    batch_size: int
    iterations: int
    sigma: float

    def __post_init__(self) -> None:
        set_ = lambda name, value: object.__setattr__(self, name, value)
        set_("dataset_size", checks.integer(dataset_size=self.dataset_size))
        set_("batch_size", checks.integer(batch_size=self.batch_size))
        if self.batch_size > self.dataset_size:
            raise InputError(
                f"Expected batch_size={self.batch_size} to be at most dataset_size={self.dataset_size}: "
                "a batch is drawn without replacement, so its sampling rate cannot exceed 1."
            )
        set_("iterations", checks.integer(iterations=self.iterations))
        set_("sigma", checks.positive(sigma=self.sigma))

    @property
    def rate(self) -> fractions.Fraction:
        """p = batch_size / dataset_size in (0, 1], exact."""
        return fractions.Fraction(self.batch_size, self.dataset_size)

    @property
    def participations(self) -> fractions.Fraction:
        """K = T·p, exact: how often one example takes part on average; no integer in general."""
        return self.iterations * self.rate

    @property
    def rmse(self) -> float:
        """RMSE of the prefix sums of the noise, (1/K) √(TSE/T) as of the other schemes; C is the identity, so this is σ√((T+1)/2)/K."""
        return self.sigma * math.sqrt((self.iterations + 1) / 2) / float(self.participations)

    @property
    def squared_shift(self) -> fractions.Fraction:
        """Δ² = (2/σ)², exact: the squared distance two clipped gradients can have, in noise standard deviations."""
        return 4 / fractions.Fraction(self.sigma) ** 2

    def with_sigma(self, sigma: float) -> "FixedSizeMechanism":
        """The same training with another noise multiplier."""
        return dataclasses.replace(self, sigma=sigma)

    def with_iterations(self, iterations: int) -> "FixedSizeMechanism":
        """The same training with another number of steps."""
        return dataclasses.replace(self, iterations=iterations)
