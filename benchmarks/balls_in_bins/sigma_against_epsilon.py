"""σ against ε for every family of strategies, one epoch and several, by every accountant: figures 2 and 3 of the paper.

Found at the reduced size (b = 16, k = 1 and 4, p = 4 and 64 (cut to T), σ = 0.5, 1.2 and 3 times the longest mean's norm, δ = 1e-5):

* The best bound is 1.00 times the Monte Carlo ε for DP-SGD (majorant), 1.05–1.12 times for BSR-4 and BandMF-4, and for the others, whose C is
  dense, 1.09–1.29 times with one epoch and 1.08–1.17 with four. At ε = 2, k = 1 that is 7 % more noise for the first two and 9–11 % for the others.
* DP-SGD aside, the majorant is mostly the best at σ = 0.5·norm (ε ≈ 7) and our Rényi accountant at 1.2; at 3 it is the latter with one epoch,
  and with four the majorant where C is dense.
* Ours is never above the published Rényi procedure: up to 32 % less ε at σ = 0.5·norm, 6–30 % at 1.2 and 14–49 % at 3.
* Conditional composition is 1.4–8.5 times the Monte Carlo ε and never the best.
* With one epoch BISR-64 is BSR-64: both are cut to T = 16, where the inverse of a square root has no band left.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.balls_in_bins import cases, measure, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import interpolated_sigma, job, table
from benchmarks.jobs import Job

DELTA = 1e-5
TARGETS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""ε of the printed table, where they lie between measured ones."""


def jobs(*, paper: bool) -> list[Job]:
    """Every family at p = 4 and 64, with b = 100 and k ∈ {1, 10} or b = 16 and k ∈ {1, 4}."""
    bins, epochs = (100, (1, 10)) if paper else (16, (1, 4))
    multipliers = (0.3, 0.5, 0.8, 1.3, 2.0, 3.2, 5.0, 8.0) if paper else (0.5, 1.2, 3.0)
    built, missing = cases.families()
    if missing:
        print(missing)
    chosen = [
        Case(family=family, bandwidth=bandwidth, bins=bins, epochs=k)
        for k in epochs for family in built for bandwidth in ((1,) if family == "DP-SGD" else (4,) if family == "BLT" else (4, 64))
    ]
    return [
        job("epsilon", case, measure.epsilon, accountant=accountant, multiplier=multiplier, delta=DELTA)
        for case in chosen for multiplier in multipliers for accountant in measure.ACCOUNTANTS
    ]


def report(found: Sequence[dict[str, object]]) -> str:
    """ε by every accountant at every σ; the smallest bound over Monte Carlo; σ of the best bound at round ε."""
    lines, needed = [], []
    for case, rows in plots.grouped(found):
        for multiplier, at in plots.by(rows, "multiplier"):
            epsilons = {row["accountant"]: row["epsilon"] for row in at}
            bounds = {name: value for name, value in epsilons.items() if name != "monte carlo" and value is not None}
            best = min(bounds, key=bounds.get)
            shown = ["∞" if epsilons.get(name) is None else f"{epsilons[name]:.4f}" for name in measure.ACCOUNTANTS]
            ratio = bounds[best] / epsilons["monte carlo"] if epsilons["monte carlo"] else float("nan")
            lines.append((case, f"{multiplier:g}", *shown, best, f"{ratio:.2f}"))
        curves = {name: interpolated_sigma(rows, name, TARGETS) for name in measure.ACCOUNTANTS}
        for target in TARGETS:
            sigmas = {name: curve[target] for name, curve in curves.items() if curve[target] is not None}
            if "monte carlo" in sigmas and len(sigmas) > 1:
                best = min((name for name in sigmas if name != "monte carlo"), key=sigmas.get)
                needed.append((case, f"{target:g}", f"{sigmas['monte carlo']:.3f}", f"{sigmas[best]:.3f}", best))
    return "\n\n".join((
        f"ε at δ = {DELTA:g}, the larger of both directions; σ in units of the longest mean's norm; Monte Carlo is an estimate",
        table(("strategy", "σ/norm", *measure.ACCOUNTANTS, "best bound", "over Monte Carlo"), lines),
        "σ/norm that ε needs, interpolated between the measured σ",
        table(("strategy", "ε", "monte carlo", "best bound", "by"), needed),
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """One panel per strategy."""
    groups = plots.grouped(found)
    figure, axes = plots.panels(len(groups), columns=min(len(groups), 5))
    for axis, (case, rows) in zip(axes, groups):
        for name, line in plots.by(rows, "accountant"):
            known = [(row["epsilon"], row["multiplier"]) for row in line if row["epsilon"]]
            axis.plot([e for e, _ in known], [m for _, m in known], "ko--" if name == "monte carlo" else "o-", markersize=3, label=name)
        axis.set(title=case, xlabel="ε", ylabel="σ / norm", xscale="log", yscale="log")
    plots.save(figure, axes, path)
