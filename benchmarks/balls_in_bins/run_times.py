"""CPU seconds of one ε at δ by every accountant, against δ, T, b and p around one setting: figure 6 of the paper.

Found at the reduced size (BSR, b = 50, T = 200, p = 4, σ = 10; one core of a busy machine, so CPU and not wall seconds):

* Monte Carlo takes 0.4 s at δ = 1e-3 and, in proportion to 1/δ, an hour and a half at 1e-7; no other accountant depends on δ.
* Conditional composition is linear in T (0.08 s at T = 50, 0.58 s at 400) and does not depend on b at the same T, where the paper's grows
  with T²b²; the next σ saves little, since composing the steps takes most of the time.
* The exact sum at α = 8 takes 0.01 s. Our Rényi accountant takes 0.2–1.5 s, because it tries some twenty truncations; the majorant 0.1–0.5 s.
* Every target is met: 0.02 s (of 1 s), 0.02 s (10 s), 1.2 s (30 s), 1.1 s (5 s) and 0.12 s (2 s), in the order of the table.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.balls_in_bins import measure, plots
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.tables import job, table
from benchmarks.jobs import Job

SIGMA = 10.0
AXES = ("delta", "epochs", "bins", "bandwidth")


def jobs(*, paper: bool) -> list[Job]:
    """BSR with b = 100, k = 10, p = 4 (reduced: b = 50, k = 4); one of δ, T, b at about the same T, and p is changed at a time; targets."""
    if paper:
        middle, values = {"bins": 100, "epochs": 10, "bandwidth": 4, "delta": 1e-5}, {
            "delta": (1e-3, 1e-4, 1e-6, 1e-7, 1e-8), "epochs": (1, 3, 30, 100), "bins": (25, 50, 200, 400), "bandwidth": (1, 2, 3, 5),
        }
    else:
        middle, values = {"bins": 50, "epochs": 4, "bandwidth": 4, "delta": 1e-5}, {
            "delta": (1e-3, 1e-4, 1e-6, 1e-7), "epochs": (1, 2, 8), "bins": (10, 25, 100), "bandwidth": (1, 2, 3),
        }
    steps = middle["bins"] * middle["epochs"]
    settings = [middle]
    for name, changed in values.items():
        for value in changed:
            setting = middle | {name: value}
            settings.append(setting | {"epochs": max(1, round(steps / value))} if name == "bins" else setting)
    return [
        *(_job(**setting) for setting in settings),
        Job(key={"measurement": "targets"}, make=measure.targets, label="targets"),
    ]


def _job(*, bins: int, epochs: int, bandwidth: int, delta: float) -> Job:
    case = Case(family="DP-SGD" if bandwidth == 1 else "BSR", bandwidth=bandwidth, bins=bins, epochs=epochs)
    return job("run_times", case, measure.run_times, sigma=SIGMA, delta=delta)


NAMES = ("monte carlo", "renyi sum", "renyi", "cc", "cc, next σ", "majorant")


def report(found: Sequence[dict[str, object]]) -> str:
    """One line per setting, and the targets."""
    parts = dict(plots.by(found, "measurement"))
    (seconds,) = parts["targets"]
    return "\n\n".join((
        f"CPU seconds of one ε at δ, both directions, σ = {SIGMA:g}; Monte Carlo with {measure.SAMPLES_TIMES_DELTA}/δ samples (scaled from "
        f"{measure.MOST_TIMED_SAMPLES} where that is fewer);\n'renyi sum' is the exact sum at α = {measure.PUBLISHED_ORDER}; "
        "cc by AM–GM bounds",
        table(("p", "b", "T", "δ", *NAMES), [
            (row["bandwidth"], row["bins"], row["bins"] * row["epochs"], f"{row['delta']:g}", *(f"{row[name]:.2f}" for name in NAMES))
            for row in parts["run_times"]
        ]),
        "CPU seconds of what has a target, and the target",
        table(("", "seconds", "target"), [(name, f"{seconds[name]:.2f}", f"{limit:g}") for name, limit in measure.TARGETS.items()]),
    ))


def draw(found: Sequence[dict[str, object]], path: Path) -> None:
    """One panel per axis, through the setting that is measured first."""
    found = [row for row in found if row["measurement"] == "run_times"]
    middle = found[0]
    figure, axes = plots.panels(len(AXES), columns=len(AXES))
    for axis, changed in zip(axes, AXES):
        fixed = [name for name in AXES if name != changed and (changed, name) != ("bins", "epochs")]
        on_axis = lambda row: all(row[name] == middle[name] for name in fixed)
        line = sorted(filter(on_axis, found), key=lambda row: row[changed])
        if changed == "bins":
            line = [row for row in line if row is middle or row["bins"] != middle["bins"]]
        for name in NAMES:
            axis.plot([row[changed] for row in line], [row[name] for row in line], "o-", markersize=3, label=name)
        labels = {"delta": "δ", "epochs": f"k (T = {middle['bins']}k)", "bins": "b at about the same T", "bandwidth": "p"}
        axis.set(xlabel=labels[changed], ylabel="CPU seconds", xscale="log", yscale="log")
    plots.save(figure, axes, path)
