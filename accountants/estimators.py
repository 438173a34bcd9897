"""From log likelihood ratios to sampled values whose mean is δ: both directions, with the exact Gaussian factor where there is one.

With the factor (ξ > 0, fixed participations; L is log LR_⊥) the values are conditional expectations given y_⊥,
`remove: X = δ_G(ε − L; ξ), y ~ P` and `add: X = δ_G(ε + L; ξ), y ~ Q`; without it (ξ = 0) they are (1 − e^{ε−L})_+ and (1 − e^{ε+L})_+
(math/certificates.md, "The Gaussian factor").

The add values are small with overwhelming probability but not bounded below 1: Jensen's inequality leaves a linear term,
LR >= exp(ν + ξ'·Z) with Z ~ N(0,1) under Q, ν = −½E‖a‖²/σ² and ξ' = ‖E a‖/σ, where a = Cx with the factor's component taken out.
So X <= g(Z) for the decreasing g below, X can be clipped at any level B', and E[(X − B')_+] <= E[(g(Z) − B')_+] is added back.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy.special import ndtr, rel_entr

from accountants.gaussian import gaussian_delta
from search_spaces import checks
from search_spaces.mechanism import Mechanism, factor_norm
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

ROUND_UP = 1.0 + 1e-9
"""Covers the float64 rounding of one sampled value: a sweep of T terms and its logarithm err by less than T·1e-15 relatively."""

_THINNINGS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)
_CELLS = 4_000
_FARTHEST = 38.0


def remove_values(log_ratio: np.ndarray, *, epsilon: float, xi: float) -> np.ndarray:
    """Values in [0, 1] with mean H(P, Q) for y ~ P; same shape as `log_ratio`."""
    return _hockey_stick(epsilon - log_ratio, xi)


def add_values(log_ratio: np.ndarray, *, epsilon: float, xi: float) -> np.ndarray:
    """Values in [0, 1] with mean H(Q, P) for y ~ Q; same shape as `log_ratio`."""
    return _hockey_stick(epsilon + log_ratio, xi)


def _hockey_stick(shifted_epsilon: np.ndarray, xi: float) -> np.ndarray:
    if xi > 0:
        return gaussian_delta(epsilon=shifted_epsilon, mu=xi)
    return -np.expm1(np.minimum(shifted_epsilon, 0.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddEnvelope:
    """The Gaussian envelope X <= g(Z) of the add values, Z ~ N(0, 1), g decreasing.

    Attributes:
      epsilon: ε.
      xi: ξ of the factor (0 without).
      offset: ν <= 0.
      slope: ξ' >= 0.
    """

    epsilon: float
    xi: float
    offset: float
    slope: float

    def values(self, z: np.ndarray) -> np.ndarray:
        """g(z), elementwise."""
        return add_values(self.offset + self.slope * np.asarray(z, float), epsilon=self.epsilon, xi=self.xi)

    def bias(self, clip: float) -> float:
        """E[(g(Z) − clip)_+] rounded up: on each cell of a grid g is replaced by its value at the left end."""
        edges = np.linspace(-_FARTHEST, _FARTHEST, _CELLS + 1)
        excess = np.maximum(self.values(edges[:-1]) - clip, 0.0)
        # Below the first edge g is at most 1 and has probability Φ(−38) < 1e-300; above the last edge g − clip is at most its value there.
        tail = ndtr(-_FARTHEST) * (1.0 + max(float(self.values(edges[-1])) - clip, 0.0))
        return ROUND_UP * float(excess @ np.diff(ndtr(edges)) + tail)

    def clip_for(self, bias: float) -> float:
        """A level B' in (0, 1] with `bias(B') <= bias`, close to the smallest such (bisection on z, upper end)."""
        checks.positive(bias=bias)
        low, high = -_FARTHEST, _FARTHEST
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.bias(float(self.values(middle))) <= bias else (low, middle)
        return min(1.0, max(ROUND_UP * float(self.values(low)), np.finfo(float).tiny))


def add_envelope(mechanism: Mechanism, *, epsilon: float) -> AddEnvelope:
    """The envelope of a mechanism's add values at ε.

    Where participations are not fixed, Jensen's inequality under a thinned law π (the same scheme at a smaller rate) gives
    LR >= exp(−KL(π‖P) + ν_π + ξ'_π Z) for every thinning; the one with the smallest bound on δ is used.
    """
    epsilon = checks.non_negative(epsilon=epsilon)
    scheme, strategy, sigma = mechanism.scheme, mechanism.strategy, mechanism.sigma
    if scheme.fixed_participations:
        return _envelope(scheme, strategy, sigma, epsilon)
    thinned = [dataclasses.replace(scheme, rate_factor=factor * scheme.rate_factor) for factor in _THINNINGS]
    envelopes = [_envelope(law, strategy, sigma, epsilon, _divergence(law, scheme)) for law in thinned]
    return min(envelopes, key=lambda envelope: envelope.bias(0.0))


def _envelope(scheme: BatchScheme, strategy: ToeplitzStrategy, sigma: float, epsilon: float, divergence: float = 0.0) -> AddEnvelope:
    norms, mean_norm = _moments(scheme, strategy)
    factor = factor_norm(scheme, strategy)
    return AddEnvelope(
        epsilon=epsilon,
        xi=factor / sigma,
        offset=-ROUND_UP * (divergence + max(norms - factor**2, 0.0) / (2 * sigma**2)),
        slope=math.sqrt(ROUND_UP * max(mean_norm - factor**2, 0.0)) / sigma,
    )


@functools.lru_cache(maxsize=64)
def _moments(scheme: BatchScheme, strategy: ToeplitzStrategy) -> tuple[float, float]:
    """E‖Cx‖² and ‖C E x‖²; the first is a sum over windows because they do not overlap."""
    marginals = scheme.marginals()
    return 2.0 * float(marginals @ strategy.window_energies), float(np.square(strategy.apply(marginals)).sum())


@functools.lru_cache(maxsize=64)
def _divergence(thinned: BatchScheme, scheme: BatchScheme) -> float:
    """KL(thinned ‖ scheme): the divergence of one step's decision, summed over the steps at which the thinned law is free."""
    q, p = thinned.probability, scheme.probability
    step = float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))
    return float(thinned.marginals().sum()) / q * step
