"""The table as Markdown: one line per problem and scheme, one summary line per problem, and the findings."""

from collections.abc import Iterable, Sequence

import pandas as pd

from accountants.gaussian import rmse_lower_limit
from benchmarks.scheme_table.findings import Finding
from benchmarks.scheme_table.frames import PROBLEM, by_label

COLUMNS = (
    "T", "K", "ε", "scheme", "b", "r", "σ", "RMSE", "kind", "to cyclic Poisson", "to lower limit", "δ_add/δ_remove", "tests",
    "search s", "certify s",
)


def markdown(frame: pd.DataFrame, findings: Sequence[Finding]) -> str:
    """The whole report."""
    parts = [
        "# RMSE of batch selection schemes at certified σ", _summary(frame), "## All rows",
        _table(COLUMNS, (_cells(record) for record in frame.to_dict("records"))), "## Findings of the source",
        _table(("claim", "measured", "verdict"), ((one.claim, one.measured, one.verdict) for one in findings)),
        "δ_add/δ_remove compares the means of the certifying samples; a bound on one of them is marked ≤ or ≥, where both are bounds "
        "they are the accountant's own values, and 0 means that no certifying sample of add was positive. Rows of kind estimate have no "
        "certificate; the note says why. Results within a percent of each other count as equal.",
    ]
    notes = [
        f"* {record['label']}, T={record['iterations']}, K={record['participations']}, ε={record['epsilon']:g}: {record['note']}"
        for record in frame.to_dict("records") if record["note"]
    ]
    return "\n\n".join([*parts, *(["## Notes", "\n".join(notes)] if notes else [])]) + "\n"


def _summary(frame: pd.DataFrame) -> str:
    wide = by_label(frame, "to_cyclic_poisson")[list(dict.fromkeys(frame["label"]))]
    number = lambda value: "" if pd.isna(value) else f"{value:.3f}"
    lines = [(f"T={at[0]}, K={at[1]}, ε={at[2]:g}", *map(number, wide.loc[at])) for at in wide.index]
    return "RMSE relative to cyclic Poisson:\n\n" + _table(("problem", *wide.columns), lines)


def _cells(record: dict[str, object]) -> tuple[str, ...]:
    target = {name: record[name] for name in PROBLEM if name != "participations"}
    return (
        str(record["iterations"]), str(record["participations"]), f"{record['epsilon']:g}", record["label"], str(record["bandwidth"]),
        f"{record['r']:.4f}", f"{record['sigma']:.4f}", f"{record['rmse']:.4f}", record["kind"],
        "" if pd.isna(record["to_cyclic_poisson"]) else f"{record['to_cyclic_poisson']:.3f}",
        f"{record['rmse'] / rmse_lower_limit(**target):.3f}", _ratio(record), "; ".join(map(_test, record["tests"])),
        f"{record['search_seconds']:.1f}", f"{record['certify_seconds']:.1f}",
    )


def _ratio(record: dict[str, object]) -> str:
    if record["deltas"] is None:
        return ""
    bounds = {test["direction"] for test in record["tests"] if test["sampler"] == "bound"}
    return {frozenset({"add"}): "≤ ", frozenset({"remove"}): "≥ "}.get(frozenset(bounds), "") + f"{record['add_over_remove']:.3g}"


def _test(test: dict[str, object]) -> str:
    if test["sampler"] == "bound":
        return f"{test['direction']}: bound"
    return f"{test['direction']}: {test['samples']:,} {test['sampler']}" + (f" α={test['alpha']}" if test["sampler"] == "tilted" else "")


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *lines))
