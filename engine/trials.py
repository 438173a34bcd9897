"""Reading a study: the table of its trials, and the best of them."""

import csv
import dataclasses
import io
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from engine.configuration import Configuration, recorded_configuration
from engine.files import write_atomically
from engine.trial_record import recorded_outcome
from search_spaces import checks

COLUMNS = (
    "number", "state", "scheme", "bandwidth", "r", "sigma", "sigma_standard_error", "rmse", "rmse_standard_error", "multiple_of_limit",
    "kind", "accountant", "samples", "seconds", "device", "peak_memory_bytes", "reason", "cached", "retry_of", "lost",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A fully evaluated configuration, fit to be certified.

    Attributes:
      number: of its trial.
      configuration: scheme, b and r.
      rmse, rmse_standard_error, sigma, sigma_standard_error, multiple_of_limit, kind, accountant, samples: see `engine.outcome.Outcome`.
    """

    number: int
    configuration: Configuration
    rmse: float
    rmse_standard_error: float | None = None
    sigma: float | None = None
    sigma_standard_error: float | None = None
    multiple_of_limit: float | None = None
    kind: str | None = None
    accountant: str | None = None
    samples: int | None = None


def best_candidates(study: optuna.Study, *, count: int) -> tuple[Candidate, ...]:
    """The `count` best COMPLETE trials by RMSE, distinct configurations, best first; fewer if there are fewer.

    Trials that were stopped early, failed or unresolved are never among them.
    """
    count = checks.integer(at_least=0, count=count)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    best: dict[tuple, Candidate] = {}
    for trial in sorted(complete, key=lambda trial: (trial.value, trial.number)):
        candidate = _candidate(trial)
        best.setdefault(candidate.configuration.key, candidate)
    return tuple(best.values())[:count]


def best_per_scheme(study: optuna.Study) -> dict[str, Candidate]:
    """The best candidate of every scheme that has one, best first."""
    best: dict[str, Candidate] = {}
    for candidate in best_candidates(study, count=len(study.get_trials(deepcopy=False))):
        best.setdefault(candidate.configuration.scheme, candidate)
    return best


def trial_rows(study: optuna.Study) -> list[dict[str, object]]:
    """All trials in order, one mapping with the keys `COLUMNS` each; None where a trial has no such value."""
    return [_row(trial) for trial in study.get_trials(deepcopy=False)]


def write_trials(path: Path, study: optuna.Study) -> None:
    """The table of all trials as CSV, numbers in full precision, empty where there is no value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(trial_rows(study))
    write_atomically(path, text.getvalue())


def _candidate(trial: FrozenTrial) -> Candidate:
    outcome = recorded_outcome(trial)
    names = [field.name for field in dataclasses.fields(Candidate) if field.name not in ("number", "configuration", "rmse")]
    return Candidate(
        number=trial.number, configuration=recorded_configuration(trial), rmse=trial.value,
        **{name: outcome.get(name) for name in names},
    )


def _row(trial: FrozenTrial) -> dict[str, object]:
    values = trial.user_attrs | recorded_outcome(trial)
    return {name: values.get(name) for name in COLUMNS} | {"number": trial.number, "state": trial.state.name}
