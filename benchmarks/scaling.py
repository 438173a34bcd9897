"""What a search costs besides its trials, and how far it scales. Run as `python -m benchmarks.scaling [--nodes 1000]`.

Measured, in one run on this machine:

* trials per minute of the real objective, warm, with one worker and with two;
* overhead per trial: an empty objective on reused actors, with one worker and with two, from two searches of different length, so that
  neither Ray's start nor the actors' is in it;
* the driver's share of that: a trial asked for, recorded and told, without Ray, in studies that hold 100, 1 000 and 5 000 trials already;
* what travels: bytes of a trial's settings and of its result.

From these, an estimate for a cluster: there is one driver, and it serves trials one after another. With w workers whose trials take s seconds, w/s
trials end in a second; the driver keeps up with 1/overhead of them, so workers beyond s/overhead wait for it.
"""

import argparse
import dataclasses
import pickle
import tempfile
import time
from pathlib import Path

import optuna

from engine.environment import start_ray
from engine.objective import evaluate
from engine.outcome import FINAL, RUNG
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from engine.searcher import StudySearcher
from engine.storage import opened_storage
from engine.study import create_study
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

PROBLEM = Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)
SIZES = (100, 1000, 5000)
"""Trials in the study when the driver's share is measured."""

TIMED = 50
"""Trials that are timed at each size."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """What to expect of a cluster.

    Attributes:
      demand: trials per second that its workers could finish.
      capacity: trials per second that the driver can serve.
      saturation: workers beyond which more of them wait for the driver.
      bytes_per_second: through the object store and the network, at the smaller of demand and capacity.
    """

    demand: float
    capacity: float
    saturation: float
    bytes_per_second: float


def estimate(*, workers: int, trial_seconds: float, overhead_seconds: float, bytes_per_trial: int) -> Estimate:
    """The estimate for a number of workers whose trials take `trial_seconds`, from a driver's `overhead_seconds` per trial."""
    demand, capacity = workers / trial_seconds, 1 / overhead_seconds
    return Estimate(
        demand=demand, capacity=capacity, saturation=trial_seconds / overhead_seconds,
        bytes_per_second=min(demand, capacity) * bytes_per_trial,
    )


def empty(problem: Problem, *, r: float, **configuration: object) -> dict[str, object]:
    """An objective that does next to nothing, and completes every trial at its last rung. Its best r lies within, or suggestions would repeat."""
    return {"rmse": 1 + (r - 0.1) ** 2}


def main() -> None:
    """Prints the measurements and the estimate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=24, help="of the real objective, per number of workers")
    parser.add_argument("--empty-trials", type=int, default=200, help="of the empty one")
    parser.add_argument("--nodes", type=int, default=1000, help="of the cluster to estimate")
    parser.add_argument("--workers-per-node", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        rates, overheads = {}, {}
        for workers in (1, 2):
            with start_ray(workers=workers):
                rates[workers] = warm_seconds(folder / f"real{workers}", arguments.trials, workers)
                overheads[workers] = warm_seconds(folder / f"empty{workers}", arguments.empty_trials, workers, "benchmarks.scaling:empty")
            _print(f"trials per minute, {workers} worker(s)", 60 / rates[workers])
            _print(f"overhead per trial, {workers} worker(s), ms", 1e3 * overheads[workers])
        _print("trials per minute, ratio of two workers to one", rates[1] / rates[2])
        for size in SIZES:
            _print(f"driver's share per trial at {size} trials, ms", 1e3 * bookkeeping_seconds(folder / f"{size}.db", size))
    settings, result = traffic()
    _print("settings of a trial, bytes", settings)
    _print("result of a trial, bytes", result)
    _print_estimate(arguments, trial_seconds=rates[1], overhead_seconds=overheads[2], bytes_per_trial=settings + result)


def warm_seconds(path: Path, trials: int, workers: int, objective: str | None = None) -> float:
    """Seconds per trial beyond the first few, which warm the workers up: the difference of two searches in one Ray session."""
    short = max(trials // 6, 2 * workers)
    few, many = (_search_seconds(path.with_name(f"{path.name}_{count}"), count, workers, objective) for count in (short, short + trials))
    return (many - few) / trials


def _search_seconds(path: Path, trials: int, workers: int, objective: str | None) -> float:
    chosen = {"rungs": (4096,)} if objective is None else {"rungs": (1,), "objective": objective}
    folder = RunFolder.create(path)
    with folder.writing():
        return run_search(SearchSettings(folder=folder, space=_space(), trials=trials, workers=workers, **chosen)).seconds


def bookkeeping_seconds(path: Path, size: int) -> float:
    """Seconds of the driver per trial, in a SQLite study that holds `size` finished trials: asking, recording and telling."""
    with opened_storage(path) as storage:
        study = create_study(storage=storage, name="scaling", space=_space(), seed=0, rungs=(1,), first=())
        study.add_trials([_finished(number / size) for number in range(size)])
        searcher = StudySearcher(study=study, space=_space(), trials=size + 2 * TIMED, workers=1)
        # The first reads the whole study once.
        for number in range(TIMED + 1):
            if number == 1:
                started = time.perf_counter()
            _one_trial(searcher, str(number))
        return (time.perf_counter() - started) / TIMED


def _one_trial(searcher: StudySearcher, name: str) -> None:
    configuration = searcher.suggest(name)
    searcher.on_trial_complete(name, empty(PROBLEM, r=configuration["r"]) | {RUNG: 0, FINAL: True})


def _finished(position: float) -> optuna.trial.FrozenTrial:
    uniform = optuna.distributions.FloatDistribution(0.0, 1.0)
    names = ("min_sep_ra.bandwidth_position", "min_sep_ra.r_position")
    return optuna.trial.create_trial(
        params=dict(zip(names, (position, 1 - position), strict=True)), distributions=dict.fromkeys(names, uniform),
        value=1 + (position - 0.5) ** 2,
    )


def _space() -> SearchSpace:
    return SearchSpace.for_problem(PROBLEM, schemes=["min_sep_ra"])


def traffic() -> tuple[int, int]:
    """Bytes of what a trial is sent and of what it sends back."""
    configuration = {"scheme": "min_sep_ra", "bandwidth": 128, "r": 0.02}
    settings = configuration | {"problem": dataclasses.asdict(PROBLEM), "rungs": [1024, 4096, 16384], "seed": 0, "objective": "m:f"}
    result = dataclasses.asdict(evaluate(PROBLEM, **configuration, samples=1024, seed=0))
    return len(pickle.dumps(settings)), len(pickle.dumps(result))


def _print_estimate(arguments: argparse.Namespace, **measured: float) -> None:
    workers = arguments.nodes * arguments.workers_per_node
    found = estimate(workers=workers, **measured)
    print(f"{arguments.nodes} nodes of {arguments.workers_per_node} workers:")
    _print("  trials per second their workers could finish", found.demand)
    _print("  trials per second the driver can serve", found.capacity)
    _print("  workers from which on the driver is the limit", found.saturation)
    _print("  traffic, kB per second", found.bytes_per_second / 1e3)


def _print(name: str, value: float) -> None:
    print(f"{name:<52}{value:12.1f}", flush=True)


if __name__ == "__main__":
    main()
