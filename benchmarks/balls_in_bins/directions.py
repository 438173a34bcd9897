"""Remove against add: exact Rényi divergences, the published bound on add, and what ε each direction gives: figure 8 of the paper.

Found at the reduced size (divergences of DP-SGD at b = 4, 32 and 100 and of BSR and BISR at b = 2 and 3; ε at b = 32, k = 1 and 4):

* The exact R_α of add is never above that of remove: 0 of 108 settings.
* The published bound on add is, in 88 of them, up to 49 times (DP-SGD, b = 100, σ = 4, α = 2): its first term does not fall with b. The paper
  finds the bound to be always the smaller one; it is where one bin dominates the moment (large α or small σ).
* So ε of add decides at small ε: by the published bound in 8 of 24 settings, by ours (shifted Gaussian, shifted moments) in 6, by 6 % at most.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.balls_in_bins import measure, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import job, table
from benchmarks.jobs import Job

DELTA = 1e-5
ORDERS = (2, 4, 8, 16)


def jobs(*, paper: bool) -> list[Job]:
    """Exact divergences for DP-SGD and for two and three bins; ε for one epoch and several."""
    bins, epochs = (100, (1, 10)) if paper else (32, (1, 4))
    quadrature = [Case(family="DP-SGD", bandwidth=1, bins=b, epochs=1) for b in (4, 32, 100)] + [
        Case(family=family, bandwidth=2, bins=b, epochs=k) for family in ("BSR", "BISR") for b, k in ((2, 1), (2, 4), (3, 2))
    ]
    multipliers = (0.5, 1.0, 2.0, 4.0)
    banded = [Case(family=f, bandwidth=p, bins=bins, epochs=k) for k in epochs for f, p in (("DP-SGD", 1), ("BSR", 4), ("BISR", 4))]
    return [
        job("divergences", case, measure.divergences, multiplier=multiplier, orders=list(ORDERS))
        for case in quadrature for multiplier in multipliers[1:]
    ] + [
        job("directions", case, measure.directions, multiplier=multiplier, delta=DELTA) for case in banded for multiplier in multipliers
    ]


def report(found: Sequence[dict[str, object]]) -> str:
    """Divergences, then ε, each with how often add exceeds remove."""
    divergences, epsilons = (dict(plots.by(found, "measurement")).get(name, []) for name in ("divergences", "directions"))
    lines, exact, published = [], [], []
    for case, rows in plots.grouped(divergences):
        for row in rows:
            for order, remove, add, bound in zip(row["orders"], row["remove"], row["add"], row["published_add"]):
                exact.append(add > remove * (1 + 1e-9))
                published.append(bound > remove)
                values = (f"{value:.5g}" for value in (remove, add, bound))
                lines.append((case, f"{row['multiplier']:g}", order, *values, f"{bound / remove:.2f}"))
    shown = [
        (case, f"{row['multiplier']:g}", *(f"{row[name]:.4f}" for name in ("remove", "add", "published_add")))
        for case, rows in plots.grouped(epsilons) for row in rows
    ]
    above = [sum(row[name] > row["remove"] for row in epsilons) for name in ("add", "published_add")]
    return "\n\n".join((
        "R_α: exact remove, exact add, published bound on add",
        table(("strategy", "σ/norm", "α", "remove", "add", "published add", "over remove"), lines),
        f"Exact add is above exact remove in {sum(exact)} of {len(exact)} settings; the published bound on add is in {sum(published)}.",
        f"ε at δ = {DELTA:g} by moments: remove, add (the best of ours), add by the published bound",
        table(("strategy", "σ/norm", "remove", "add", "published add"), shown),
        f"Our ε of add is above that of remove in {above[0]} of {len(epsilons)} settings, that of the published bound in {above[1]}.",
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """R_α against α for DP-SGD, and ε against σ."""
    divergences, epsilons = (dict(plots.by(found, "measurement")).get(name, []) for name in ("divergences", "directions"))
    left = [group for group in plots.grouped(divergences) if group[0].startswith("DP-SGD")]
    right = plots.grouped(epsilons)
    figure, axes = plots.panels(len(left) + len(right), columns=3)
    for axis, (case, rows) in zip(axes, left):
        row = next(row for row in rows if row["multiplier"] == 1.0)
        for name in ("remove", "add", "published_add"):
            axis.plot(row["orders"], row[name], "o-", markersize=3, label=name.replace("_", " "))
        axis.set(title=f"{case}, σ = norm", xlabel="α", ylabel="R_α", xscale="log", yscale="log")
    for axis, (case, rows) in zip(axes[len(left):], right):
        for name in ("remove", "add", "published_add"):
            axis.plot([row["multiplier"] for row in rows], [row[name] for row in rows], "o-", markersize=3, label=name.replace("_", " "))
        axis.set(title=case, xlabel="σ / norm", ylabel="ε", xscale="log", yscale="log")
    plots.save(figure, axes, path)
