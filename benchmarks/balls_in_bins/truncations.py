"""Rényi divergences by truncations of the Gram matrix over the exact ones: figure 7 of the paper."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.balls_in_bins import measure, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import job, table
from benchmarks.jobs import Job

MULTIPLIER = 2.0
METHODS = ("published", "shifted", "row-wise", "thinned")


def jobs(*, paper: bool) -> list[Job]:
    """Narrow and wide strategies, one epoch and several; the exact value by all α-tuples of bins, or by the band where it is narrow."""
    bins, epochs = (100, (1, 10)) if paper else (32, (1, 4))
    families = (("BSR", 4), ("BSR", 16), ("BSR", 64), ("BISR", 4), ("BISR", 64))
    return [
        job("truncated", case, measure.truncated, multiplier=MULTIPLIER, order=order, truncated_to=bandwidth)
        for k in epochs for case in (Case(family=family, bandwidth=p, bins=bins, epochs=k) for family, p in families)
        for order in (2, 4, *((8,) if case.bandwidth == 4 and case.family == "BSR" else ())) for bandwidth in (1, 2, 4)
    ]


def report(found: Sequence[dict[str, object]]) -> str:
    """One line per strategy, α and band."""
    return "\n\n".join((
        f"R_α of truncations to a band over the exact R_α; σ = {MULTIPLIER:g}·norm",
        table(("strategy", "α", "exact", "band", *METHODS), [
            (case, row["order"], f"{row['exact']:.5g}", row["truncated_to"], *(f"{row[name]:.3f}" for name in METHODS))
            for case, rows in plots.grouped(found) for row in rows
        ]),
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """One panel per strategy, at α = 4."""
    groups = plots.grouped(found)
    figure, axes = plots.panels(len(groups), columns=5)
    for axis, (case, rows) in zip(axes, groups):
        line = [row for row in rows if row["order"] == 4]
        for name in METHODS:
            axis.plot([row["truncated_to"] for row in line], [row[name] for row in line], "o-", markersize=3, label=name)
        axis.set(title=f"{case}, α = 4", xlabel="band", ylabel="over exact R_α", yscale="log")
    plots.save(figure, axes, path)
