"""Rényi divergences by truncations of the Gram matrix over the exact ones: figure 7 of the paper.

Found at the reduced size (b = 32, k = 1 and 4, σ = 2·norm, α = 2, 4 and 8):

* Cutting a narrow strategy too far is expensive, as the paper says: BSR-4 to band 1 is 5.4–5.7 times the exact R_α by the published bound.
* A wide strategy bears it, as the paper says: BSR-64 at k = 4 is 1.4 times the exact value at any band up to 4; there a wider band even
  costs a little more (1.38 at band 2, 1.42 at band 4), because the penalty counts every pair.
* Shifted is never above published (1.15 against 1.42 for BSR-64 at band 4, k = 4), row-wise never above shifted, by little at k = 4.
* Thinned is the best of all wherever the band is cut: at most 2.0 times the exact value at band 1 and 1.3 at band 4.
* Bounds over exact values hardly depend on α here.
"""

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
