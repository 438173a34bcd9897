"""What the study keeps of a trial: one flat user attribute per value, so that each is a column of a table, and the unit of each."""

from collections.abc import Mapping

import optuna
from optuna.trial import FrozenTrial

from engine.configuration import Configuration, configuration_attributes, recorded_configuration
from engine.outcome import OUTCOME_FIELDS, RMSE

UNITS: Mapping[str, str] = {
    "scheme": "name", "bandwidth": "bands b", "r": "dimensionless",
    "value": "RMSE of the prefix sums at clip norm 1", "rmse_standard_error": "as value",
    "sigma": "clip norms", "sigma_standard_error": "clip norms",
    "multiple_of_limit": "value / lower limit", "kind": "estimate or bound", "accountant": "name",
    "samples": "sampled outputs", "seconds": "s", "device": "name", "resolved": "false: not ranked",
    "reason": "why it failed", "cached": "number of the trial it repeats", "retry_of": "number of the trial it repeats",
    "requeued": "true: tried again, not counted",
    "lost": "worker, node or driver, each time before", "peak_memory_bytes": "bytes",
}
"""Unit or meaning of each column of the study's table. The RMSE is the trial's value and nothing else; what has no value is left out."""


def write_configuration(trial: optuna.Trial, configuration: Configuration) -> None:
    """Keeps scheme, b and r with a trial, unless it was enqueued with them."""
    if recorded_configuration(trial) is None:
        for name, value in configuration_attributes(configuration).items():
            trial.set_user_attr(name, value)


def write_outcome(trial: optuna.Trial, outcome: Mapping[str, object]) -> None:
    """Keeps the fields of an `engine.outcome.Outcome` with a trial: all but the RMSE, which the trial is told as its value."""
    for name in OUTCOME_FIELDS:
        value = outcome.get(name)
        # Almost all are resolved; one write less for each of them.
        if name != RMSE and value is not None and (name, value) != ("resolved", True):
            trial.set_user_attr(name, value)


def recorded_outcome(trial: FrozenTrial) -> dict[str, object]:
    """What `write_outcome` kept of a COMPLETE or PRUNED trial, with its RMSE; fields without a value are absent."""
    kept = {name: trial.user_attrs[name] for name in OUTCOME_FIELDS if name in trial.user_attrs}
    return kept if trial.value is None else kept | {RMSE: trial.value}
