"""Run folders made without a search: a study whose trials ended in every way, and strategy files of each kind."""

from pathlib import Path

from engine import study as studies
from engine.certification import certify
from engine.configuration import Configuration, suggest
from engine.fixed_size import tune_fixed_size
from engine.storage import opened_storage
from engine.trial_record import write_configuration
from search_spaces.problem import FixedSizeProblem, Problem
from search_spaces.schemes import make_scheme
from search_spaces.space import SearchSpace
from search_spaces.strategies import harmonic

PROBLEM = Problem(iterations=16, participations=2, epsilon=2.0, delta=1e-2)
REASON = 'error: <script>alert("x")</script> & more'
"""Why a trial failed; it must never reach a page as markup."""

ENDS = (
    ("nested_ra", 4, "complete", 1.25), ("min_sep_ra", 8, "prune", 1.5), ("cyclic_ra", 2, "complete", 1.75), ("min_sep_ra", 4, "complete", 1.125),
    ("balls_in_bins", 8, "fail", None), ("nested_ra", 8, "complete", 1.3125), ("cyclic_ra", 4, "running", None),
)
"""(scheme, bandwidth, how it ends, RMSE) of each trial."""


def write_study(path: Path, *, ends=ENDS) -> None:
    """A study with these trials."""
    space = SearchSpace.for_problem(PROBLEM)
    first = tuple(Configuration(scheme=scheme, bandwidth=bandwidth, r=0.05) for scheme, bandwidth, *_ in ends)
    with opened_storage(path) as storage:
        study = studies.create_study(storage=storage, name=path.parent.name, space=space, seed=3, rungs=(10,), first=first)
        for scheme, bandwidth, end, rmse in ends:
            trial = study.ask()
            write_configuration(trial, suggest(trial, space))
            bound = scheme == "cyclic_ra"
            outcome = {
                "rmse": rmse, "sigma": rmse, "rmse_standard_error": None if bound else 0.03125, "sigma_standard_error": None if bound else 0.0625,
                "kind": "bound" if bound else "estimate", "samples": 0 if bound else 4096, "seconds": 1.5, "device": "cpu",
                "multiple_of_limit": 1.5, "accountant": "pld" if bound else "monte_carlo",
            }
            if end == "complete":
                studies.complete(study, trial, outcome)
            elif end == "prune":
                studies.prune(study, trial, outcome, step=0)
            elif end == "fail":
                studies.fail(study, trial, reason=REASON)


def make_finished(folder: Path) -> Path:
    """A run that ended with a strategy certified on samples."""
    folder.mkdir()
    write_study(folder / "study.db")
    certify(
        scheme=make_scheme("nested_ra", iterations=16, participations=2, bandwidth=4), strategy=harmonic(iterations=16, bandwidth=4, r=0.1),
        epsilon=PROBLEM.epsilon, delta=PROBLEM.delta, seed=1, out=folder / "strategy.json",
    )
    return folder


def make_unfinished(folder: Path, *, ends=ENDS) -> Path:
    """A run that was interrupted in its search."""
    folder.mkdir()
    write_study(folder / "study.db", ends=ends)
    return folder


def make_deterministic(folder: Path) -> Path:
    """A strategy whose guarantee is a deterministic bound, without a study."""
    folder.mkdir()
    certify(
        scheme=make_scheme("cyclic_ra", iterations=16, participations=2, bandwidth=4), strategy=harmonic(iterations=16, bandwidth=4, r=0.1),
        epsilon=PROBLEM.epsilon, delta=PROBLEM.delta, seed=1, out=folder / "strategy.json",
    )
    return folder


def make_fixed_size(folder: Path) -> Path:
    """A run with fixed-size batches."""
    tune_fixed_size(FixedSizeProblem(dataset_size=100, batch_size=10, iterations=20, epsilon=2.0, delta=1e-3), out=folder)
    return folder
