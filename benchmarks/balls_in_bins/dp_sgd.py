"""DP-SGD (C = I, one epoch) against the two libraries made for it: figures 9, 10 and 11 of the paper.

Found at the reduced size (b = 16 and 100, σ = 0.6, 1.2 and 2.5, δ = 1e-5; PLD_accounting 2.0, random-allocation 1.0.5):

* Our majorant is exact here: in all six settings it lies between the two bounds of PLD_accounting at its defaults, within 0.4 % of the
  Monte Carlo estimate, in 0.1–0.2 CPU seconds; PLD_accounting takes 0.4–8 s a bound.
* random-allocation's combined bound equals the published Rényi bound at small σ (4.101 at b = 100, σ = 0.6; majorant 3.431) and lies between
  that bound and our Rényi accountant at larger σ (b = 100, σ = 2.5: 0.287, 0.223, 0.143; majorant 0.132).
* Conditional composition beats the published Rényi bound at small ε, as the paper says (0.188 against 0.287 at b = 100, σ = 2.5), and no
  other bound of ours.
* R_α of random-allocation is ours to 1e-15. Once compiled it takes 0.005 s at α = 24, 0.05 s at 32, 0.4 s at 40 and 0.9 s at 48, as the number
  of partitions grows; ours takes 0.001 to 0.004 s.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from benchmarks.balls_in_bins import measure, peers, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import job, table
from benchmarks.jobs import Job

DELTA = 1e-5


def jobs(*, paper: bool) -> list[Job]:
    """ε against σ at two b, and the run time of R_α against α."""
    absent = peers.absent()
    for name in absent:
        print(f"{name} is not installed here, so its column is left out; benchmarks/balls_in_bins/peers.py says how to install it.")
    accountants = [*measure.ACCOUNTANTS, *(name for name in peers.ACCOUNTANTS if name.split(",")[0] not in absent)]
    chosen = [Case(family="DP-SGD", bandwidth=1, bins=bins, epochs=1) for bins in ((100, 1000) if paper else (16, 100))]
    multipliers = (0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0) if paper else (0.6, 1.2, 2.5)
    orders = (4, 8, 12, 16, 20, 25, 30, 35, 40, 45, 50) if paper else (8, 16, 24, 32, 40, 48)
    of = ["ours", *(["random_allocation"] if "random_allocation" not in absent else [])]
    return [
        job("epsilon", case, measure.epsilon, accountant=accountant, multiplier=multiplier, delta=DELTA)
        for case in chosen for multiplier in multipliers for accountant in accountants
    ] + [_timed(bins=100, order=order, of=name) for order in orders for name in of]


def _timed(**setting: object) -> Job:
    return Job(
        key={"measurement": "peer_seconds"} | setting, make=functools.partial(measure.peer_seconds, **setting),
        label=f"peer_seconds: {setting}",
    )


def report(found: Sequence[dict[str, object]]) -> str:
    """ε by every accountant, then seconds of R_α."""
    parts = dict(plots.by(found, "measurement"))
    names = [name for name, _ in plots.by(parts["epsilon"], "accountant")]
    lines = []
    for case, rows in plots.grouped(parts["epsilon"]):
        for multiplier, at in plots.by(rows, "multiplier"):
            cells = {row["accountant"]: "∞" if row["epsilon"] is None else f"{row['epsilon']:.4f}" for row in at}
            lines.append((case, f"{multiplier:g}", *(cells.get(name, "") for name in names)))
    seconds = []
    for order, rows in plots.by(parts["peer_seconds"], "order"):
        of = {row["of"]: row for row in rows}
        shown = [f"{of[name]['cpu_seconds']:.4f}" if name in of else "absent" for name in ("ours", "random_allocation")]
        agree = f"{abs(of['ours']['value'] / of['random_allocation']['value'] - 1):.1e}" if len(of) == 2 else ""
        seconds.append((order, *shown, agree))
    return "\n\n".join((
        f"ε of DP-SGD at δ = {DELTA:g}, one epoch; Monte Carlo is an estimate",
        table(("strategy", "σ", *names), lines),
        "CPU seconds of R_α, b = 100, σ = 1: ours and the peer's sum over partitions of α, and how far the values are apart",
        table(("α", "ours", "random_allocation", "difference"), seconds),
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """σ against ε, and seconds against α."""
    parts = dict(plots.by(found, "measurement"))
    groups = plots.grouped(parts["epsilon"])
    figure, axes = plots.panels(len(groups) + 1, columns=len(groups) + 1)
    for axis, (case, rows) in zip(axes, groups):
        for name, line in plots.by(rows, "accountant"):
            known = [(row["epsilon"], row["multiplier"]) for row in line if row["epsilon"]]
            axis.plot([e for e, _ in known], [m for _, m in known], "o-", markersize=3, label=name)
        axis.set(title=case, xlabel="ε", ylabel="σ", xscale="log", yscale="log")
    for name, line in plots.by(parts["peer_seconds"], "of"):
        axes[-1].plot([row["order"] for row in line], [row["cpu_seconds"] for row in line], "o-", markersize=3, label=name)
    axes[-1].set(title="one Rényi divergence, b = 100", xlabel="α", ylabel="CPU seconds", yscale="log")
    axes[-1].legend(fontsize=7)
    plots.save(figure, axes, path)
