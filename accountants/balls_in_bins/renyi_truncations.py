"""Banded majorants of a Gram matrix whose band is too wide for the exact sum (math/balls-in-bins.md, section (b), truncation).

Every bound has the form G ≤ B + τ·11ᵀ entrywise on the bins (or on evenly spaced subsets of them) with B zero outside a band, so

    log E_Q X^t <= log M_t[B] + ½h t(t−1) τ.

The Rényi sums grow with every entry of G, so these hold whether or not B + τ·11ᵀ is positive semidefinite; the shifted-moment conversion
needs that too (it uses moments with both signs), see `semidefinite`.
"""

import dataclasses
import math

import numpy as np

from accountants.balls_in_bins.gram import cyclic_bandwidth, cyclic_distance, lag_maxima
from accountants.balls_in_bins.renyi_dp import Moments, moments
from search_spaces import checks

_TABLE_COST = 400.0
"""Setting up one move costs about as much as this many multiplications by it."""

METHODS = ("exact", "published", "shifted", "row_wise", "thinned")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Majorant:
    """B + τ·11ᵀ.

    Attributes:
      method: one of `METHODS`.
      band: (q, q) float64, B; zero where the cyclic distance is `bandwidth` or more.
      bandwidth: p' of B.
      constant: τ >= 0.
      stride: r; q = ⌊b/r⌋ bins remain.
    """

    method: str
    band: np.ndarray
    bandwidth: int
    constant: float = 0.0
    stride: int = 1

    def moments(self, *, sigma: float, order: int, precise: bool = False) -> Moments:
        """Bounds on log E_Q X^t, t <= order; raises as `renyi_dp.moments`."""
        inner = moments(self.band, sigma=sigma, order=order, bandwidth=self.bandwidth, precise=precise)
        t = np.arange(order + 1, dtype=np.longdouble)
        return dataclasses.replace(inner, logs=inner.logs + 0.5 * t * (t - 1) * np.longdouble(self.constant) / np.longdouble(sigma) ** 2)

    @property
    def describe(self) -> dict[str, object]:
        """Plain values for reports."""
        return {"truncation": self.method, "bandwidth": self.bandwidth, "stride": self.stride}


def operations(*, bins: int, bandwidth: int, order: int, wraps: bool) -> float:
    """Multiplications of the exact sum: b·C(α+2p, 2p), or b·C(α+p+1, p+1) where the band does not wrap around; and the table of moves."""
    if bandwidth == 1:
        return float(bins * order**2)
    window = min(bandwidth - 1, bins - 1)
    moves = math.comb(order + window + 2, window + 2)
    return _TABLE_COST * moves + float(bins) * (math.comb(order + 2 * window + 2, 2 * window + 2) if wraps else moves)


def wraps(gram: np.ndarray, *, bandwidth: int) -> bool:
    """Whether the band d(i, j) < p of G has entries that the first and last bins share."""
    gap = np.abs(np.subtract.outer(np.arange(len(gram)), np.arange(len(gram))))
    return bool((gram[(gap >= bandwidth) & (cyclic_distance(len(gram)) < bandwidth)] != 0).any())


def exact(gram: np.ndarray) -> Majorant:
    """G itself, with its own cyclic bandwidth."""
    return Majorant(method="exact", band=gram, bandwidth=cyclic_bandwidth(gram))


def published(gram: np.ndarray, *, bandwidth: int) -> Majorant:
    """The published truncation: B = G inside the band, τ = the largest entry outside it."""
    inside, largest = _split(gram, bandwidth)
    return Majorant(method="published", band=np.where(inside, gram, 0.0), bandwidth=bandwidth, constant=largest)


def shifted(gram: np.ndarray, *, bandwidth: int) -> Majorant:
    """B = G − τ inside the band: never above `published`."""
    inside, largest = _split(gram, bandwidth)
    return Majorant(method="shifted", band=np.where(inside, gram - largest, 0.0), bandwidth=bandwidth, constant=largest)


def thinned(gram: np.ndarray, *, stride: int, bandwidth: int) -> Majorant:
    """The shifted truncation of the thinned matrix: one bin in r is kept, every bin equally often over all offsets."""
    return dataclasses.replace(shifted(thinned_gram(gram, stride=stride), bandwidth=bandwidth), method="thinned", stride=stride)


def thinned_gram(gram: np.ndarray, *, stride: int) -> np.ndarray:
    """(q, q) float64, q = ⌊b/r⌋: entrywise maximum of G over the sets {t, t+r, …, t+(q−1)r} mod b.

    If r divides b, the r sets t < r cover every bin once and do not wrap around; otherwise all b offsets are needed.
    """
    bins = len(gram)
    stride = checks.integer(at_most=bins, stride=stride)
    kept = bins // stride
    if bins % stride == 0:
        return gram.reshape(kept, stride, kept, stride).diagonal(axis1=1, axis2=3).max(axis=-1)
    lags = stride * np.abs(np.subtract.outer(np.arange(kept), np.arange(kept)))
    return lag_maxima(gram)[lags]


def strides(bins: int) -> list[int]:
    """The strides worth trying: for every number of remaining bins the largest stride that leaves it."""
    return sorted({bins // kept for kept in {bins // stride for stride in range(1, bins + 1)}})


def row_wise_log_moment(gram: np.ndarray, *, sigma: float, order: int, bandwidth: int) -> float:
    """log E_Q X^α, α = order, with one constant per bin: a_i = the largest entry of row i outside the band, (a_i + a_j)/2 >= G_ij.

    B_ij = G_ij − (a_i + a_j)/2 inside the band, and a token in bin i weighs e^{½h(α−1)a_i}. One pass serves one order.
    """
    inside, _ = _split(gram, bandwidth)
    rows = np.where(inside, 0.0, gram).max(axis=1)
    band = np.where(inside, gram - 0.5 * np.add.outer(rows, rows), 0.0)
    weights = 0.5 * (order - 1) * rows / sigma**2
    result = moments(band, sigma=sigma, order=order, bandwidth=bandwidth, token_weights=weights)
    return float(result.upper_logs()[-1])


def semidefinite(majorant: Majorant) -> Majorant:
    """A majorant above the given one whose matrix is positive semidefinite: the diagonal is raised by what is missing."""
    whole = majorant.band + majorant.constant
    rounding = 1e-12 * float(np.abs(whole).sum(axis=1).max())
    missing = max(0.0, rounding - float(np.linalg.eigvalsh(whole)[0]))
    if majorant.method == "exact":
        return majorant
    return dataclasses.replace(majorant, band=majorant.band + missing * np.eye(len(whole)))


def _split(gram: np.ndarray, bandwidth: int) -> tuple[np.ndarray, float]:
    """(mask of the band, the largest entry outside it or 0)."""
    inside = cyclic_distance(len(gram)) < checks.integer(bandwidth=bandwidth)
    return inside, float(np.where(inside, 0.0, gram).max())
