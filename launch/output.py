"""What commands print: one JSON document or a table on stdout; progress and logs on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from launch.fixed_size import NOT_COMPARABLE
from launch.progress import progress

if TYPE_CHECKING:
    from accountants.evidence import Evidence
    from accountants.fixed_size import FixedSizeMechanism
    from engine.certification import CertifiedStrategy
    from engine.compare import ComparisonRow
    from engine.fixed_size import FixedSizeStrategy
    from engine.verification import Verification

__all__ = [
    "print_calibrated_fixed_size", "print_certified", "print_certified_sigma", "print_comparison", "print_evidence", "print_fixed_size", "print_json",
    "print_statements", "print_table", "print_verification", "progress",
]
"""All that a command says anything with."""

PLAIN_WIDTH = 160
"""Columns of a table where stdout is not a terminal, so that nothing is cut off in a file or a pipe."""


def print_json(document: Mapping[str, object]) -> None:
    """One JSON document on stdout. Infinity is the string "inf": JSON has no number for it, and no comparison takes a string for small."""
    print(json.dumps(_finite(document), allow_nan=False, ensure_ascii=False))


def _finite(value: object) -> object:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """A table on stdout; numbers come formatted."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else PLAIN_WIDTH, markup=False, highlight=False).print(table)


def print_evidence(evidence: Sequence[Evidence]) -> None:
    """The statements as a table: an estimate is marked as one, with its standard error, and never looks like a guarantee."""
    print_table(
        ("accountant", "direction", "kind", "epsilon", "delta", "seconds"),
        [
            (
                _accountant(e), e.direction, e.kind + (" (no guarantee)" if e.kind == "estimate" else ""),
                _number_with_error(e, "epsilon"), _number_with_error(e, "delta"), f"{e.seconds:.2f}",
            )
            for e in evidence
        ],
    )
    for e in evidence:
        if math.isinf(e.epsilon):
            print(f"{e.accountant}, {e.direction}: epsilon is infinite because {e.details['reason']}")


def print_statements(evidence: Sequence[Evidence], *, as_json: bool) -> None:
    """The statements as the table of `print_evidence`, or as one JSON document."""
    if as_json:
        print_json({"evidence": [e.to_dict() for e in evidence]})
    else:
        print_evidence(evidence)


def print_comparison(rows: Sequence[ComparisonRow]) -> None:
    """The comparison as a table; an RMSE at an estimated σ carries its standard error."""
    print_table(
        ("scheme", "adjacency", "bandwidth", "r", "sigma", "RMSE", "kind", "to cyclic Poisson", "to lower limit", "seconds"),
        [_comparison_cells(row) for row in rows],
    )
    for row in rows:
        if row.note:
            print(f"{_compared(row)}: {row.note}")
        if row.bound_sigma is not None:
            print(f"{row.scheme}: deterministic bound sigma {row.bound_sigma:.4f} by {row.bound_accountant}, RMSE {row.bound_rmse:.4f}")
    if len({row.adjacency for row in rows}) > 1:
        print(NOT_COMPARABLE)


def print_certified(certified: CertifiedStrategy) -> None:
    """The certified mechanism, its error, and every statement about it."""
    mechanism, problem = certified.mechanism, certified.problem
    family = "" if mechanism.strategy.r is None else f", r {mechanism.strategy.r:.6g}"
    print(f"{mechanism.scheme.name}, bandwidth {mechanism.strategy.bandwidth}{family}, sigma {mechanism.sigma:.6g}")
    print(f"RMSE {mechanism.rmse:.6g}, {certified.multiple_of_limit:.3f} times the lower limit of schemes with fixed participations")
    print(f"({problem.epsilon:g}, {problem.delta:g})-DP in both directions of add/remove; the certificate took {certified.seconds:.1f} s")
    if (best := certified.deterministic) is not None:
        print(f"deterministic: sigma {best.sigma:.6g} by {best.accountant}; the certified one is {best.ratio:.3f} of it")
    print_evidence(certified.evidence)


def print_certified_sigma(certified: CertifiedStrategy, *, as_json: bool) -> None:
    """σ, RMSE and the certificate's two statements, one for each direction."""
    if not as_json:
        print_certified(certified)
        return
    mechanism = certified.mechanism
    print_json({"sigma": mechanism.sigma, "rmse": mechanism.rmse, "evidence": [e.to_dict() for e in certified.evidence]})


def print_calibrated_fixed_size(mechanism: FixedSizeMechanism, evidence: Sequence[Evidence], *, as_json: bool) -> None:
    """σ and T of a calibrated mechanism with fixed-size batches, and the evidence."""
    if as_json:
        print_json({
            "sigma": mechanism.sigma, "iterations": mechanism.iterations, "rmse": mechanism.rmse,
            "evidence": [e.to_dict() for e in evidence],
        })
        return
    kind = "estimate, no guarantee" if all(e.kind == "estimate" for e in evidence) else "bound"
    print(f"sigma {mechanism.sigma:.6g}, iterations {mechanism.iterations} ({kind}), RMSE {mechanism.rmse:.6g}")
    print_evidence(evidence)


def print_fixed_size(strategy: FixedSizeStrategy) -> None:
    """The mechanism with fixed-size batches that meets a target, and every statement about it."""
    mechanism, problem = strategy.mechanism, strategy.problem
    print(f"{mechanism.scheme}, {mechanism.batch_size} of {mechanism.dataset_size} examples in each of {mechanism.iterations} steps")
    print(f"sigma {mechanism.sigma:.6g}, RMSE {mechanism.rmse:.6g}")
    print(f"({problem.epsilon:g}, {problem.delta:g})-DP under replace adjacency, not comparable with add/remove")
    print_evidence(strategy.evidence)


def print_verification(verification: Verification) -> None:
    """Whether a strategy file holds, and what failed."""
    for direction, mean in verification.means.items():
        print(f"{direction}: mean {mean:.6g} of new samples, threshold {verification.thresholds[direction]:.6g}")
    for failure in verification.failures:
        print(f"failed: {failure}")
    print(f"{'holds' if verification.holds else 'DOES NOT HOLD'} (seed {verification.seed}, {verification.seconds:.1f} s)")


def _compared(row: ComparisonRow) -> str:
    return row.scheme if row.matrix is None else f"{row.scheme}, {row.matrix}"


def _comparison_cells(row: ComparisonRow) -> tuple[str, ...]:
    if row.rmse is None:
        return (_compared(row), row.adjacency, "", "", "", "", "none", "", "", f"{row.seconds:.1f}")
    ratio = "" if row.ratio_to_cyclic_poisson is None else f"{row.ratio_to_cyclic_poisson:.3f}"
    error = "" if row.rmse_standard_error is None else f" ± {row.rmse_standard_error:.1g}"
    return (
        _compared(row), row.adjacency, str(row.bandwidth), "" if row.r is None else f"{row.r:.4f}", f"{row.sigma:.4f}",
        f"{row.rmse:.4f}{error}", row.kind, ratio,
        "" if row.multiple_of_limit is None else f"{row.multiple_of_limit:.3f}", f"{row.seconds:.1f}",
    )


def _accountant(evidence: Evidence) -> str:
    geometry = evidence.details.get("geometry")
    return evidence.accountant if geometry is None else f"{evidence.accountant} ({geometry})"


def _number_with_error(evidence: Evidence, quantity: str) -> str:
    number = f"{getattr(evidence, quantity):.6g}"
    if evidence.standard_error is not None and evidence.details.get("of", "delta") == quantity:
        number += f" ± {evidence.standard_error:.1g}"
    return number
