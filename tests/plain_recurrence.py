"""The likelihood-ratio recurrence in plain Python, as the docstring of search_spaces/recurrences.py writes it: slow, and obviously that."""

import functools
from collections.abc import Sequence

import numpy as np

from search_spaces.recurrences import Recurrence
from search_spaces.strategies import ToeplitzStrategy


def likelihood_ratio(law: Recurrence, window_ratios: Sequence[float]) -> float:
    """LR = mean of LR(K, t) over t < starts.

    Args:
      law: the recurrence.
      window_ratios: the M terms ℓ_t.
    """

    @functools.cache
    def ratio(k: int, t: int) -> float:
        if k == 0 or t >= law.terms:
            return 1.0
        fire = float(law.fire_probability[k - 1, t])
        left = k - 1 if law.counted else k
        return fire * window_ratios[t] * ratio(left, t + law.after_fire) + (1.0 - fire) * ratio(k, t + law.after_skip)

    return sum(ratio(law.rows, t) for t in range(law.starts)) / law.starts


def window_ratios(strategy: ToeplitzStrategy, *, sigma: float, y: np.ndarray) -> np.ndarray:
    """(T,) float64: ℓ_t = exp((⟨c, y_{t:t+b}⟩ − ½‖c_{0:min(b, T−t)}‖²)/σ²), each window cut off at T, one by one."""
    c = np.array(strategy.coefficients)
    horizon = strategy.iterations
    windows = [c[: min(c.size, horizon - t)] for t in range(horizon)]
    return np.array([np.exp((w @ y[t : t + w.size] - 0.5 * (w @ w)) / sigma**2) for t, w in enumerate(windows)])
