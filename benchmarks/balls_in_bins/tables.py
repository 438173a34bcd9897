"""Jobs of a case, tables of text, and σ at a given ε between measured ones."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.balls_in_bins.cases import Case
from benchmarks.jobs import Job


def job(measurement: str, case: Case, function: Callable[..., dict[str, object]], **settings: object) -> Job:
    """The job that calls a measurement with a case and plain settings."""
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    return Job(
        key={"measurement": measurement} | case.key | settings, make=functools.partial(function, case, **settings),
        label=f"{measurement}: {case.label}, {shown}",
    )


def table(columns: Iterable[str], lines: Iterable[Sequence[str]]) -> str:
    """Columns as wide as what they hold, the first to the left and the others to the right."""
    rows = [tuple(columns), *(tuple(map(str, line)) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
                     for row in rows)


def interpolated_sigma(rows: Sequence[dict[str, object]], accountant: str, targets: Iterable[float]) -> dict[float, float | None]:
    """σ/norm at every target ε by one accountant: log σ is linear in log ε between measured σ; None beyond them."""
    known = sorted((row["epsilon"], row["multiplier"]) for row in rows if row["accountant"] == accountant and row["epsilon"])
    if not known:
        return dict.fromkeys(targets)
    epsilons, multipliers = np.log([epsilon for epsilon, _ in known]), np.log([multiplier for _, multiplier in known])
    inside = lambda target: epsilons[0] <= math.log(target) <= epsilons[-1]
    return {target: float(np.exp(np.interp(math.log(target), epsilons, multipliers))) if inside(target) else None for target in targets}
