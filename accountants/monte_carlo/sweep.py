"""The likelihood-ratio recurrence, swept backwards over a rolling buffer for a block of samples at once (JAX, traceable).

Sizes of the program depend on the padded shapes only: T, b, σ, θ and the scheme's steps are traced values. Plain numbers are
used where nothing can overflow, logs elsewhere (math/batch-schemes.md, "The sweep can be done with plain numbers").
"""

import math

import jax
import jax.numpy as jnp

_PLAIN_LIMIT = 600.0


def plain_is_safe(*, energy: float, sigma: float, theta: float = 1.0) -> bool:
    """Whether likelihood ratios fit plain float64: K‖c‖²/(2σ²) + 12√K‖c‖/σ < 600 with signals scaled by θ; `energy` is K‖c‖²."""
    scale, mean = max(1.0, abs(theta)) ** 2, math.sqrt(energy) / float(sigma)
    return bool(scale * (0.5 * mean * mean + 12 * mean) < _PLAIN_LIMIT)


def log_likelihood_ratio(log_terms: jax.Array, law: dict[str, jax.Array], *, window: int, counted: bool, plain: bool) -> jax.Array:
    """log LR of every sample.

    Args:
      log_terms: (padded M, samples) float64, log ℓ_t.
      law: `fire_probability` (rows, padded M) with zeros beyond M, and the integers `after_fire`, `after_skip`, `starts`.
      window: rolling buffer length, > max(after_fire, after_skip) and >= starts.
      counted: whether k counts down.
      plain: plain numbers instead of logs.

    Returns:
      (samples,) float64.
    """
    sweep = _sweep_plain if plain else _sweep_log
    first = sweep(log_terms, law["fire_probability"], law["after_fire"], law["after_skip"], window, counted)
    is_start = jnp.arange(window)[:, None] < law["starts"]
    if plain:
        return jnp.log(jnp.where(is_start, first, 0.0).sum(axis=0) / law["starts"])
    # The logarithm of an int32 would be a float32.
    return jax.nn.logsumexp(jnp.where(is_start, first, -jnp.inf), axis=0) - jnp.log(law["starts"].astype(log_terms.dtype))


def _sweep_plain(log_terms, fire_probability, after_fire, after_skip, window, counted):
    rows, samples = fire_probability.shape[0], log_terms.shape[1]
    # Row k of a buffer slot is LR(k, t); with uncounted participations there is one row, which is its own successor.
    buffer = jnp.ones((window, rows + counted, samples))

    def step(buffer, at):
        t, log_term, p = at
        fire = jax.lax.dynamic_index_in_dim(buffer, (t + after_fire) % window, 0, keepdims=False)[:rows]
        skip = jax.lax.dynamic_index_in_dim(buffer, (t + after_skip) % window, 0, keepdims=False)[counted:]
        updated = p[:, None] * (jnp.exp(log_term) * fire) + (1.0 - p)[:, None] * skip
        return jax.lax.dynamic_update_slice(buffer, updated[None], (t % window, int(counted), 0)), None

    steps = jnp.arange(log_terms.shape[0])
    buffer, _ = jax.lax.scan(step, buffer, (steps, log_terms, fire_probability.T), reverse=True)
    return buffer[:, -1]


def _sweep_log(log_terms, fire_probability, after_fire, after_skip, window, counted):
    rows, samples = fire_probability.shape[0], log_terms.shape[1]
    buffer = jnp.zeros((window, rows + counted, samples))
    log_fire, log_skip = jnp.log(fire_probability), jnp.log1p(-fire_probability)

    def step(buffer, at):
        t, log_term, fire_weight, skip_weight = at
        fire = jax.lax.dynamic_index_in_dim(buffer, (t + after_fire) % window, 0, keepdims=False)[:rows]
        skip = jax.lax.dynamic_index_in_dim(buffer, (t + after_skip) % window, 0, keepdims=False)[counted:]
        updated = jnp.logaddexp(fire_weight[:, None] + log_term + fire, skip_weight[:, None] + skip)
        return jax.lax.dynamic_update_slice(buffer, updated[None], (t % window, int(counted), 0)), None

    steps = jnp.arange(log_terms.shape[0])
    buffer, _ = jax.lax.scan(step, buffer, (steps, log_terms, log_fire.T, log_skip.T), reverse=True)
    return buffer[:, -1]
