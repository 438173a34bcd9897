"""What is known of one configuration after an evaluation, and how a worker reports it: one flat mapping, an outcome or a failure."""

import dataclasses
import math
import numbers
from collections.abc import Mapping

RMSE = "rmse"
RUNG = "rung"
RESOURCE = "resource"
FINAL = "final"
FAILURE = "failure"
PEAK_MEMORY = "peak_memory_bytes"
"""Most memory the worker held during the trial, resident; JAX and Ray themselves are in it."""

UNRESOLVED = "unresolved: too few effective samples to rank this configuration"
"""Reason of a trial whose estimate stayed unresolved with the largest sample budget."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known of one configuration after an evaluation.

    Attributes:
      sigma: noise multiplier that meets the target by this accountant.
      sigma_standard_error: its standard error, None for a bound.
      rmse: RMSE of the prefix sums at `sigma`; what the search minimises.
      rmse_standard_error: its standard error, None for a bound.
      multiple_of_limit: rmse over `accountants.gaussian.rmse_lower_limit`.
      kind: `estimate` or `bound` (see `accountants.evidence.KINDS`).
      accountant: which accountant gave σ.
      samples: sampled outputs, 0 for a bound.
      resolved: False if an estimate must not be ranked: its effective sample size is too small.
      seconds: wall time of the evaluation.
      device: `cpu`, or the kind of accelerator the samples were drawn on.
    """

    sigma: float
    sigma_standard_error: float | None
    rmse: float
    rmse_standard_error: float | None
    multiple_of_limit: float
    kind: str
    accountant: str
    samples: int
    resolved: bool
    seconds: float
    device: str


OUTCOME_FIELDS = (*(field.name for field in dataclasses.fields(Outcome)), PEAK_MEMORY)
"""What is kept of a trial: the fields of an `Outcome`, and what its worker adds."""


def failure_in(outcome: Mapping[str, object]) -> str | None:
    """Why an outcome has no usable RMSE, in words that start with its kind (`missing metric`, `not a number`, `nan`, `infinite`), or None."""
    if RMSE not in outcome:
        return f"missing metric: the objective returned no {RMSE}"
    value = outcome[RMSE]
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return f"not a number: the objective returned {RMSE}={value!r}"
    if math.isnan(value):
        return f"nan: the objective returned {RMSE}=nan"
    if math.isinf(value):
        return f"infinite: the objective returned {RMSE}={value}"
    return None


def outcome_of(result: Mapping[str, object]) -> dict[str, object]:
    """The `OUTCOME_FIELDS` in a report."""
    return {name: result[name] for name in OUTCOME_FIELDS if name in result}
