"""What the experiments' figures share: rows grouped in order, panels, and how they are saved."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.balls_in_bins.cases import Case

Rows = Sequence[dict[str, object]]


def by(rows: Rows, *names: str) -> list[tuple[object, list[dict[str, object]]]]:
    """(value, rows) for every value of a field (a tuple of values for several), in order of appearance."""
    value = lambda row: row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)
    groups: dict[object, list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(value(row), []).append(row)
    return list(groups.items())


def grouped(rows: Rows) -> list[tuple[str, list[dict[str, object]]]]:
    """(label, rows) of every case."""
    fields = ("family", "bandwidth", "bins", "epochs")
    return [(Case(**dict(zip(fields, values))).label, group) for values, group in by(rows, *fields)]


def panels(count: int, *, columns: int) -> tuple[plt.Figure, list[plt.Axes]]:
    """A figure with so many panels."""
    rows = math.ceil(count / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 3.4 * rows), layout="constrained", squeeze=False)
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat[:count])


def save(figure: plt.Figure, axes: Sequence[plt.Axes], path: Path) -> None:
    """Grids everywhere, plain numbers at 1, 2 and 5 of a logarithmic axis (1 alone on a long one), a legend in the first panel."""
    for axis in axes:
        axis.grid(alpha=0.3, which="both")
        for scale, (low, high) in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
            if scale.get_scale() == "log":
                scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
                scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                scale.set_minor_formatter(NullFormatter())
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=120)
    plt.close(figure)
