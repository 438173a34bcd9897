"""Streaming correlated noise C⁻¹z for PyTorch tensors: the same recurrence as in noise_jax.py, with a window that is updated in place.

Row t of C n = z gives n_t = (z_t − Σ_{0<i<b} c_i n_{t−i}) / c_0, so the last b−1 noises are all there is to remember: O(b·d) numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import torch

from search_spaces import checks
from search_spaces.errors import HorizonExceeded, InputError
from search_spaces.strategies import ToeplitzStrategy


@dataclasses.dataclass(kw_only=True, eq=False)
class NoiseState:
    """What the next noises depend on. Secret: neither the generator nor the window may be shown.

    Attributes:
      step: the step whose noise comes next, from 0.
      generator: source of z.
      windows: per tensor (b−1, *shape): the last noises, that of step s in place s mod (b−1).
    """

    step: int
    generator: torch.Generator
    windows: list[torch.Tensor]

    def state_dict(self) -> dict[str, object]:
        """Copies for a checkpoint (`torch.save`)."""
        return {"step": self.step, "generator": self.generator.get_state(), "windows": [window.clone() for window in self.windows]}

    def load_state_dict(self, values: Mapping[str, object]) -> None:
        """Goes back to a checkpoint.

        Raises:
          InputError: its windows have other shapes: another model or another bandwidth.
        """
        shapes = [tuple(window.shape) for window in self.windows]
        if [tuple(window.shape) for window in values["windows"]] != shapes:
            raise InputError(f"Expected the checkpoint's windows to have the shapes {shapes}, (bandwidth − 1, *shape) of every tensor.")
        self.step = int(values["step"])
        self.generator.set_state(values["generator"].cpu())
        for window, saved in zip(self.windows, values["windows"]):
            window.copy_(saved)


def init_noise(strategy: ToeplitzStrategy, *, like: Iterable[torch.Tensor], generator: torch.Generator) -> NoiseState:
    """The state before step 0.

    Args:
      strategy: C.
      like: tensors with the shapes and devices of the gradients. Noise is float32, or float64 where a tensor is.
      generator: source of z, on the tensors' device; for a real run seeded by the operating system (`generator.seed()`).
    """
    windows = [
        torch.zeros((strategy.bandwidth - 1, *tensor.shape), dtype=_noise_dtype(tensor), device=tensor.device) for tensor in like
    ]
    return NoiseState(step=0, generator=generator, windows=windows)


@torch.no_grad()
def next_noise(strategy: ToeplitzStrategy, *, state: NoiseState, stddev: float) -> tuple[list[torch.Tensor], NoiseState]:
    """The noise of the next step, and the state after it: the same object, moved on in place, so that the window is in memory once.

    Args:
      strategy: C, as given to `init_noise`.
      state: of the last step.
      stddev: of z: σ · clip norm, where the noise is added to the sum of clipped gradients.

    Raises:
      HorizonExceeded: all T steps are spent.
    """
    stddev = checks.positive(stddev=stddev)
    if state.step >= strategy.iterations:
        raise HorizonExceeded(f"Step {state.step} (from 0) is beyond the {strategy.iterations} steps that the guarantee covers.")
    column = torch.tensor(strategy.coefficients, dtype=torch.float64)
    earlier = strategy.bandwidth - 1
    ratios = column[1:] / column[0]
    weights = ratios[(state.step - 1 - torch.arange(earlier)) % earlier] if earlier else ratios
    noises = []
    for window in state.windows:
        z = torch.empty(window.shape[1:], dtype=window.dtype, device=window.device)
        z.normal_(0.0, stddev / float(column[0]), generator=state.generator)
        if earlier:
            z -= torch.mv(window.view(earlier, z.numel()).T, weights.to(window.device, window.dtype)).view(z.shape)
            window[state.step % earlier] = z
        noises.append(z)
    state.step += 1
    return noises, state


def _noise_dtype(tensor: torch.Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
