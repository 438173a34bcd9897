"""The tables of a report: a caption, the names of the columns, and rows of text."""

import collections
import dataclasses
import math
from collections.abc import Mapping

from accountants.certificates.records import Certificate
from accountants.evidence import DIRECTIONS, Evidence
from engine.report.contents import Contents, Search, Strategy
from engine.report.curves import name_of
from engine.report.figures import ranked
from engine.report.style import number, with_error
from engine.report.words import ADJACENCY, how_sampled, kinds, target, training

STATES = ("COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING")
STATE_WORDS = {
    "COMPLETE": "fully evaluated", "PRUNED": "stopped early", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting",
}
BEST_TRIALS = 15
"""Rows of the table of the best trials; trials.csv has all."""

_LONGEST_REASON = 160


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text.

    Attributes:
      caption: what it shows.
      columns: their names; empty for a table of two columns, name and value.
      rows: one text per column.
      note: a sentence below it.
    """

    caption: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def headline(strategy: Strategy) -> tuple[tuple[str, str], ...]:
    """(name, value) of what a reader looks for first."""
    document = strategy.document
    r = () if document["r"] is None else (("r (harmonic family)", number(document["r"])),)
    adjacency = "replace" if strategy.fixed_size else "add_remove"
    limit = strategy.multiple_of_limit
    against = () if limit is None else (("RMSE / lower limit", f"{limit:.3f}"),)
    return (
        ("batch selection scheme", strategy.scheme), ("bandwidth b", str(document["bandwidth"])), *r,
        ("noise multiplier σ", number(document["sigma"])), ("RMSE (clip norm 1)", number(document["rmse"])),
        *against, ("privacy target", target(strategy.problem)), ("adjacency", ADJACENCY[adjacency].split(" of ")[0].split(" (")[0]),
        ("guarantee", kinds(strategy.guarantee)),
    )


def problem_table(contents: Contents) -> Table:
    """The question that was asked, and the exact numbers of the answer."""
    problem, strategy = contents.problem, contents.strategy
    rows = [("training run", training(problem)), ("target", target(problem))]
    if getattr(problem, "dataset_size", None) is not None:
        rows.append(("examples in the dataset", str(problem.dataset_size)))
    if contents.lower_limit is not None:
        rows.append(("lower limit of the RMSE with a fixed number of participations", number(contents.lower_limit)))
        rows.append(("units", "σ: clip norms; RMSE: of the prefix sums of the noise, at clip norm 1"))
    if strategy is not None:
        document = strategy.document
        rows += [(f"{name}, in full precision", repr(document[key])) for name, key in (("σ", "sigma"), ("RMSE", "rmse"))]
        if (best := document["deterministic"]) is not None:
            rows.append((
                "for comparison: σ by the best deterministic accountant",
                f"{number(best['sigma'])} by {best['accountant']}; the σ of this run is {number(best['ratio'], 4)} times it",
            ))
    return Table(caption="In numbers", rows=tuple(rows))


def evidence_table(strategy: Strategy) -> Table:
    """Every statement in the strategy file, with its kind."""
    rows = tuple(
        (
            name_of(one), one.direction, "estimate, no guarantee" if one.kind == "estimate" else one.kind,
            with_error(one.epsilon, one.standard_error if one.details.get("of") == "epsilon" else None),
            with_error(one.delta, one.standard_error if one.details.get("of", "delta") == "delta" else None),
            _how(one), f"{one.seconds:.2f}",
        )
        for one in strategy.evidence
    )
    return Table(
        caption="All evidence in the strategy file", columns=("accountant", "direction", "kind", "ε", "δ", "how", "seconds"), rows=rows,
        note="± is one standard error. A statement that is larger than the target is no contradiction: it is what that accountant can show.",
    )


def tests_table(made: Certificate) -> Table:
    """Every test of a certificate, in the order in which they are tried."""
    rows = []
    every = [(str(i), candidate) for i, candidate in enumerate(made.plan.candidates)]
    for place, (name, candidate) in enumerate(every + ([("last resort", made.plan.fallback)] if made.plan.fallback else [])):
        mechanism = candidate.mechanism
        outcomes = made.outcomes[place] if place < len(made.outcomes) else (None, None)
        for test, outcome in zip(candidate.tests, outcomes, strict=True):
            drawn = test.sampler != "bound"
            rows.append((
                name, f"{mechanism.scheme.name}, b = {mechanism.strategy.bandwidth}", number(mechanism.sigma), test.direction, how_sampled(test),
                str(test.samples) if drawn else "—", number(test.bound, 4) if drawn else "—", number(test.threshold, 5),
                number(test.bias, 3) if drawn else "—", number(math.exp(test.log_moment), 6) if test.sampler == "tilted" else "—",
                "—" if outcome is None else number(outcome.mean, 5),
                "holds" if not drawn else "not drawn" if outcome is None else "passed" if outcome.passed else "failed",
            ))
    return Table(
        caption="The tests of the certificate",
        columns=("candidate", "scheme", "σ", "direction", "samples", "N", "B", "threshold", "η", "Z_α", "mean", "result"), rows=tuple(rows),
        note="Directions: " + " and ".join(DIRECTIONS) + ". A test is not drawn once the selection is decided.",
    )


def states_table(search: Search) -> Table:
    """How the trials of every scheme ended."""
    counts: dict[str, collections.Counter] = {}
    for row in search.rows:
        counts.setdefault(row["scheme"] or "not chosen yet", collections.Counter())[row["state"]] += 1
    states = [state for state in STATES if any(count[state] for count in counts.values())]
    best = {scheme: candidate.rmse for scheme, candidate in search.best.items()}
    rows = [
        (scheme, *(str(count[state]) for state in states), number(best.get(scheme)))
        for scheme, count in sorted(counts.items(), key=lambda item: (best.get(item[0], math.inf), item[0]))
    ]
    total = sum(counts.values(), collections.Counter())
    rows.append(("all", *(str(total[state]) for state in states), number(min(best.values(), default=None))))
    return Table(
        caption="Trials by scheme and by how they ended",
        columns=("scheme", *(STATE_WORDS[state] for state in states), f"best RMSE ({STATE_WORDS['COMPLETE']})"), rows=tuple(rows),
    )


def reasons_table(search: Search) -> Table | None:
    """Why trials failed; None where none did."""
    reasons = collections.Counter(str(row["reason"] or "not stated") for row in search.rows if row["state"] == "FAIL")
    if not reasons:
        return None
    rows = tuple((_shortened(reason), str(count)) for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
    return Table(caption="Why trials failed", columns=("reason", "trials"), rows=rows)


def best_table(search: Search) -> Table:
    """The best fully evaluated trials."""
    best = sorted(ranked(search.rows, "COMPLETE"), key=lambda row: (row["rmse"], row["number"]))[:BEST_TRIALS]
    return Table(
        caption="The best fully evaluated trials",
        columns=("trial", "scheme", "b", "r", "σ (clip norms)", "RMSE (clip norm 1)", "× lower limit", "σ is", "samples", "seconds", "device"),
        rows=tuple(_trial(row) for row in best),
        note="± is one standard error. The search ranks by these numbers; none of them is a guarantee. All trials are in trials.csv.",
    )


def origin_table(contents: Contents) -> Table:
    """Seeds, versions and hashes."""
    strategy, search = contents.strategy, contents.search
    rows = [("run", contents.name)]
    if search is not None:
        rows += [("study", search.name), ("seed of the search", str(search.seed)), ("unit of the objective", search.units)]
    if strategy is not None:
        rows += [(f"seed of the {name}", str(value)) for name, value in sorted(strategy.document["seeds"].items())]
        rows.append(("SHA-256 of the strategy", strategy.sha256))
    versions: Mapping[str, object] = strategy.document["versions"] if strategy is not None else search.versions
    rows += [(name, str(version)) for name, version in sorted(versions.items())]
    return Table(caption="Seeds, versions and hash", rows=tuple(rows))


def _how(one: Evidence) -> str:
    if one.kind == "certified":
        return f"test on {one.details.get('samples', '?')} samples ({one.details.get('sampler', '?')})"
    return "; ".join(str(one.details[key]) for key in ("method", "reason") if key in one.details) or "—"


def _trial(row: Mapping[str, object]) -> tuple[str, ...]:
    kind = "estimated" if row["kind"] == "estimate" else f"a {row['kind']}" if row["kind"] else "—"
    return (
        str(row["number"]), row["scheme"], str(row["bandwidth"]), number(row["r"], 4), with_error(row["sigma"], row["sigma_standard_error"]),
        with_error(row["rmse"], row["rmse_standard_error"]), number(row["multiple_of_limit"], 4), kind, number(row["samples"]),
        "—" if row["seconds"] is None else f"{row['seconds']:.2f}", str(row["device"] or "—"),
    )


def _shortened(reason: str) -> str:
    words = " ".join(reason.split())
    return words if len(words) <= _LONGEST_REASON else words[:_LONGEST_REASON] + "…"
