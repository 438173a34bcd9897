"""The figures of a report. Pure functions from values to matplotlib figures; nothing is shown, kept or drawn by global state."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from accountants.evidence import DIRECTIONS, REPLACE, Evidence
from engine.report.contents import Search, Strategy
from engine.report.curves import POINTS, Curve
from engine.report.style import ACCENT, FAINT, INK, colour, line_colour, marker, number

WIDTH, HEIGHT, DPI = 7.6, 4.6, 160
ERRORS = 2
"""Half the length of an error bar, and of a band, in standard errors."""

_LOWEST_DELTA = 1e-4
"""The δ axis ends at so much of the target's δ."""

_MOST_TICKS = 8
_NICE = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
_TITLES = {
    "remove": "an example is removed", "add": "an example is added", "replace": "an example is replaced (both orders)",
}


def png(figure: Figure) -> bytes:
    """The figure as a PNG file: the same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def rmse_by_bandwidth(search: Search, strategy: Strategy | None, limit: float) -> Figure:
    """Every trial's RMSE against its bandwidth, one look per scheme.

    Filled: σ is a deterministic bound. Hollow, with error bars of ± 2 standard errors: σ is an estimate. Faint dots: stopped early.
    """
    figure, axis = _figure("RMSE against bandwidth: every trial of the search")
    complete, stopped = ranked(search.rows, "COMPLETE"), ranked(search.rows, "PRUNED")
    for row in stopped:
        axis.plot(row["bandwidth"], row["rmse"], ".", color=colour(row["scheme"]), alpha=0.5, markersize=7, zorder=2)
    for row in complete:
        _trial(axis, row["bandwidth"], row, bars=True)
    axis.axhline(limit, color=FAINT, linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)
    handles = _scheme_handles(complete + stopped)
    if strategy is not None:
        axis.plot(strategy.document["bandwidth"], strategy.rmse, "*", color=ACCENT, markersize=17, markeredgecolor="white", zorder=5)
        handles.append(Line2D([], [], marker="*", linestyle="", color=ACCENT, markersize=12, label="the strategy of this run"))
    handles += _kind_handles(complete, stopped)
    handles.append(Line2D([], [], color=FAINT, linestyle=(0, (1, 2)), label="lower limit (fixed participations)"))
    _error_axis(axis, [row["rmse"] for row in complete + stopped] + [limit] + ([strategy.rmse] if strategy else []))
    _bandwidth_axis(axis, [row["bandwidth"] for row in complete + stopped])
    return _with_legend(figure, handles, columns=3)


def history(search: Search, strategy: Strategy | None) -> Figure:
    """Every trial in order, by how it ended, and the best RMSE so far."""
    figure, axis = _figure("The search, trial by trial")
    complete, stopped = ranked(search.rows, "COMPLETE"), ranked(search.rows, "PRUNED")
    failed = [row for row in search.rows if row["state"] == "FAIL"]
    for row in stopped:
        axis.plot(row["number"], row["rmse"], ".", color=colour(row["scheme"]), alpha=0.5, markersize=7, zorder=2)
    for row in complete:
        _trial(axis, row["number"], row, bars=False)
    axis.plot(*best_so_far(complete, last=len(search.rows) - 1), drawstyle="steps-post", color=INK, linewidth=1.4, zorder=1)
    values = [row["rmse"] for row in complete + stopped]
    handles = _scheme_handles(complete + stopped) + _kind_handles(complete, stopped)
    handles.append(Line2D([], [], color=INK, linewidth=1.4, label="best so far, fully evaluated"))
    if failed:
        place = axis.get_xaxis_transform()
        axis.plot(
            [row["number"] for row in failed], [0.97] * len(failed), "x", color="#b00020", markersize=6, transform=place, zorder=4,
        )
        handles.append(Line2D([], [], marker="x", linestyle="", color="#b00020", label="failed (no RMSE)"))
    if strategy is not None:
        axis.axhline(strategy.rmse, color=ACCENT, linestyle="--", linewidth=1.2, zorder=1)
        handles.append(Line2D([], [], color=ACCENT, linestyle="--", label="the strategy of this run"))
        values.append(strategy.rmse)
    _error_axis(axis, values)
    axis.set_xlabel("trial", color=INK)
    axis.set_xlim(-0.02 * len(search.rows) - 0.5, 1.02 * len(search.rows) - 0.5)
    return _with_legend(figure, handles, columns=3)


def coefficients(lines: Sequence[tuple[str, str, Sequence[float]]]) -> Figure:
    """First columns of C: (scheme, label, coefficients) each, the run's own strategy first and thick."""
    figure, axis = _figure("First column of the strategy matrix C")
    handles = []
    for place, (scheme, label, column) in enumerate(lines):
        look = {"color": colour(scheme), "linewidth": 3.0 if place == 0 else 1.3, "zorder": 3 if place == 0 else 2}
        positions = range(1, len(column) + 1)
        axis.plot(positions, column, **look)
        axis.plot(positions[-1], column[-1], marker(scheme), color=colour(scheme), markersize=8 if place == 0 else 6, zorder=4)
        handles.append(Line2D([], [], marker=marker(scheme), label=label, **look))
    axis.set_xscale("log", base=2)
    if any(value > 0 for *_, column in lines for value in column):
        axis.set_yscale("log")
        _nice_ticks(axis, "y", [value for *_, column in lines for value in column if value > 0])
    _bandwidth_axis(axis, [len(column) for *_, column in lines] + [1])
    axis.set_xlabel("position i in the column", color=INK)
    axis.set_ylabel("coefficient cᵢ", color=INK)
    return _with_legend(figure, handles, columns=2)


