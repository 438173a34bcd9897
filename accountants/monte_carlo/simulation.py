"""Sampled log likelihood ratios: one call draws a block of outputs and returns log LR for every wanted law and σ."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from accountants.monte_carlo import sweep
from accountants.monte_carlo.products import ProductModel, product_model, simulate_products
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import NumericalError
from search_spaces.schemes import BatchScheme
from search_spaces.strategies import ToeplitzStrategy

Sampler = Callable[[np.random.Generator, int], np.ndarray]
"""(generator, size) → (size, replicas, columns) participations: how the signal of a block is drawn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Law:
    """A law of outputs y = θ·Cx + σ(z + ζ·d), used as a proposal; d is the unit vector along C E[x] (its residual part).

    Attributes:
      scale: θ; 1 is P, 0 is Q.
      shift: ζ, a deterministic shift in units of the noise; only with scale 0.
      boosted: whether x is drawn from the scheme with a larger participation rate (schemes without fixed participations only).
    """

    scale: float
    shift: float = 0.0
    boosted: bool = False


P = Law(scale=1.0)
Q = Law(scale=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """One block of sampled outputs, seen through their likelihood ratios.

    Attributes:
      log_ratio: (laws, sigmas, samples) float64, log dLaw/dQ for each evaluated law (residual laws with fixed participations).
      projection: (sigmas, samples) float64, ⟨d, y⟩/σ, standard normal under Q; None where it was not asked for.
    """

    log_ratio: np.ndarray
    projection: np.ndarray | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulation:
    """A scheme and a strategy, ready to be sampled at any σ.

    Attributes:
      scheme, strategy: what is simulated.
      boost: factor on the participation rate of boosted laws, >= 1; without effect where participations are fixed.
    """

    scheme: BatchScheme
    strategy: ToeplitzStrategy
    boost: float = 1.0

    @property
    def model(self) -> ProductModel:
        """The (cached) product model."""
        return product_model(self.scheme, self.strategy)

    @property
    def block_size(self) -> int:
        """Samples per block."""
        return self.model.block_size

    def draw(
        self,
        stream: Stream,
        block: int,
        *,
        sigmas: Sequence[float],
        proposal: Sequence[Law] = (P,),
        evaluate: Sequence[Law] = (P,),
        sampler: Sampler | None = None,
        project: bool = True,
    ) -> Draws:
        """Draw one block of outputs and evaluate likelihood ratios at every σ from the same random numbers.

        Args:
          stream: the random stream; `block` >= 0 picks the block.
          sigmas: noise multipliers σ.
          proposal: laws the outputs are drawn from, in turn (sample i from law i mod their number).
          evaluate: laws without shift whose likelihood ratio against Q is wanted.
          sampler: draws the participations instead of the proposals' own schemes.
          project: whether projections are wanted; they take about a fifth of the time.

        Raises:
          NumericalError: a log likelihood ratio is not finite.
        """
        positions = self.positions(stream.positions(block), proposal, sampler)
        # One plain-or-log decision per call, for the most extreme law and σ in it.
        scale = max(abs(law.scale) for law in (*evaluate, *proposal)) + positions.shape[1] - 1
        energy = self.scheme.max_participations * self.strategy.column_norm**2
        plain = sweep.plain_is_safe(energy=energy, sigma=min(sigmas), theta=scale)
        per_sample = lambda field: np.resize([getattr(law, field) for law in proposal], self.block_size)
        with jax.enable_x64(True):
            log_ratio, projection = _draw(
                stream.normals(block), jnp.asarray(positions, jnp.int32), *device_arrays(self.scheme, self.strategy, self.boost),
                jnp.asarray(sigmas, jnp.float64), jnp.asarray([law.scale for law in evaluate], jnp.float64),
                jnp.asarray([law.boosted and not self.scheme.fixed_participations for law in evaluate], jnp.int32),
                jnp.asarray(per_sample("scale")), jnp.asarray(per_sample("shift")),
                window=self.model.window, counted=self.model.recurrence.counted, plain=plain, project=project,
            )
            draws = Draws(log_ratio=np.asarray(log_ratio), projection=None if projection is None else np.asarray(projection))
        if not np.isfinite(draws.log_ratio).all():
            raise NumericalError(
                f"A log likelihood ratio of {self.scheme.name} is not finite at sigma={min(sigmas):.6g}, bandwidth={self.strategy.bandwidth}."
            )
        return draws

    def positions(self, rng: np.random.Generator, proposal: Sequence[Law], sampler: Sampler | None) -> np.ndarray:
        """(samples, replicas, columns) int64 participations of one block; unused places hold T."""
        if sampler is not None:
            return sampler(rng, self.block_size)
        positions = self.scheme.sample(rng, self.block_size)
        boosted = np.resize([law.boosted for law in proposal], self.block_size)
        if boosted.any():
            positions[boosted] = _boosted(self.scheme, self.boost).sample(rng, int(boosted.sum()))
        spare = self.model.columns - positions.shape[1]
        return np.pad(positions, ((0, 0), (0, spare)), constant_values=self.scheme.iterations)[:, None, :]


def _boosted(scheme: BatchScheme, boost: float) -> BatchScheme:
    return scheme if scheme.fixed_participations else dataclasses.replace(scheme, rate_factor=boost)


@functools.lru_cache(maxsize=8)
def device_arrays(scheme: BatchScheme, strategy: ToeplitzStrategy, boost: float) -> tuple:
    """What `_draw` needs of a model, on the device: tables, laws, energies, mean weights, removed norm, T, K."""
    model = product_model(scheme, strategy)
    law, pad = model.recurrence, model.padded_terms - model.recurrence.terms
    fire = [law.fire_probability] if scheme.fixed_participations else [law.fire_probability, _boosted(scheme, boost).recurrence().fire_probability]
    integers = dict(after_fire=law.after_fire, after_skip=law.after_skip, starts=law.starts)
    return (
        {name: jnp.asarray(table) for name, table in model.tables.items()},
        {"fire_probability": jnp.asarray(np.pad(np.stack(fire), ((0, 0), (0, 0), (0, pad))))}
        | {name: jnp.asarray(value, jnp.int32) for name, value in integers.items()},
        jnp.asarray(np.pad(model.energies, (0, pad))),
        {name: jnp.asarray(np.pad(values, (0, pad))) for name, values in model.mean_direction().items()},
        jnp.asarray(model.removed),
        jnp.asarray(scheme.iterations, jnp.int32),
        jnp.asarray(scheme.participations, jnp.float64),
    )


@functools.partial(jax.jit, static_argnames=("window", "counted", "plain", "project"))
def _draw(
    key, positions, tables, law, energies, mean, removed, iterations, participations,
    sigmas, scales, law_index, proposal_scale, proposal_shift, *, window, counted, plain, project,
):
    signal, noise = simulate_products(key, positions, tables, iterations, participations)
    signal, noise = signal * proposal_scale, noise + mean["products"][:, None] * proposal_shift

    def one(scale, index, sigma):
        log_terms = (scale * (signal + sigma * noise) - scale**2 * energies[:, None]) / sigma**2
        chosen = law | {"fire_probability": law["fire_probability"][index]}
        log_ratio = sweep.log_likelihood_ratio(log_terms, chosen, window=window, counted=counted, plain=plain)
        return log_ratio + scale**2 * removed / (2 * sigma**2)

    number = sigmas.shape[0]
    cases = jnp.repeat(scales, number), jnp.repeat(law_index, number), jnp.tile(sigmas, scales.shape[0])
    ratios = jax.lax.map(lambda case: one(*case), cases)
    projection = (mean["weights"] @ signal)[None] / sigmas[:, None] + mean["weights"] @ noise if project else None
    return ratios.reshape(scales.shape[0], number, -1), projection
