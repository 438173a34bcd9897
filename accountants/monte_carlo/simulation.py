"""Sampled log likelihood ratios: one call draws a block of outputs and returns log LR for every wanted (θ, σ)."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from accountants.monte_carlo import ladder, sweep
from accountants.monte_carlo.products import ProductModel, product_model, simulate_products
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import NumericalError
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

Sampler = Callable[[np.random.Generator, int], np.ndarray]
"""(generator, size) → (size, replicas, columns) participations: how the signal of a block is drawn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulation:
    """A scheme and a strategy, ready to be sampled at any σ.

    Attributes:
      scheme, strategy: what is simulated.
    """

    scheme: BatchScheme
    strategy: ToeplitzStrategy

    @property
    def model(self) -> ProductModel:
        """The (cached) product model."""
        return product_model(self.scheme, self.strategy)

    @property
    def block_size(self) -> int:
        """Samples per block."""
        return self.model.block_size

    def factor(self, sigma: float) -> float:
        """ξ = Kκ/σ of the exact Gaussian factor, or 0 where participations are not fixed."""
        return self.model.removed**0.5 / sigma

    def log_likelihood_ratios(
        self,
        stream: Stream,
        block: int,
        *,
        sigmas: Sequence[float],
        evaluate: Sequence[float] = (1.0,),
        proposal: Sequence[float] | None = None,
        sampler: Sampler | None = None,
    ) -> np.ndarray:
        """log LR_⊥ (log LR where participations are not fixed) of one block of sampled outputs.

        Args:
          stream: the random stream; `block` >= 0 picks the block.
          sigmas: noise multipliers σ; all are served by the same random numbers.
          evaluate: signal scales θ whose likelihood ratio LR_θ = dP_θ/dQ is wanted (P_θ = law of θCx + σz).
          proposal: signal scales the outputs are drawn from, in equal shares of the block (default: θ = 1, that is P; 0 is Q).
          sampler: draws the participations (default: the scheme's own law).

        Returns:
          (len(evaluate), len(sigmas), block size) float64.

        Raises:
          NumericalError: a log likelihood ratio is not finite.
        """
        sampler = sampler or (lambda rng, size: self.scheme.sample(rng, size)[:, None, :])
        positions = sampler(stream.positions(block), self.block_size)
        # One plain-or-log decision per call, for the most extreme (θ, σ) in it.
        largest = max(map(abs, (*evaluate, *(proposal or (1.0,)), positions.shape[1])))
        energy = self.scheme.max_participations * self.strategy.column_norm**2
        plain = sweep.plain_is_safe(energy=energy, sigma=min(sigmas), theta=largest)
        with jax.enable_x64(True):
            result = np.asarray(_log_likelihood_ratios(
                stream.normals(block), jnp.asarray(positions, jnp.int32), *_device_arrays(self.scheme, self.strategy),
                jnp.asarray(sigmas, jnp.float64), jnp.asarray(evaluate, jnp.float64),
                jnp.resize(jnp.asarray(proposal or (1.0,), jnp.float64), self.block_size),
                window=_window(self.model), counted=self.model.recurrence.counted, plain=plain,
            ))
        if not np.isfinite(result).all():
            raise NumericalError(
                f"A log likelihood ratio of {self.scheme.name} is not finite at sigma={min(sigmas):.6g}, bandwidth={self.strategy.bandwidth}."
            )
        return result


def _window(model: ProductModel) -> int:
    law = model.recurrence
    return ladder.padded_size(max(law.after_fire, law.after_skip, law.starts)) + 1


@functools.lru_cache(maxsize=16)
def _device_arrays(scheme: BatchScheme, strategy: ToeplitzStrategy) -> tuple:
    """The model's arrays on the device: tables, law, energies, removed norm, T, K."""
    model = product_model(scheme, strategy)
    law, pad = model.recurrence, model.padded_terms - model.recurrence.terms
    integers = dict(after_fire=law.after_fire, after_skip=law.after_skip, starts=law.starts)
    return (
        {name: jnp.asarray(table) for name, table in model.tables.items()},
        {"fire_probability": jnp.asarray(np.pad(law.fire_probability, ((0, 0), (0, pad))))}
        | {name: jnp.asarray(value, jnp.int32) for name, value in integers.items()},
        jnp.asarray(np.pad(model.energies, (0, pad))),
        jnp.asarray(model.removed),
        jnp.asarray(scheme.iterations, jnp.int32),
        jnp.asarray(scheme.participations, jnp.float64),
    )


@functools.partial(jax.jit, static_argnames=("window", "counted", "plain"))
def _log_likelihood_ratios(
    key, positions, tables, law, energies, removed, iterations, participations, sigmas, evaluate, proposal, *, window, counted, plain,
):
    signal, noise = simulate_products(key, positions, tables, iterations, participations)
    signal = signal * proposal

    def one(theta, sigma):
        log_terms = (theta * (signal + sigma * noise) - theta**2 * energies[:, None]) / sigma**2
        log_ratio = sweep.log_likelihood_ratio(log_terms, law, window=window, counted=counted, plain=plain)
        return log_ratio + theta**2 * removed / (2 * sigma**2)

    pairs = jnp.repeat(evaluate, sigmas.shape[0]), jnp.tile(sigmas, evaluate.shape[0])
    ratios = jax.lax.map(lambda pair: one(*pair), pairs)
    return ratios.reshape(evaluate.shape[0], sigmas.shape[0], -1)
