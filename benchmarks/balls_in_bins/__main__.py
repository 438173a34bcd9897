"""Runs experiments: measures what the results file lacks, prints the tables and draws the figure of each."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from benchmarks.balls_in_bins import directions, dp_sgd, run_times, sigma_against_epsilon, truncations, winners
from benchmarks.jobs import run
from benchmarks.store import Results

EXPERIMENTS: Mapping[str, ModuleType] = {
    "sigma_against_epsilon": sigma_against_epsilon, "run_times": run_times, "directions": directions, "truncations": truncations,
    "dp_sgd": dp_sgd, "winners": winners,
}
"""Every experiment lists its `jobs`, and makes a `report` and a figure (`draw`) of what they found."""


def main(words: Sequence[str] | None = None) -> None:
    """Writes NAME.jsonl, NAME.txt and NAME.png of every experiment into the folder; run again, it goes on where it stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("runs/balls_in_bins"), help="folder of the results; made if need be")
    parser.add_argument("--paper", action="store_true", help="at the paper's sizes, which take hours, in place of reduced ones")
    parser.add_argument("--workers", type=int, default=1, help="measurements at once, on Ray where more than one")
    arguments = parser.parse_args(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if unknown := set(arguments.experiments) - set(EXPERIMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for experiment in arguments.experiments or EXPERIMENTS:
        make(experiment, arguments)


def make(experiment_name: str, arguments: argparse.Namespace) -> None:
    """One experiment: measures what is missing, prints the report and writes it and the figure."""
    experiment, name = EXPERIMENTS[experiment_name], experiment_name + ("_paper" if arguments.paper else "")
    found = run(experiment.jobs(paper=arguments.paper), Results(arguments.out / f"{name}.jsonl"), workers=arguments.workers)
    report = experiment.report(found)
    (arguments.out / f"{name}.txt").write_text(report + "\n", encoding="utf-8")
    print(report)
    experiment.draw(found, arguments.out / f"{name}.png")
    print(arguments.out / f"{name}.png")


if __name__ == "__main__":
    main()
