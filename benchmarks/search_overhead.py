"""What the search itself costs: trials of an empty objective on two workers. Run as `python -m benchmarks.search_overhead`."""

import argparse
import tempfile
import time
from pathlib import Path

from engine.environment import start_ray
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace


def empty(problem: Problem, **configuration: object) -> dict[str, object]:
    """An objective that does nothing, and so completes every trial at its last rung."""
    return {"rmse": 1.0}


def main() -> None:
    """Prints start-up times and the time per trial, from two searches of different length in one Ray session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rungs", type=int, default=1)
    arguments = parser.parse_args()
    short = max(arguments.trials // 10, 2)
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        with start_ray(workers=arguments.workers):
            ready = time.perf_counter()
            few = _seconds(Path(directory), short, arguments)
            many = _seconds(Path(directory), arguments.trials, arguments)
    per_trial = (many - few) / (arguments.trials - short)
    for name, value in (
        ("Ray start-up, s", ready - started),
        (f"search of {short} trials, s", few),
        (f"search of {arguments.trials} trials, s", many),
        ("fixed cost of a search, s", few - short * per_trial),
        ("time per trial, ms", 1e3 * per_trial),
    ):
        print(f"{name:<32}{value:10.2f}")


def _seconds(directory: Path, trials: int, arguments: argparse.Namespace) -> float:
    problem = Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)
    folder = RunFolder.create(directory / f"trials{trials}")
    settings = SearchSettings(
        folder=folder, space=SearchSpace.for_problem(problem, schemes=["min_sep_ra", "min_sep_poisson"]), trials=trials,
        workers=arguments.workers, rungs=tuple(1024 * 4**i for i in range(arguments.rungs)), objective="benchmarks.search_overhead:empty",
    )
    with folder.writing():
        return run_search(settings).seconds


if __name__ == "__main__":
    main()
