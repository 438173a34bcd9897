"""The inner products that a likelihood ratio depends on, simulated: signal (from the participations) and noise (from z), apart.

For y = θ·Cx + σz the products u = θ·signal + σ·noise serve every θ and σ from the same random numbers. For schemes with exactly
K participations the component of y along v̂ = κC^{−T}1 is taken out (math/certificates.md, "The Gaussian factor"), so that the
products are those of y_⊥ and the exact Gaussian factor with μ = ξ = Kκ/σ is treated in closed form elsewhere.

Two models: all T window products ⟨C e_t, y⟩ (any scheme), and for balls-in-bins the T/K bin products ⟨m_i, y⟩ from their Gram matrix.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from accountants.monte_carlo import ladder
from search_spaces.errors import NumericalError
from search_spaces.mechanism import factor_norm
from search_spaces.recurrences import Recurrence
from search_spaces.schemes import BallsInBins, BatchScheme
from search_spaces.strategies import ToeplitzStrategy

_FEW_PARTICIPATIONS = 16
_CORRELATED_AT_ONCE = 128
"""Most window products of one matrix product: with p the padded bandwidth, n rows at once cost p + n multiplications per row."""

_FAR = 1 << 28


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProductModel:
    """What is needed to simulate products and to sweep them, with shapes padded to the ladder.

    Attributes:
      scheme, strategy: what is modelled.
      recurrence: the likelihood-ratio recurrence over the products.
      energies: (M,) float64, ½ of the squared norm that belongs to each term.
      removed: K²κ², the squared norm taken out with the Gaussian factor, or 0 where participations are not fixed.
      tables: arrays that `products` needs.
    """

    scheme: BatchScheme
    strategy: ToeplitzStrategy
    recurrence: Recurrence
    energies: np.ndarray
    removed: float
    tables: dict[str, np.ndarray]

    @property
    def bins(self) -> bool:
        """Whether the terms are balls-in-bins' bins rather than windows."""
        return "factor" in self.tables

    @property
    def padded_terms(self) -> int:
        """M rounded up to the ladder."""
        return ladder.padded_size(self.recurrence.terms)

    @property
    def block_size(self) -> int:
        """Samples in one block of the random streams."""
        return ladder.block_size(self.recurrence.terms)

    @property
    def window(self) -> int:
        """Length of the sweep's rolling buffer."""
        law = self.recurrence
        return ladder.padded_size(max(law.after_fire, law.after_skip, law.starts)) + 1

    @property
    def columns(self) -> int:
        """Places for participations per sample: K, or for schemes without a fixed number enough for every T and b that are padded alike."""
        if self.scheme.fixed_participations:
            return self.scheme.participations
        # A size is more than 4/5 of its padded one, so T/b is at most 5/4 of the ratio of the padded sizes.
        return -(-5 * self.padded_terms // (4 * ladder.padded_size(self.scheme.separation)))

    def mean_direction(self) -> dict[str, np.ndarray]:
        """The unit vector d along C E[x] (its residual part), seen through the products.

        Returns:
          `products`: (M,) products of d, the noise a unit shift along d adds; `weights`: (M,) with ⟨d, y⟩ = weights · products of y.
          Both are zero where the residual mean vanishes.
        """
        if self.bins:
            weights = np.full(self.recurrence.terms, 1.0 / self.recurrence.terms)
            products = self.tables["residual"][: weights.size, : weights.size] @ weights
        else:
            weights = self.scheme.marginals()
            products = self.strategy.apply_transpose(self.strategy.apply(weights)) - (self.removed / self.scheme.participations)
        # ‖(C E x)_⊥‖² = ‖C E x‖² − K²κ²; relative to ‖C E x‖² anything below 1e-12 is rounding.
        square = float(weights @ products)
        norm = np.sqrt(square) if square > 1e-12 * max(self.removed, float(weights @ self.energies)) else np.inf
        return {"products": products / norm, "weights": weights / norm}


@functools.lru_cache(maxsize=16)
def product_model(scheme: BatchScheme, strategy: ToeplitzStrategy) -> ProductModel:
    """The model of a scheme with a strategy (bin products for balls-in-bins, window products otherwise).

    Its tables take about 8p² bytes, p the bandwidth rounded up to a power of two (balls-in-bins: 16(T/K)²): 8 MiB at 1024, 128 MiB at 4096.
    """
    removed = factor_norm(scheme, strategy) ** 2
    if isinstance(scheme, BallsInBins):
        return _bin_model(scheme, strategy, removed)
    return ProductModel(
        scheme=scheme, strategy=strategy, recurrence=scheme.recurrence(), energies=strategy.window_energies,
        removed=removed, tables=_window_tables(scheme, strategy),
    )


def _window_tables(scheme: BatchScheme, strategy: ToeplitzStrategy) -> dict[str, np.ndarray]:
    bandwidth, padded = strategy.bandwidth, ladder.padded_bandwidth(strategy.bandwidth)
    c = np.zeros(2 * padded)
    c[:bandwidth] = strategy.coefficients
    # Row i of `correlate` holds c shifted right by i: so many window products are `correlate` times the part of z that they reach.
    rows = min(padded, _CORRELATED_AT_ONCE)
    lags = np.arange(padded + rows)[None, :] - np.arange(rows)[:, None]
    correlate = np.where(lags >= 0, c[np.maximum(lags, 0)], 0.0)
    # overlap[d, j] = Σ_{i<=j} c_{i+d} c_i: the Gram entry at lag d when j+1 coordinates are left; row `padded` is the zero of far lags.
    overlap = np.zeros((padded + 1, padded))
    for lag in range(bandwidth):
        overlap[lag] = np.cumsum(c[lag : lag + padded] * c[:padded])
    direction = np.zeros(ladder.padded_size(strategy.iterations))
    if scheme.fixed_participations:
        direction[: strategy.iterations] = strategy.kappa * strategy.participation_direction
    kappa = strategy.kappa if scheme.fixed_participations else 0.0
    return {"correlate": correlate, "overlap": overlap, "direction": direction, "kappa": np.float64(kappa)}


def _bin_model(scheme: BallsInBins, strategy: ToeplitzStrategy, removed: float) -> ProductModel:
    bins = scheme.separation
    x = np.tile(np.eye(bins), scheme.participations)
    means = strategy.apply(x)
    gram = means @ means.T
    residual = gram - removed
    values, vectors = np.linalg.eigh(residual)
    if values[0] < -1e-9 * gram.trace():
        raise NumericalError(f"The residual Gram matrix of balls_in_bins has the negative eigenvalue {values[0]:.3g}.")
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    padded = ladder.padded_size(bins)
    pad = (0, padded - bins)
    return ProductModel(
        scheme=scheme, strategy=strategy, energies=0.5 * np.diag(gram), removed=removed,
        recurrence=Recurrence(fire_probability=np.ones((1, bins)), after_fire=bins, after_skip=bins, starts=bins, counted=False),
        tables={"factor": np.pad(factor, (pad, pad)), "residual": np.pad(residual, (pad, pad))},
    )


def simulate_products(
    key: jax.Array, positions: jax.Array, tables: dict[str, jax.Array], iterations: jax.Array, participations: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Signal and noise of one block; traceable, shapes depend on the padded sizes only.

    Args:
      key: threefry key of the block's normals.
      positions: (samples, replicas, columns) int32 participations, ascending along the last axis, unused places hold T.
        The signal is the sum over replicas (one replica is an ordinary participation vector).
      tables: the model's arrays.
      iterations: T, traced.
      participations: K, traced.

    Returns:
      signal, noise: (padded M, samples) float64. Signal is (CᵀCx)_t − Kκ² (bins: a column of the residual Gram matrix), noise is
      distributed as (Cᵀz)_t − κ⟨z, v̂⟩ (bins: N(0, residual Gram)); nothing is subtracted where participations are not fixed.
      Entries beyond M are meaningless and never used.
    """
    noise = noise_products(key, tables, iterations, samples=positions.shape[0])
    return signal_products(positions, tables, iterations, participations), noise


def noise_products(key: jax.Array, tables: dict[str, jax.Array], iterations: jax.Array, *, samples: int) -> jax.Array:
    """The noise of `simulate_products` alone."""
    z = standard_normals(key, tables, samples=samples)
    if "factor" in tables:
        return tables["factor"] @ z
    terms, (block, reach) = tables["direction"].shape[0], tables["correlate"].shape
    z = z * (jnp.arange(terms, dtype=jnp.int32)[:, None] < iterations)
    # Both products read the padded array: of two arrays the compiler would work out the normals of each, a seventh of all the time.
    spare = -(-terms // block) * block + reach - block - terms
    z, direction = jnp.pad(z, ((0, spare), (0, 0))), jnp.pad(tables["direction"], (0, spare))
    return _correlate(z, tables["correlate"])[:terms] - tables["kappa"] * (direction @ z)


def standard_normals(key: jax.Array, tables: dict[str, jax.Array], *, samples: int) -> jax.Array:
    """(padded M, samples) float64: what the noise is made of."""
    rows = tables["factor"].shape[1] if "factor" in tables else tables["direction"].shape[0]
    return jax.random.normal(key, (rows, samples), jnp.float64)


def signal_products(
    positions: jax.Array, tables: dict[str, jax.Array], iterations: jax.Array, participations: jax.Array,
) -> jax.Array:
    """The signal of `simulate_products` alone."""
    replicas = positions.shape[1]
    if "factor" in tables:
        return sum(tables["residual"][:, positions[:, replica, 0]] for replica in range(replicas))
    steps = jnp.arange(tables["direction"].shape[0], dtype=jnp.int32)[:, None]
    signal = sum(_overlaps(positions[:, replica], tables["overlap"], steps, iterations) for replica in range(replicas))
    return signal - replicas * participations * tables["kappa"] ** 2


def _correlate(z: jax.Array, correlate: jax.Array) -> jax.Array:
    """Cᵀz by whole blocks of rows, z padded for them: each block of products is one matrix times the part of z it reaches."""
    block, reach = correlate.shape
    product = lambda i: correlate @ jax.lax.dynamic_slice_in_dim(z, i * block, reach, 0)
    return jax.lax.map(product, jnp.arange((z.shape[0] - reach) // block + 1)).reshape(-1, z.shape[1])


def _overlaps(positions: jax.Array, overlap: jax.Array, steps: jax.Array, iterations: jax.Array) -> jax.Array:
    """(CᵀCx)_t, (padded T, samples): as windows of one example do not overlap, only the last and the next participation reach step t."""
    last, following = _neighbours(positions, steps)
    far, longest = overlap.shape[0] - 1, overlap.shape[1] - 1
    before = overlap[jnp.minimum(steps - last, far), jnp.clip(iterations - 1 - steps, 0, longest)]
    after = overlap[jnp.minimum(following - steps, far), jnp.clip(iterations - 1 - following, 0, longest)]
    return before + jnp.where(following < iterations, after, 0.0)


def _neighbours(positions: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The last participation <= t and the first one > t (far away if there is none), each (padded T, samples) int32."""
    samples, columns = positions.shape
    shape = (steps.shape[0], samples)
    if columns <= _FEW_PARTICIPATIONS:
        last, following = jnp.full(shape, -_FAR, jnp.int32), jnp.full(shape, _FAR, jnp.int32)
        for column in range(columns):
            s = positions[None, :, column]
            last = jnp.maximum(last, jnp.where(s <= steps, s, -_FAR))
            following = jnp.minimum(following, jnp.where(s > steps, s, _FAR))
        return last, following
    marks = jnp.zeros(shape, bool).at[positions.T, jnp.arange(samples)[None]].set(True, mode="drop")
    last = jax.lax.cummax(jnp.where(marks, steps, -_FAR), axis=0)
    following = jax.lax.cummin(jnp.where(marks, steps, _FAR), axis=0, reverse=True)
    return last, jnp.concatenate([following[1:], jnp.full((1, samples), _FAR, jnp.int32)])