def privacy(curves: Iterable[Curve], guarantee: Sequence[Evidence], *, epsilon: float, delta: float) -> Figure:
    """δ(ε), one panel per direction: bounds solid, estimates dashed with a band of ± 2 standard errors, the guarantee a star."""
    curves = tuple(curves)
    stated = {one.direction for one in (*curves, *guarantee)}
    directions = [direction for direction in (*DIRECTIONS, REPLACE) if direction in stated]
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.2), layout="constrained")
    panels = figure.subplots(1, max(len(directions), 1), sharey=True, squeeze=False)[0]
    names = list(dict.fromkeys((curve.accountant, curve.kind) for curve in curves))
    lowest = delta * _LOWEST_DELTA
    for axis, direction in zip(panels, directions):
        _decorate(axis, f"{direction}: {_TITLES[direction]}")
        _target(axis, epsilon, delta)
        for curve in (curve for curve in curves if curve.direction == direction):
            _curve(axis, curve, width=max(4.6 - 1.1 * names.index((curve.accountant, curve.kind)), 1.3), lowest=lowest)
        for one in (one for one in guarantee if one.direction == direction):
            _star(axis, one, lowest)
        axis.set(yscale="log", ylim=(lowest, 2.0), xlim=(0.0, 2.0 * epsilon))
        axis.set_xlabel("ε", color=INK)
    panels[0].set_ylabel("δ", color=INK, rotation=0, labelpad=10)
    handles = [_curve_handle(name, kind) for name, kind in names]
    for kind in dict.fromkeys(one.kind for one in guarantee):
        handles.append(Line2D([], [], marker="*", linestyle="", color=ACCENT, markersize=12, label=f"the guarantee of this run ({kind})"))
    handles.append(Line2D([], [], color=FAINT, linestyle=(0, (1, 2)), label="target (ε, δ)"))
    return _with_legend(figure, handles, columns=3)


def ranked(rows: Iterable[Mapping[str, object]], state: str) -> list[Mapping[str, object]]:
    """Trials that ended in this state with a finite RMSE > 0, those answered from another trial left out."""
    return [
        row for row in rows
        if row["state"] == state and row["cached"] is None and row["scheme"] is not None and is_drawable(row["rmse"])
    ]


def is_drawable(value: object) -> bool:
    """Whether a value can be drawn on a logarithmic axis."""
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def best_so_far(complete: Sequence[Mapping[str, object]], *, last: int) -> tuple[list[int], list[float]]:
    """Numbers of the trials that were better than all before, and their RMSE; the last value again at the last trial."""
    numbers: list[int] = []
    values: list[float] = []
    for row in complete:
        if not values or row["rmse"] < values[-1]:
            numbers.append(row["number"])
            values.append(row["rmse"])
    return (numbers + [last], values + values[-1:]) if values else ([], [])


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axis = figure.subplots()
    _decorate(axis, title)
    return figure, axis


def _decorate(axis: Axes, title: str) -> None:
    axis.set_title(title, loc="left", fontsize=10, color=INK)
    axis.grid(color="#e4e7ec", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(FAINT)
    axis.tick_params(colors=INK, labelsize=9)


def _trial(axis: Axes, x: float, row: Mapping[str, object], *, bars: bool) -> None:
    """One fully evaluated trial: filled for a bound, hollow for an estimate."""
    scheme, estimate = row["scheme"], row["kind"] == "estimate"
    error = row["rmse_standard_error"]
    axis.errorbar(
        x, row["rmse"], yerr=ERRORS * error if bars and estimate and is_drawable(error) else None, fmt=marker(scheme), color=colour(scheme),
        markerfacecolor="white" if estimate else colour(scheme), markeredgewidth=1.4, markersize=6, elinewidth=1.2, capsize=3, zorder=3,
    )


def _scheme_handles(rows: Sequence[Mapping[str, object]]) -> list[Line2D]:
    best: dict[str, float] = {}
    for row in rows:
        best[row["scheme"]] = min(row["rmse"], best.get(row["scheme"], math.inf))
    return [
        Line2D([], [], marker=marker(scheme), linestyle="", color=colour(scheme), label=scheme)
        for scheme in sorted(best, key=lambda scheme: (best[scheme], scheme))
    ]


def _kind_handles(complete: Sequence[Mapping[str, object]], stopped: Sequence[Mapping[str, object]]) -> list[Line2D]:
    kinds = {row["kind"] for row in complete}
    handles = []
    if "bound" in kinds:
        handles.append(Line2D([], [], marker="o", linestyle="", color=INK, label="filled: σ by a bound"))
    if "estimate" in kinds:
        handles.append(Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor="white", label="hollow: σ estimated"))
    if stopped:
        handles.append(Line2D([], [], marker=".", linestyle="", color=FAINT, alpha=0.6, label="faint: stopped early"))
    return handles


