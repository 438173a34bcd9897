"""Which of our bounds allows the smallest σ where: a map over ε, b and p.

Found at the reduced size (BSR with one epoch, b = 8, 24 and 64, p = 1, 4 and 16, δ = 1e-5):

* p = 1 (DP-SGD): the majorant, exact there, everywhere; the Rényi accountant needs 6–19 % more noise.
* p = 4: the Rényi accountant from ε = 0.2 to 4, by 1–15 %; the majorant at the ends, ε = 8 (b = 8 and 24) and ε = 0.1 (b = 64), by up to 3 %.
* p = 16: the Rényi accountant, by 1–17 %; the majorant at ε = 0.2 (b = 64), by 6 %.
* Conditional composition nowhere: it comes close only at the smallest ε and p = 1 (within 16 % in ε at σ = 10·norm).
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.balls_in_bins import measure, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import interpolated_sigma, job, table
from benchmarks.jobs import Job

DELTA = 1e-5
TARGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


def jobs(*, paper: bool) -> list[Job]:
    """BSR over b and p, one epoch, at a ladder of σ."""
    bins, bandwidths = ((16, 50, 100, 300), (1, 2, 4, 16, 64)) if paper else ((8, 24, 64), (1, 4, 16))
    multipliers = np.geomspace(0.3, 10.0, 9 if paper else 6).round(4).tolist()
    chosen = [
        Case(family="DP-SGD" if p == 1 else "BSR", bandwidth=p, bins=b, epochs=1) for p in bandwidths for b in bins
    ]
    return [
        job("epsilon", case, measure.epsilon, accountant=accountant, multiplier=multiplier, delta=DELTA)
        for case in chosen for multiplier in multipliers for accountant in measure.BOUNDS
    ]


def _best(rows: Sequence[dict[str, object]]) -> dict[float, dict[str, float]]:
    """σ/norm of every bound that reaches a target, by target."""
    curves = {name: interpolated_sigma(rows, name, TARGETS) for name in measure.BOUNDS}
    return {target: {name: curve[target] for name, curve in curves.items() if curve[target] is not None} for target in TARGETS}


def report(found: Sequence[dict[str, object]]) -> str:
    """The winner and its σ/norm at every ε; in brackets by how much the second needs more."""
    lines = []
    for case, rows in plots.grouped(found):
        cells = []
        for sigmas in _best(rows).values():
            ranked = sorted(sigmas, key=sigmas.get)
            behind = f" (+{sigmas[ranked[1]] / sigmas[ranked[0]] - 1:.0%})" if len(ranked) > 1 else ""
            cells.append(f"{ranked[0]} {sigmas[ranked[0]]:.2f}{behind}" if ranked else "")
        lines.append((case, *cells))
    return "\n\n".join((
        f"The bound with the smallest σ/norm at δ = {DELTA:g}, and how much more the second best needs; interpolated between measured σ",
        table(("strategy", *(f"ε = {target:g}" for target in TARGETS)), lines),
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """One panel per p: ε across, b upwards, coloured by the winner."""
    groups = plots.by(found, "bandwidth")
    figure, axes = plots.panels(len(groups), columns=len(groups))
    colours = plt.get_cmap("Set2")
    for axis, (bandwidth, rows) in zip(axes, groups):
        for height, (bins, own) in enumerate(plots.by(rows, "bins")):
            for place, sigmas in enumerate(_best(own).values()):
                if sigmas:
                    winner = measure.BOUNDS.index(min(sigmas, key=sigmas.get))
                    axis.add_patch(plt.Rectangle((place - 0.5, height - 0.5), 1, 1, color=colours(winner)))
                    axis.text(place, height, f"{min(sigmas.values()):.2f}", ha="center", va="center", fontsize=7)
        heights = [bins for bins, _ in plots.by(rows, "bins")]
        axis.set(
            title=f"p = {bandwidth}", xlabel="ε", ylabel="b", xlim=(-0.5, len(TARGETS) - 0.5), ylim=(-0.5, len(heights) - 0.5),
            xticks=range(len(TARGETS)), xticklabels=[f"{t:g}" for t in TARGETS], yticks=range(len(heights)), yticklabels=heights,
        )
    for index, name in enumerate(measure.BOUNDS):
        axes[0].plot([], [], "s", color=colours(index), label=name)
    plots.save(figure, axes, path)
