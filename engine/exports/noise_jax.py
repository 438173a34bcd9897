"""Streaming correlated noise C⁻¹z for JAX pytrees: two functions, and a state that is a pytree itself.

Row t of C n = z gives n_t = (z_t − Σ_{0<i<b} c_i n_{t−i}) / c_0, so the last b−1 noises are all there is to remember: O(b·d) numbers.
The z_t are drawn from (key, step, leaf), so a state restored from a checkpoint goes on exactly as if it had never stopped.
"""

import secrets
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from search_spaces import checks
from search_spaces.errors import HorizonExceeded
from search_spaces.strategies import ToeplitzStrategy

PyTree = object


class NoiseState(NamedTuple):
    """What the next noise depends on; a pytree, to be kept in a checkpoint.

    Attributes:
      step: () int32, the step whose noise comes next, from 0.
      key: the random key of the whole run. It must stay secret, as must the window.
      window: per leaf (b−1, *shape): the last noises, that of step s in place s mod (b−1).
    """

    step: jax.Array
    key: jax.Array
    window: PyTree


def secret_key(seed: int | None = None) -> jax.Array:
    """A random key: from the operating system for real runs, from a seed for runs that are to be repeated."""
    if seed is not None:
        return jax.random.key(checks.integer(at_least=0, at_most=2**32 - 1, seed=seed), impl="threefry2x32")
    return jax.random.wrap_key_data(np.array([secrets.randbits(32), secrets.randbits(32)], dtype=np.uint32), impl="threefry2x32")


def init_noise(strategy: ToeplitzStrategy, *, like: PyTree, key: jax.Array) -> NoiseState:
    """The state before step 0.

    Args:
      strategy: C.
      like: pytree of arrays (or shapes with dtypes) with the shapes of the gradients. Noise is float32, or float64 where a leaf is.
      key: a random key, such as `secret_key()`.
    """
    window = jax.tree.map(lambda leaf: jnp.zeros((strategy.bandwidth - 1, *leaf.shape), _noise_dtype(leaf)), like)
    return NoiseState(step=jnp.zeros((), jnp.int32), key=key, window=window)


def next_noise(strategy: ToeplitzStrategy, *, state: NoiseState, stddev: float) -> tuple[PyTree, NoiseState]:
    """The noise of the next step, and the state after it. Pure; may be compiled (`strategy` and `stddev` are constants then).

    Args:
      strategy: C, as given to `init_noise`.
      state: of the last step.
      stddev: of z: σ · clip norm, where the noise is added to the sum of clipped gradients.

    Returns:
      A pytree of noises in the shapes of `like`, and the next state.

    Raises:
      HorizonExceeded: all T steps are spent. Compiled code cannot raise: there the noise is NaN, which no training survives unnoticed.
    """
    stddev = checks.positive(stddev=stddev)
    if not isinstance(state.step, jax.core.Tracer) and int(state.step) >= strategy.iterations:
        raise HorizonExceeded(f"Step {int(state.step)} (from 0) is beyond the {strategy.iterations} steps that the guarantee covers.")
    leaves, structure = jax.tree.flatten(state.window)
    step_key = jax.random.fold_in(state.key, state.step)
    scale = jnp.where(state.step < strategy.iterations, stddev, jnp.nan)
    noises, windows = [], []
    for place, window in enumerate(leaves):
        z = jax.random.normal(jax.random.fold_in(step_key, place), window.shape[1:], window.dtype)
        noise = _solve_row(strategy, scale.astype(window.dtype) * z, state.step, window)
        noises.append(noise)
        windows.append(window.at[state.step % len(window)].set(noise) if len(window) else window)
    return structure.unflatten(noises), NoiseState(step=state.step + 1, key=state.key, window=structure.unflatten(windows))


def _solve_row(strategy: ToeplitzStrategy, z: jax.Array, step: jax.Array, window: jax.Array) -> jax.Array:
    column = np.asarray(strategy.coefficients)
    earlier = len(window)
    if not earlier:
        return z / column[0].astype(z.dtype)
    # Divided by c_0 once, in float64; row s of the window holds lag 1 + (step − 1 − s) mod (b−1).
    ratios = jnp.asarray(column[1:] / column[0], z.dtype)
    weights = ratios[(step - 1 - jnp.arange(earlier)) % earlier]
    # Full precision: accelerators would otherwise multiply float32 with 10 bits of mantissa.
    correlated = jnp.tensordot(weights, window, axes=1, precision=jax.lax.Precision.HIGHEST)
    return z / column[0].astype(z.dtype) - correlated


def _noise_dtype(leaf: object) -> np.dtype:
    return np.dtype(np.float64) if leaf.dtype == np.float64 else np.dtype(np.float32)
