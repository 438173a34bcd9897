"""Plots of the results at the anchor: RMSE against b, δ(ε), optimal coefficients, samples of each certificate."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.scheme_table.frames import label
from search_spaces.problem import Problem
from search_spaces.strategies import harmonic


def rmse_against_bandwidth(points: Sequence[dict[str, object]], path: Path) -> None:
    """One line per scheme: the best RMSE at each b, by the search's accountant."""
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for scheme, line in pd.DataFrame(points).sort_values("bandwidth").groupby("scheme"):
        estimated = (line["kind"] == "estimate").any()
        axis.plot(line["bandwidth"], line["rmse"], "o-", markersize=3, label=f"{scheme} ({'estimate' if estimated else 'bound'})")
    axis.set(xlabel="bandwidth b", ylabel="RMSE at the best r", xscale="log", yscale="log")
    axis.set_xscale("log", base=2)
    _save(figure, axis, path)


def privacy_curves(curves: Sequence[dict[str, object]], path: Path) -> None:
    """δ(ε) of every curve, all at one RMSE."""
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for number, curve in enumerate(curves):
        known = [(epsilon, delta) for epsilon, delta in zip(curve["epsilons"], curve["deltas"]) if delta]
        axis.plot([e for e, _ in known], [d for _, d in known], label=label(curve["scheme"], curve["variant"]), **_style(number))
    axis.set(xlabel="ε", ylabel="δ (larger of both directions)", yscale="log")
    axis.set_title("at the RMSE of cyclic Poisson; estimates where sampled", fontsize=9)
    _save(figure, axis, path)


def optimal_coefficients(rows: pd.DataFrame, anchor: Problem, path: Path) -> None:
    """First column of C of every row at the anchor."""
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for number, row in enumerate(rows.to_dict("records")):
        if row["bandwidth"] > 1:
            column = harmonic(iterations=anchor.iterations, bandwidth=row["bandwidth"], r=row["r"]).coefficients
            axis.plot(range(1, len(column) + 1), column, label=row["label"], **_style(number))
    axis.set(xlabel="i", ylabel="C[i, 1]", xscale="log", yscale="log")
    _save(figure, axis, path)


def samples_against_delta(counts: Sequence[dict[str, object]], path: Path) -> None:
    """One panel per scheme, one line per certificate: samples of one test."""
    schemes = list(dict.fromkeys(count["scheme"] for count in counts))
    figure, axes = plt.subplots(1, len(schemes), figsize=(5 * len(schemes), 4), layout="constrained", squeeze=False)
    for scheme, axis in zip(schemes, axes[0]):
        line = sorted((count for count in counts if count["scheme"] == scheme), key=lambda count: count["delta"])
        for name in dict.fromkeys(name for count in line for name in count["needed"]):
            known = [(count["delta"], count["needed"][name]) for count in line if name in count["needed"]]
            axis.plot([d for d, _ in known], [max(n, 1) for _, n in known], "o-", markersize=3, label=name)
        axis.set(title=scheme, xlabel="δ", ylabel="samples of one test", xscale="log", yscale="log")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _style(number: int) -> dict[str, str]:
    """One look per line; there are ten colours and more lines."""
    return {"color": f"C{number % 10}", "linestyle": ("-", "--")[number // 10 % 2]}


def _save(figure: plt.Figure, axis: plt.Axes, path: Path) -> None:
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    figure.savefig(path, dpi=150)
    plt.close(figure)
