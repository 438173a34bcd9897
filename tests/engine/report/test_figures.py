"""The figures say what they show, keep estimates and guarantees apart, and are the same for the same run."""

import dataclasses
import math

import pytest

from accountants.evidence import Evidence
from engine.report import figures, style
from engine.report.curves import Curve
from search_spaces.schemes import SCHEMES

GUARANTEE = tuple(
    Evidence(accountant="monte_carlo", direction=direction, kind="certified", epsilon=2.0, delta=0.009) for direction in ("remove", "add")
)
CURVES = tuple(
    Curve(accountant=name, direction=direction, kind=kind, epsilons=(0.0, 2.0, 4.0), deltas=deltas, errors=errors)
    for direction in ("remove", "add")
    for name, kind, deltas, errors in (
        ("renyi", "bound", (0.5, 0.02, 1e-4), ()), ("monte_carlo", "estimate", (0.4, 0.008, 0.0), (1e-3, 1e-4, 0.0)),
    )
)


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_every_scheme_has_a_look_of_its_own():
    assert len({style.colour(name) for name in SCHEMES}) == len({style.marker(name) for name in SCHEMES}) == len(SCHEMES)
    assert style.colour("a scheme to come").startswith("#")


@pytest.mark.parametrize(("value", "text"), [
    (1e-5, "1e-5"), (0.7885110649, "0.788511"), (None, "—"), (math.inf, "infinite"), (128, "128"), (1.5e10, "1.5e10"), (0.0, "0"),
])
def test_numbers_for_people(value, text):
    assert style.number(value) == text


def test_only_trials_with_a_result_of_their_own_are_ranked(contents):
    rows = [dict(row) for row in contents.search.rows]
    rows[0]["rmse"], rows[5]["cached"] = math.inf, 0
    assert [row["number"] for row in figures.ranked(rows, "COMPLETE")] == [2, 3]
    assert [row["number"] for row in figures.ranked(rows, "PRUNED")] == [1]


def test_best_so_far_steps_down_and_ends_at_the_last_trial(contents):
    complete = figures.ranked(contents.search.rows, "COMPLETE")
    assert figures.best_so_far(complete, last=6) == ([0, 3, 6], [1.25, 1.125, 1.125])
    assert figures.best_so_far([], last=6) == ([], [])


def test_rmse_figure_has_every_scheme_its_error_bars_and_the_result(contents):
    figure = figures.rmse_by_bandwidth(contents.search, contents.strategy, contents.lower_limit)
    (axis,) = figure.axes
    found = labels(figure)
    assert {"nested_ra", "min_sep_ra", "cyclic_ra", "the strategy of this run"} <= set(found)
    assert {"filled: σ by a bound", "hollow: σ estimated", "faint: stopped early"} <= set(found)
    bars = {bar.lines[0].get_xdata()[0]: bar.has_yerr for bar in axis.containers}
    assert bars == {4: True, 2: False, 8: True}
    (estimate,) = [bar for bar in axis.containers if bar.lines[0].get_ydata()[0] == 1.25]
    assert estimate.lines[0].get_markerfacecolor() == "white"
    low, high = (line.get_ydata()[0] for line in estimate.lines[1])
    assert (low, high) == (1.25 - 2 * 0.03125, 1.25 + 2 * 0.03125)
    assert "bandwidth" in axis.get_xlabel() and "RMSE" in axis.get_ylabel()


def test_history_shows_failures_and_the_best_so_far(contents):
    figure = figures.history(contents.search, contents.strategy)
    assert "failed (no RMSE)" in labels(figure) and "best so far, fully evaluated" in labels(figure)
    (line,) = [line for line in figure.axes[0].lines if line.get_drawstyle() == "steps-post"]
    assert list(line.get_ydata()) == [1.25, 1.125, 1.125]


def test_an_estimate_never_looks_like_a_guarantee():
    figure = figures.privacy(CURVES, GUARANTEE, epsilon=2.0, delta=0.01)
    assert labels(figure) == [
        "renyi: bound", "monte_carlo: estimate, no guarantee", "the guarantee of this run (certified)", "target (ε, δ)",
    ]
    assert [axis.get_title(loc="left").split(":")[0] for axis in figure.axes] == ["remove", "add"]
    for axis in figure.axes:
        bound, estimate = (
            next(line for line in axis.lines if line.get_color() == style.line_colour(name)) for name in ("renyi", "monte_carlo")
        )
        assert bound.get_linestyle() == "-" and estimate.get_linestyle() == "--"
        # A δ of zero has no place on a logarithmic axis.
        assert list(estimate.get_xdata()) == [0.0, 2.0] and len(axis.collections) == 1
        assert [line for line in axis.lines if line.get_marker() == "*"]


def test_a_guarantee_far_below_the_target_stays_in_sight():
    far = tuple(dataclasses.replace(one, delta=delta) for one, delta in zip(GUARANTEE, (0.009, 1e-30)))
    near, low = figures.privacy(CURVES, far, epsilon=2.0, delta=0.01).axes
    (star,) = [line for line in low.lines if line.get_marker() == "*"]
    assert star.get_ydata()[0] > low.get_ylim()[0] == near.get_ylim()[0] > 1e-7
    assert [text.get_text() for text in low.texts] == ["δ ≤ 1e-30 ↓"] and not near.texts


def test_coefficients_of_the_run_come_first_and_thick():
    figure = figures.coefficients([("nested_ra", "nested_ra, b = 2 (this run)", (0.9, 0.3)), ("cyclic_ra", "cyclic_ra, b = 1", (1.0,))])
    assert labels(figure) == ["nested_ra, b = 2 (this run)", "cyclic_ra, b = 1"]
    widths = [line.get_linewidth() for line in figure.axes[0].lines if line.get_marker() == "None"]
    assert widths[0] > widths[1]


@pytest.mark.parametrize("change", [{"rmse": 1.0}, {"bandwidth": 1}, {"rmse_standard_error": math.nan}])
def test_equal_values_and_missing_errors_can_be_drawn(contents, change):
    search = dataclasses.replace(contents.search, rows=tuple(dict(row) | change for row in contents.search.rows))
    for figure in (figures.rmse_by_bandwidth(search, None, 1.0), figures.history(search, None)):
        assert figures.png(figure).startswith(b"\x89PNG")


def test_the_same_figure_is_the_same_file():
    make = lambda: figures.png(figures.privacy(CURVES, GUARANTEE, epsilon=2.0, delta=0.01))
    assert make() == make()
