"""An exported configuration as JAX-Privacy objects: clipped gradients, batch selection and noise, which work only together."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from engine.exports.config import ExportConfig, load_config
from engine.exports.jax_privacy_api import BatchSelectionStrategy, clipped_sum, toeplitz_privatizer
from engine.exports.noise_jax import secret_key
from engine.exports.run import TrainingRun
from search_spaces.errors import ExportError, InputError
from search_spaces.schemes.batches import Rng


class SchemeBatches(BatchSelectionStrategy):
    """The scheme's batches, by JAX-Privacy's protocol; one run of them."""

    def __init__(self, config: ExportConfig, first_step: int) -> None:
        self.run: TrainingRun | None = None
        self.noise_attached = False
        self._config, self._first_step = config, first_step

    def batch_iterator(self, num_examples: int, rng: Rng = None) -> Iterator[np.ndarray]:
        """The T batches (from `first_step` on); see `TrainingRun`.

        Raises:
          ExportError: the noise transform was not initialised, or batches were asked for before.
        """
        if self.run is not None:
            raise ExportError("The batches of this plan were given out before; a second pass is another run, with its own guarantee.")
        run = TrainingRun(self._config, num_examples=num_examples, rng=rng, first_step=self._first_step)
        if self.noise_attached:
            run.attach_noise()
        batches = run.batches()
        self.run = run
        return batches


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What JAX-Privacy's training loops take, under the names of its execution plans.

    Attributes:
      clipped_grad: like `jax_privacy.clipped_grad`, with clip norm and normalisation already given.
      batch_selection_strategy: the batches. Secret.
      noise_addition_transform: optax transformation that adds a step's noise to the normalised sum of clipped gradients. Its state is
        (step, JAX-Privacy's state): a pytree, to be kept in a checkpoint. Secret.
      config: what is trained.
    """

    clipped_grad: Callable
    batch_selection_strategy: SchemeBatches
    noise_addition_transform: optax.GradientTransformation
    config: ExportConfig


def load_plan(folder: Path, *, seed: int | None = None, first_step: int = 0) -> Plan:
    """The plan of an exported folder.

    Args:
      folder: what `bandsmith export --to jax-privacy` wrote.
      seed: of the noise; None (for real runs) takes one from the operating system.
      first_step: where a resumed run goes on; its noise state comes from the checkpoint and its batches from the same seed as before.

    Raises:
      InputError: the configuration cannot be read or was edited.
    """
    return make_plan(load_config(folder, to="jax-privacy"), seed=seed, first_step=first_step)


def make_plan(config: ExportConfig, *, seed: int | None = None, first_step: int = 0) -> Plan:
    """As `load_plan`, from a configuration."""
    batches = SchemeBatches(config, first_step)

    def clipped_grad(loss: Callable, **settings: object) -> Callable:
        """Raises `InputError` where a setting would change how far one example can move the sum, for which the noise is made."""
        made = clipped_sum(loss, clip_norm=config.clip_norm, normalize_by=config.normalize_by, **settings)
        if made.l2_norm_bound != config.clip_norm / config.normalize_by or not settings.get("nan_safe", True):
            raise InputError(f"Expected settings={settings!r} to leave clip norm, normalisation and nan_safe as they were exported.")
        return made

    return Plan(
        clipped_grad=clipped_grad, batch_selection_strategy=batches, noise_addition_transform=_noise(config, batches, seed), config=config,
    )


def _noise(config: ExportConfig, batches: SchemeBatches, seed: int | None) -> optax.GradientTransformation:
    privatizer = toeplitz_privatizer(
        config.mechanism.strategy.coefficients, stddev=config.noise_stddev / config.normalize_by, key=secret_key(seed),
    )
    horizon = config.problem.iterations

    def init(params: object) -> tuple[jax.Array, object]:
        batches.noise_attached = True
        return jnp.zeros((), jnp.int32), privatizer.init(params)

    def update(clipped: object, state: tuple[jax.Array, object], params: object = None) -> tuple[object, tuple[jax.Array, object]]:
        """Compiled code is checked when it is traced; beyond the horizon its noise is NaN, as it cannot raise."""
        step, inner = state
        if batches.run is None:
            raise ExportError("Batches must come from this plan's batch selection strategy; it was not asked for any.")
        if not isinstance(step, jax.core.Tracer):
            batches.run.expect_batch_of(int(step))
        # Full precision: accelerators would otherwise multiply float32 with 10 bits of mantissa.
        with jax.default_matmul_precision("highest"):
            noisy, inner = privatizer.update(clipped, inner)
        return jax.tree.map(lambda leaf: jnp.where(step < horizon, leaf, jnp.nan), noisy), (step + 1, inner)

    return optax.GradientTransformation(init, update)
