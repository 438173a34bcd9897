"""One step's privacy loss under the hockey-stick dominating pair, discretised pessimistically.

Source: math/fixed-size-batches.md, section 8, "Lossless". For γ >= 1 the worst hockey-stick divergence of a step is that of
(1−p)N(0,1)+pN(Δ,1) against N(0,1), for γ < 1 that of N(0,1) against the mixture; the glued pair has both halves of the curve. Its loss is
ℓ(x) = log(1−p+pe^{Δx−Δ²/2}), x > Δ/2, with P-density e^ℓφ (positive half), −ℓ(x) with P-density φ (negative half), and an atom of mass
(1−p)(1−2Φ(−Δ/2)) at 0. The pair is its own mirror image, so one distribution serves both directions. Both halves are realisable triples of
one ball, hence this accountant is the same in both geometries.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy.special import erf, ndtr

_REACH = 12.0
"""Standard deviations beyond the shifted mean that are kept: the mass outside is below 10⁻³², and it goes to infinity or up a cell."""

_PANEL = 0.125
"""Widest quadrature panel in x: eight Gauss-Legendre points on it integrate e^ℓφ to full precision."""

USUAL_GRID = 1e-4
_MOST_CELLS = 200_000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LossDistribution:
    """A discrete distribution of losses, symmetric in its support.

    Attributes:
      grid: d > 0, the distance of neighbouring losses.
      masses: (2m+1,) float64 >= 0, the mass at loss (i−m)·d.
      infinity_mass: mass at infinite loss.
    """

    grid: float
    masses: np.ndarray
    infinity_mass: float

    @property
    def reach(self) -> int:
        """m: the largest loss is m·d."""
        return self.masses.size // 2

    @functools.cached_property
    def losses(self) -> np.ndarray:
        """(2m+1,) float64."""
        return self.grid * np.arange(-self.reach, self.reach + 1)

    @functools.cached_property
    def log_masses(self) -> np.ndarray:
        """(2m+1,) float64, −inf at empty cells."""
        with np.errstate(divide="ignore"):
            return np.log(self.masses)


def hockey_stick(gamma: np.ndarray, *, rate: float, shift: float) -> np.ndarray:
    """H_γ of the glued pair in closed form, γ > 0; absolute accuracy only, for checks."""
    gamma = np.asarray(gamma, dtype=float)
    above = np.maximum(gamma, 1 / gamma)
    x = shift / 2 + np.log1p((above - 1) / rate) / shift
    upper = (1 - rate) * ndtr(-x) + rate * ndtr(shift - x) - above * ndtr(-x)
    lower = ndtr(x) - gamma * ((1 - rate) * ndtr(x) + rate * ndtr(x - shift))
    return np.where(gamma >= 1, upper, lower)


def loss_scale(rate: float, shift: float) -> float:
    """Root mean square of one step's loss under P."""
    x = np.linspace(shift / 2, shift + _REACH, 4001)
    loss = _loss(x, rate, shift)
    # e^ℓφ is formed in one exponential: at small σ its factors leave float64 while the product does not.
    densities = (np.exp(loss - 0.5 * x * x) + np.exp(-0.5 * x * x)) / math.sqrt(2 * math.pi)
    return math.sqrt(float(np.trapezoid(densities * loss**2, x)))


def starting_grid(rate: float, shift: float) -> float:
    """d: 10⁻⁴, finer where the losses themselves are that small, coarser where they would need more than `_MOST_CELLS` cells."""
    largest = float(_loss(np.array(shift + _REACH), rate, shift))
    return max(min(USUAL_GRID, loss_scale(rate, shift) / 5), largest / _MOST_CELLS)


@functools.lru_cache(maxsize=8)
def discretise(*, rate: float, shift: float, grid: float) -> LossDistribution:
    """The glued pair on multiples of `grid` by connecting the dots: it dominates the pair, its own curve touches at every grid point.

    Within a bin [e, e+d] with masses m_P, m_Q the mass b = (m_P − e^{e}m_Q)/(1−e^{−d}) goes to the upper end and m_P − b to the lower,
    which keeps both masses. b is integrated as ∫(1−e^{e−ℓ})dP, all positive, instead of as the difference, which would lose four digits.
    """
    far = shift + _REACH
    last = math.ceil(float(_loss(np.array(far), rate, shift)) / grid)
    x, weights = _quadrature(_edges(rate, shift, grid, last, far))
    loss = _loss(x, rate, shift)
    cell = np.clip(np.floor(loss / grid), 0, last - 1).astype(np.int64)
    negative, positive = (weights * np.exp(log_ratio - 0.5 * x * x) / math.sqrt(2 * math.pi) for log_ratio in (0.0, loss))
    excess = np.clip(loss - grid * cell, 0.0, grid)
    full = -math.expm1(-grid)
    masses = np.zeros(2 * last + 1)
    masses[last] = (1 - rate) * float(erf(shift / math.sqrt(8)))
    _spread(masses, last + cell, positive, -np.expm1(-excess) / full)
    # Mirrored: the bin's lower end is −(cell+1)d, and −ℓ lies (d − excess) above it.
    _spread(masses, last - cell - 1, negative, -np.expm1(excess - grid) / full)
    masses[0] += ndtr(-far)
    infinity = (1 - rate) * ndtr(-far) + rate * ndtr(shift - far)
    return LossDistribution(grid=grid, masses=masses, infinity_mass=float(infinity))


def _loss(x: np.ndarray, rate: float, shift: float) -> np.ndarray:
    """ℓ(x) = log(1−p+pe^{Δx−Δ²/2}), accurate where it is tiny and where the exponential overflows."""
    exponent = shift * x - shift * shift / 2
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
    return np.where(exponent <= 1, small, exponent + np.log(rate + (1 - rate) * np.exp(-np.maximum(exponent, 1.0))))


def _edges(rate: float, shift: float, grid: float, last: int, far: float) -> np.ndarray:
    """Ascending panel edges in x from Δ/2 to `far`: wherever ℓ crosses a multiple of the grid, and none further apart than `_PANEL`."""
    multiples = grid * np.arange(1, last)
    crossings = shift / 2 + (np.where(
        multiples < 1, np.log1p(np.expm1(np.minimum(multiples, 1.0)) / rate),
        multiples + np.log1p(-(1 - rate) * np.exp(-multiples)) - math.log(rate),
    )) / shift
    uniform = np.linspace(shift / 2, far, math.ceil((far - shift / 2) / _PANEL) + 1)
    inside = crossings[(crossings > shift / 2) & (crossings < far)]
    return np.unique(np.concatenate([uniform, inside]))


def _quadrature(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of eight Gauss-Legendre points on every panel."""
    node, weight = np.polynomial.legendre.leggauss(8)
    half, centre = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (centre[:, None] + half[:, None] * node).ravel(), (half[:, None] * weight).ravel()


def _spread(masses: np.ndarray, lower: np.ndarray, mass: np.ndarray, share: np.ndarray) -> None:
    """Add `mass` to the cells `lower` and `lower`+1, the part `share` to the upper one."""
    masses += np.bincount(lower, mass * (1 - share), minlength=masses.size)
    masses += np.bincount(lower + 1, mass * share, minlength=masses.size)
