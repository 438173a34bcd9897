"""Runs the table: measures what the results file lacks, then writes the report and the plots from it."""

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.jobs import Job, run
from benchmarks.scheme_table import frames, measure, plots
from benchmarks.scheme_table.findings import findings
from benchmarks.scheme_table.grid import GRIDS, OPTIMISED, STANDARD, TAKEN_FROM, Grid
from benchmarks.scheme_table.report import markdown
from benchmarks.store import Results
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

COUNTED = ("nested_ra", "min_sep_ra")
"""Schemes whose samples are counted, at their optimised (b, r)."""


class Table:
    """One grid, some schemes and a seed; every method lists the jobs of one kind of measurement."""

    def __init__(self, grid: Grid, *, schemes: Sequence[str] | None, seed: int) -> None:
        self.grid, self.schemes = grid, schemes
        self.sampling = {"samples": grid.samples, "seed": seed}
        self.settings = self.sampling | {"bandwidths": None if grid.bandwidths is None else list(grid.bandwidths)}

    def rows(self) -> Iterator[Job]:
        """All rows, the anchor's first."""
        for problem in self.grid.problems:
            for part in self._space(problem).schemes:
                variants = (STANDARD, OPTIMISED) if part.scheme in TAKEN_FROM else (STANDARD,)
                for variant in variants:
                    choice = {"scheme": part.scheme, "variant": variant}
                    yield self._job("row", problem, choice, measure.row, **self.sampling, bandwidths=self.grid.bandwidths)

    def points(self) -> Iterator[Job]:
        """RMSE at powers of two of b, at the anchor, for schemes that allow more than one."""
        for part in self._space(self.grid.anchor).schemes:
            for bandwidth in part.bandwidths:
                if len(part.bandwidths) > 1 and bandwidth & (bandwidth - 1) == 0:
                    choice = {"scheme": part.scheme, "bandwidth": bandwidth}
                    yield self._job("point", self.grid.anchor, choice, measure.point, **self.sampling)

    def curves(self, found: dict[tuple[str, str], dict[str, object]]) -> Iterator[Job]:
        """δ(ε) of the anchor's rows, at the RMSE of cyclic Poisson."""
        if ("cyclic_poisson", STANDARD) not in found:
            return
        common = {"rmse": found["cyclic_poisson", STANDARD]["rmse"], "epsilons": self.grid.curve_epsilons}
        for (scheme, variant), row in found.items():
            yield self._job(
                "curve", self.grid.anchor, {"scheme": scheme, "variant": variant}, measure.curve, bandwidth=row["bandwidth"], r=row["r"],
                **common, **self.sampling,
            )

    def counts(self, found: dict[tuple[str, str], dict[str, object]]) -> Iterator[Job]:
        """Samples of each certificate against δ."""
        for scheme in COUNTED:
            if row := found.get((scheme, OPTIMISED)):
                for delta in self.grid.deltas:
                    problem = dataclasses.replace(self.grid.anchor, delta=delta)
                    yield self._job(
                        "count", problem, {"scheme": scheme}, measure.counts, bandwidth=row["bandwidth"], r=row["r"], **self.sampling,
                    )

    def _space(self, problem: Problem) -> SearchSpace:
        return SearchSpace.for_problem(problem, schemes=self.schemes, bandwidths=self.grid.bandwidths)

    def _job(self, measurement: str, problem: Problem, choice: dict[str, object], function: Callable, **more: object) -> Job:
        target = {name: getattr(problem, name) for name in frames.PROBLEM}
        where = ", ".join(f"{name}={value:g}" for name, value in target.items())
        return Job(
            key={"measurement": measurement} | target | choice | self.settings,
            label=f"{' '.join(map(str, (measurement, *choice.values())))}: {where}",
            make=functools.partial(function, problem=problem, **choice, **more),
        )


def main(words: Sequence[str] | None = None) -> None:
    """Writes results.jsonl, table.md and four plots into the folder; run again, it goes on where it stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results; made if need be")
    parser.add_argument("--cells", choices=GRIDS, default="paper", help="which problems")
    parser.add_argument("--schemes", help="comma-separated; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="measurements at once, on Ray where more than one")
    parser.add_argument("--report-only", action="store_true", help="measure nothing: report and plot what the results file holds")
    arguments = parser.parse_args(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    results, grid = Results(arguments.out / "results.jsonl"), GRIDS[arguments.cells]
    table = Table(grid, schemes=arguments.schemes and arguments.schemes.split(","), seed=arguments.seed)
    work = functools.partial(known if arguments.report_only else functools.partial(run, workers=arguments.workers), results=results)
    with _session(1 if arguments.report_only else arguments.workers):
        frame = frames.rows(work(list(table.rows())))
        report = markdown(frame, findings(frame, grid.anchor))
        (arguments.out / "table.md").write_text(report, encoding="utf-8")
        print(report)
        draw(table, frame, work, arguments.out)


def _session(workers: int) -> contextlib.AbstractContextManager:
    """One Ray session for all kinds of measurements, where Ray is wanted."""
    if workers == 1:
        return contextlib.nullcontext()
    from engine.environment import start_ray

    return start_ray(workers=workers)


def known(jobs: Sequence[Job], results: Results) -> list[dict[str, object]]:
    """Key and values of every job that has been measured."""
    return [job.key | results[job.key] for job in jobs if job.key in results and "failure" not in results[job.key]]


def draw(table: Table, frame: pd.DataFrame, work: Callable, out: Path) -> None:
    """Measures what the plots need besides the rows, and draws them."""
    anchor = frame[[all(getattr(table.grid.anchor, name) == row[name] for name in frames.PROBLEM) for row in frame.to_dict("records")]]
    found = {(row["scheme"], row["variant"]): row for row in anchor.to_dict("records")}
    plots.optimal_coefficients(anchor, table.grid.anchor, out / "optimal_coefficients.png")
    for jobs, plot, name in (
        (table.curves(found), plots.privacy_curves, "privacy_curves"),
        (table.counts(found), plots.samples_against_delta, "samples_against_delta"),
        (table.points(), plots.rmse_against_bandwidth, "rmse_against_bandwidth"),
    ):
        if measured := work(list(jobs)):
            plot(measured, out / f"{name}.png")


if __name__ == "__main__":
    main()
