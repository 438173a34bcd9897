"""An exported configuration as Opacus objects: a loader over the scheme's batches and a DP optimizer with correlated noise."""

from collections.abc import Callable, Iterator

import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.validators import ModuleValidator
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from engine.exports.config import ExportConfig
from engine.exports.noise_torch import NoiseState, init_noise, next_noise
from engine.exports.run import TrainingRun
from search_spaces.schemes.batches import Rng


class SchemeBatchSampler(Sampler[list[int]]):
    """The scheme's batches as lists of indices, one per step, for `DataLoader(batch_sampler=…)`; one pass only."""

    def __init__(self, run: TrainingRun, *, rank: int = 0, world_size: int = 1) -> None:
        self._run, self._rank, self._world_size = run, rank, world_size

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._run.batches(rank=self._rank, world_size=self._world_size):
            yield batch.tolist()

    def __len__(self) -> int:
        return self._run.config.problem.iterations - self._run.steps_drawn


class CorrelatedNoiseOptimizer(DPOptimizer):
    """Opacus' DP optimizer with the configuration's noise C⁻¹z in place of white noise.

    Attributes:
      run: the run whose batches it steps on; one step per batch, empty ones included.
      noise: state of the noise, for checkpoints (`noise.state_dict()`). Secret.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, *, run: TrainingRun, generator: torch.Generator | None = None, rank: int = 0,
        world_size: int = 1, batches_ahead: int = 0,
    ) -> None:
        """Wraps a plain optimizer.

        Args:
          optimizer: moves the parameters.
          run: whose configuration and batches are used.
          generator: source of the noise; None takes one seeded by the operating system, on the parameters' device.
          rank, world_size: of several processes that share every batch, process 0 adds the noise and the sums are added up.
          batches_ahead: how many batches the loader's processes may draw ahead.
        """
        config = run.config
        super().__init__(
            optimizer, noise_multiplier=config.mechanism.sigma, max_grad_norm=config.clip_norm,
            expected_batch_size=config.normalize_by, loss_reduction="mean",
        )
        if generator is None:
            generator = torch.Generator(self.params[0].device)
            generator.seed()
        self.run, self._rank, self._world_size, self._batches_ahead = run, rank, world_size, batches_ahead
        self.noise: NoiseState = init_noise(config.mechanism.strategy, like=self.params, generator=generator)
        run.attach_noise()

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool | None:
        """As Opacus does, with two cases of its own, so that every step is taken and every example's part is at most the clip norm.

        A batch without examples, for which there was nothing to differentiate, adds nothing; nor does an entry of a gradient that is not
        finite, which would show through any noise.
        """
        for parameter in self.params:
            if self.run.is_empty(self.noise.step):
                parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))
            parts = parameter.grad_sample if isinstance(parameter.grad_sample, list) else [parameter.grad_sample]
            for part in parts:
                if part is not None:
                    part.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        return super().pre_step(closure)

    def add_noise(self) -> None:
        """Adds the noise of this step to the sum of clipped gradients.

        Raises:
          HorizonExceeded: all T steps are spent.
          ExportError: the step's batch did not come from the run's sampler.
        """
        config = self.run.config
        self.run.expect_batch_of(self.noise.step, ahead=self._batches_ahead)
        noises, self.noise = next_noise(config.mechanism.strategy, state=self.noise, stddev=config.noise_stddev)
        for parameter, noise in zip(self.params, noises, strict=True):
            summed = parameter.summed_grad + noise if self._rank == 0 else parameter.summed_grad
            parameter.grad = summed.to(parameter.dtype).view_as(parameter)
            if self._world_size > 1:
                torch.distributed.all_reduce(parameter.grad, op=torch.distributed.ReduceOp.SUM)

    def scale_grad(self) -> None:
        """Divides by the configuration's public constant, however the batch was cut into parts."""
        for parameter in self.params:
            parameter.grad /= self.run.config.normalize_by


def make_private(
    config: ExportConfig, *, model: torch.nn.Module, optimizer: torch.optim.Optimizer, dataset: Dataset, rng: Rng = None,
    generator: torch.Generator | None = None, first_step: int = 0, rank: int = 0, world_size: int = 1, loss_reduction: str = "mean",
    collate_fn: Callable = default_collate, num_workers: int = 0, prefetch_factor: int = 2, **loader_settings: object,
) -> tuple[GradSampleModule, CorrelatedNoiseOptimizer, DataLoader]:
    """What Opacus' `PrivacyEngine.make_private` makes, for an exported configuration.

    Args:
      config: from `load_config(folder, to="opacus")`.
      model: has to satisfy Opacus (no batch normalisation); its parameters are the optimizer's.
      optimizer: a plain optimizer of the model's parameters.
      dataset: with a length and random access.
      rng: of the batches; None (for real runs) is seeded by the operating system; processes that share batches need one secret seed.
      generator: of the noise; None likewise.
      first_step: where a resumed run goes on; `optimizer.noise.load_state_dict` restores its noise.
      rank, world_size: of several processes that share every batch.
      loss_reduction: `mean` or `sum`, how the loss combines the examples of a batch.
      collate_fn, num_workers, prefetch_factor, loader_settings: of the `DataLoader`.

    Returns:
      The model that keeps per-example gradients, the optimizer and the loader, whose batches may be empty.
    """
    ModuleValidator.validate(model, strict=True)
    run = TrainingRun(config, num_examples=len(dataset), rng=rng, first_step=first_step)
    private = CorrelatedNoiseOptimizer(
        optimizer, run=run, generator=generator, rank=rank, world_size=world_size, batches_ahead=num_workers * prefetch_factor,
    )
    loader = DataLoader(
        dataset, batch_sampler=SchemeBatchSampler(run, rank=rank, world_size=world_size), collate_fn=_EmptyToo(collate_fn, dataset),
        num_workers=num_workers, prefetch_factor=prefetch_factor if num_workers else None, **loader_settings,
    )
    return GradSampleModule(model, loss_reduction=loss_reduction), private, loader


class _EmptyToo:
    """A collate function that also makes empty batches: the shapes of a batch with one example, cut to none."""

    def __init__(self, collate: Callable, dataset: Dataset) -> None:
        self._collate, self._dataset = collate, dataset

    def __call__(self, examples: list) -> object:
        return self._collate(examples) if examples else _cut(self._collate([self._dataset[0]]))


def _cut(batch: object) -> object:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return {name: _cut(part) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_cut, batch))
    return type(batch)(map(_cut, batch)) if isinstance(batch, (list, tuple)) else batch
