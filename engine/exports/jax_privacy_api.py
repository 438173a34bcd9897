"""The names of JAX-Privacy that exports use, in this one place. The supported release is 2.0.0; later ones rename some of them."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax_privacy
import optax
from jax_privacy.batch_selection import BatchSelectionStrategy
from jax_privacy.matrix_factorization import toeplitz
from jax_privacy.noise_addition import matrix_factorization_privatizer

from search_spaces.errors import UnsupportedError

SUPPORTED = "2.0.0"

if jax_privacy.__version__ != SUPPORTED:
    raise UnsupportedError(f"Expected jax_privacy={jax_privacy.__version__!r} to be {SUPPORTED!r}, the release that exports use.")


def clipped_sum(loss: Callable, *, clip_norm: float, normalize_by: float, **settings: object) -> Callable:
    """JAX-Privacy's sum of clipped per-example gradients of `loss`, divided by `normalize_by`; `settings` are those of `clipped_grad`."""
    return jax_privacy.clipped_grad(loss, l2_clip_norm=clip_norm, normalize_by=normalize_by, **settings)


def toeplitz_privatizer(coefficients: Sequence[float], *, stddev: float, key: jax.Array) -> optax.GradientTransformation:
    """JAX-Privacy's transformation that adds C⁻¹z, z ~ N(0, stddev²), for the banded Toeplitz C with these coefficients as they are."""
    inverse = toeplitz.inverse_as_streaming_matrix(jnp.asarray(coefficients, jnp.float32))
    return matrix_factorization_privatizer(inverse, stddev=stddev, prng_key=key, dtype=jnp.float32)


__all__ = ["BatchSelectionStrategy", "clipped_sum", "toeplitz_privatizer"]
