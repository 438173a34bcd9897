"""The rows of the results as a table of one line per problem and scheme, and as one of one column per scheme."""

from collections.abc import Sequence

import pandas as pd

from benchmarks.scheme_table.grid import STANDARD, TAKEN_FROM

PROBLEM = ["iterations", "participations", "epsilon", "delta"]


def label(scheme: str, variant: str) -> str:
    """Name of a scheme in the table; schemes of one variant have none besides their name."""
    return f"{scheme} {variant}" if scheme in TAKEN_FROM or variant != STANDARD else scheme


def rows(measured: Sequence[dict[str, object]]) -> pd.DataFrame:
    """The measured rows with the RMSE relative to cyclic Poisson and δ_add/δ_remove, one line each, at least one."""
    frame = pd.DataFrame(measured)
    frame["label"] = [label(scheme, variant) for scheme, variant in zip(frame["scheme"], frame["variant"])]
    reference = frame[frame["scheme"] == "cyclic_poisson"].set_index(PROBLEM)["rmse"]
    frame["to_cyclic_poisson"] = frame["rmse"] / frame.set_index(PROBLEM).index.map(reference).to_numpy(dtype=float)
    frame["add_over_remove"] = [None if deltas is None else deltas["add"] / deltas["remove"] for deltas in frame["deltas"]]
    return frame


def by_label(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """One line per problem, one column per scheme and variant."""
    return frame.pivot(index=PROBLEM, columns="label", values=column)