def _target(axis: Axes, epsilon: float, delta: float) -> None:
    axis.axvline(epsilon, color=FAINT, linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)
    axis.axhline(delta, color=FAINT, linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)


def _star(axis: Axes, one: Evidence, lowest: float) -> None:
    """The guarantee; at the lower edge, with its number, where it lies below."""
    below = one.delta < lowest
    axis.plot(
        one.epsilon, 2 * lowest if below else one.delta, "*", color=ACCENT, markersize=17, markeredgecolor="white", zorder=6,
    )
    if below:
        text = f"δ ≤ {number(one.delta, 2)} ↓"
        axis.annotate(text, (one.epsilon, 2 * lowest), xytext=(10, 2), textcoords="offset points", fontsize=8, color=ACCENT, zorder=6)


def _curve(axis: Axes, curve: Curve, *, width: float, lowest: float) -> None:
    look = {"color": line_colour(curve.accountant)}
    known = [i for i, delta in enumerate(curve.deltas) if is_drawable(delta)]
    epsilons, deltas = [curve.epsilons[i] for i in known], [curve.deltas[i] for i in known]
    if curve.kind != "estimate":
        # Between points that lie far apart a line is no bound, so those are marked.
        points = {"marker": "o", "markersize": 4} if len(curve.epsilons) < POINTS else {}
        axis.plot(epsilons, deltas, linewidth=width, solid_capstyle="round", zorder=2, **points, **look)
        return
    axis.plot(epsilons, deltas, linestyle=(0, (5, 2)), linewidth=1.6, zorder=4, **look)
    low = [max(curve.deltas[i] - ERRORS * curve.errors[i], 0.1 * lowest) for i in known]
    axis.fill_between(epsilons, low, [curve.deltas[i] + ERRORS * curve.errors[i] for i in known], alpha=0.2, linewidth=0, zorder=3, **look)


def _curve_handle(accountant: str, kind: str) -> Line2D:
    if kind == "estimate":
        return Line2D(
            [], [], color=line_colour(accountant), linestyle=(0, (5, 2)), linewidth=1.6, label=f"{accountant}: estimate, no guarantee",
        )
    return Line2D([], [], color=line_colour(accountant), linewidth=2.4, label=f"{accountant}: {kind}")


def _error_axis(axis: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis of RMSE with labels at round numbers."""
    axis.set_ylabel("RMSE of the prefix sums (clip norm 1)", color=INK)
    axis.set_yscale("log")
    _nice_ticks(axis, "y", values)


def _nice_ticks(axis: Axes, which: str, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    room = max((high / low) ** 0.05, 1.02)
    low, high = low / room, high * room
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if high / low > 1e3 else _NICE if high / low < 30 else (1.0, 2.0, 5.0)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    if len(ticks) < 3:
        spread = 10.0 ** math.floor(math.log10(high - low))
        spread *= next(one for one in (0.1, 0.2, 0.5, 1.0) if (high - low) / (one * spread) <= _MOST_TICKS or one == 1.0)
        ticks = [spread * i for i in range(math.ceil(low / spread), math.floor(high / spread) + 1)]
    line = axis.yaxis if which == "y" else axis.xaxis
    (axis.set_ylim if which == "y" else axis.set_xlim)(low, high)
    line.set_major_locator(FixedLocator(ticks))
    line.set_minor_locator(NullLocator())
    line.set_major_formatter(FuncFormatter(lambda value, _: number(value, 4)))


def _bandwidth_axis(axis: Axes, bandwidths: Sequence[int]) -> None:
    """A logarithmic axis with labels at powers of two."""
    last = max(bandwidths, default=1)
    axis.set_xscale("log", base=2)
    axis.set_xlim(0.85, last * 1.25)
    axis.xaxis.set_major_locator(FixedLocator([2.0**i for i in range(math.ceil(math.log2(last * 1.25)))]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xlabel("bandwidth b (coefficients of C)", color=INK)


def _with_legend(figure: Figure, handles: Sequence[Line2D], *, columns: int) -> Figure:
    figure.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, frameon=False, fontsize=8, labelcolor=INK, columnspacing=1.6,
    )
    return figure
