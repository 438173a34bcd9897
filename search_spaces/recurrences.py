"""The likelihood-ratio recurrence as data: one description that covers every scheme.

A scheme's dominating pair is P = law of Cx + σz against Q = law of σz. Given the M terms ℓ_t (window likelihood ratios),

    LR(k, t) = p[k, t] · ℓ_t · LR(k', t + after_fire) + (1 − p[k, t]) · LR(k, t + after_skip),    LR(·, t) = 1 for t >= M,

with k' = k − 1 where participations are counted and k' = k where they are not, and LR(y) = mean of LR(K, t) over t < starts.
Sources: math/batch-schemes.md, "Likelihood ratio, nested RA" and "min-sep RA".
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Recurrence:
    """One scheme's recurrence.

    Attributes:
      fire_probability: (rows, M) float64 in [0, 1]; row k−1 holds p[k, t] with k participations left. One row where not counted.
      after_fire: step from t to the next undecided position after a participation, >= 1.
      after_skip: the same after no participation, >= 1.
      starts: number of equally likely first positions.
      counted: whether the scheme has exactly `rows` participations (k counts down), or no limit (k stays).
    """

    fire_probability: np.ndarray
    after_fire: int
    after_skip: int
    starts: int = 1
    counted: bool = True

    @property
    def terms(self) -> int:
        """M, the number of terms ℓ_t."""
        return self.fire_probability.shape[1]

    @property
    def rows(self) -> int:
        """Rows of `fire_probability`: K where participations are counted, else 1."""
        return self.fire_probability.shape[0]


def marginals(law: Recurrence) -> np.ndarray:
    """(M,) float64: the probability of taking part in each step, by a forward sweep."""
    free = _free_at_start(law)
    probabilities = np.zeros(law.terms)
    for t in range(law.terms):
        fired = free[1:, t] * law.fire_probability[:, t]
        probabilities[t] = fired.sum()
        free[1:, t + law.after_skip] += free[1:, t] - fired
        if law.counted:
            free[:-1, t + law.after_fire] += fired
        else:
            free[1:, t + law.after_fire] += fired
    return probabilities


def first_participations(law: Recurrence) -> np.ndarray:
    """(M,) float64: the probability that each step is the first one in which an example takes part; the rest of 1 is never taking part."""
    free = _free_at_start(law)[-1]
    probabilities = np.zeros(law.terms)
    for t in range(law.terms):
        probabilities[t] = free[t] * law.fire_probability[-1, t]
        free[t + law.after_skip] += free[t] - probabilities[t]
    return probabilities


def _free_at_start(law: Recurrence) -> np.ndarray:
    """(rows+1, M + largest step) float64: the probability of being at [k, t], free, before anything is decided."""
    free = np.zeros((law.rows + 1, law.terms + max(law.after_fire, law.after_skip)))
    free[-1, : law.starts] = 1.0 / law.starts
    return free
