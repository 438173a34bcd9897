"""One training run: its batches and its noise, which exist only together and keep count of each other."""

from collections.abc import Iterator

import numpy as np

from engine.exports.config import ExportConfig
from search_spaces import checks
from search_spaces.errors import ExportError, HorizonExceeded, InputError
from search_spaces.schemes.batches import Rng


class TrainingRun:
    """The batches of one run, given out step by step to whoever adds the noise.

    The guarantee is one of batches and noise together. So batches are refused before a noise is attached, and the noise of a step before
    that step's batch was drawn.

    Attributes:
      config: what is trained.
      steps_drawn: batches given out so far, counted from step 0.
    """

    def __init__(self, config: ExportConfig, *, num_examples: int, rng: Rng = None, first_step: int = 0) -> None:
        """A run over a dataset.

        Args:
          config: what is trained.
          num_examples: size of the dataset.
          rng: a generator, a seed, or None for one seeded by the operating system. Keep it secret; to resume a run you need the seed.
          first_step: where a resumed run goes on; the batches before are drawn again from the same seed and dropped.
        """
        self.config = config
        self._repeatable = rng is not None
        self.steps_drawn = checks.integer(at_least=0, at_most=config.problem.iterations, first_step=first_step)
        if first_step and not self._repeatable:
            raise InputError("Expected rng to be the seed of the run that is resumed: other batches would break its participations.")
        self._batches = config.mechanism.scheme.batch_iterator(num_examples, rng)
        self._first_step = self.steps_drawn
        self._noise_attached = self._started = False
        self._empty: set[int] = set()

    def attach_noise(self) -> None:
        """Says that a noise of this configuration is in place."""
        self._noise_attached = True

    def batches(self, *, rank: int = 0, world_size: int = 1) -> Iterator[np.ndarray]:
        """The batches from `first_step` on, each once; of several processes with the same seed each gets its share of every batch.

        Raises:
          ExportError: no noise is attached, or the batches were given out before.
        """
        world_size = checks.integer(world_size=world_size)
        rank = checks.integer(at_least=0, at_most=world_size - 1, rank=rank)
        if world_size > 1 and not self._repeatable:
            raise InputError("Expected rng to be one secret seed of all processes: they share every batch.")
        if not self._noise_attached:
            raise ExportError("The noise of this configuration must be attached before batches are drawn: without it nothing is private.")
        if self._started:
            raise ExportError("The batches of this run were given out before; a second pass is another run, with its own guarantee.")
        self._started = True
        return self._give_out(rank, world_size)

    def expect_batch_of(self, step: int, *, ahead: int = 0) -> None:
        """Nothing if the noise of this step (from 0) is due.

        Args:
          step: whose noise is about to be added.
          ahead: how many batches may have been drawn ahead (by loader processes).

        Raises:
          HorizonExceeded: it is beyond the last step.
          ExportError: its batch was not drawn from this run's sampler, or batches were drawn without a step of noise each.
        """
        if step >= self.config.problem.iterations:
            raise HorizonExceeded(f"Step {step} (from 0) is beyond the {self.config.problem.iterations} steps that the guarantee covers.")
        if not step < self.steps_drawn <= step + 1 + ahead:
            raise ExportError(
                f"Step {step} (from 0) of the noise is due after {step + 1} batches of this run's sampler, but {self.steps_drawn} were "
                "drawn: every batch, empty ones too, needs one optimiser step, and every step one batch."
            )

    def is_empty(self, step: int) -> bool:
        """Whether the batch that was given out for this step (to this process) has no examples."""
        return step in self._empty

    def _give_out(self, rank: int, world_size: int) -> Iterator[np.ndarray]:
        for step, batch in enumerate(self._batches):
            if step >= self._first_step:
                self.steps_drawn = step + 1
                share = batch[rank::world_size]
                if not share.size:
                    self._empty.add(step)
                yield share
