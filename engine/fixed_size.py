"""Fixed-size batches from target to strategy file and back: σ by the tightest bound, the file, and its check.

Nothing is searched (the strategy is the identity) and nothing sampled, so there is neither a study nor a certificate: a check computes
the bounds again.
"""

import dataclasses
import math
import time
from pathlib import Path

from accountants.evidence import Evidence
from accountants.fixed_size import FixedSizeMechanism, statements, tightest
from engine.results import AGREEMENT, evidence_of, fixed_size_document, fixed_size_mechanism_of, fixed_size_problem_of, write_strategy
from engine.run_folder import RunFolder
from search_spaces.problem import FixedSizeProblem

_ROOM = 1e-8
"""σ is calibrated to an ε smaller by this relative amount, so that the check holds on machines that differ in the last digits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedSizeStrategy:
    """A mechanism that meets a target, and why.

    Attributes:
      problem: the target.
      mechanism: the training, with its σ.
      evidence: what every bound says of the mechanism at the target's δ.
      folder: where `strategy.json` is written.
      seconds: wall time, without the report.
      report: the page about it; None where that could not be written.
    """

    problem: FixedSizeProblem
    mechanism: FixedSizeMechanism
    evidence: tuple[Evidence, ...]
    folder: Path
    seconds: float
    report: Path | None = None

    def document(self) -> dict[str, object]:
        """The content of the strategy file."""
        return fixed_size_document(mechanism=self.mechanism, problem=self.problem, evidence=self.evidence)

    def to_dict(self) -> dict[str, object]:
        """The document, the folder, the seconds and the report, as plain JSON values."""
        report = None if self.report is None else str(self.report)
        return self.document() | {"folder": str(self.folder), "seconds": self.seconds, "report": report}


def tune_fixed_size(problem: FixedSizeProblem, *, out: Path | None = None) -> FixedSizeStrategy:
    """The smallest σ by the tightest bound; the folder holds `strategy.json`, the log and the report afterwards.

    Args:
      problem: the target.
      out: folder to write, which must not exist; None means runs/ with a time stamp.

    Raises:
      InputError: the folder exists or cannot be made.
      CalibrationError: no bound reaches the target.
    """
    # Here, since a check of a file needs no figures.
    from engine.report.build import report_at_the_end

    started = time.perf_counter()
    folder = RunFolder.create(out)
    with folder.writing():
        mechanism, _ = tightest(dataclasses.replace(problem, epsilon=problem.epsilon * (1 - _ROOM)))
        evidence = statements(mechanism=mechanism, delta=problem.delta)
        made = FixedSizeStrategy(
            problem=problem, mechanism=mechanism, evidence=evidence, folder=folder.path, seconds=time.perf_counter() - started,
        )
        write_strategy(folder.strategy, made.document())
        report = report_at_the_end(folder.path)
    return made if report is None else dataclasses.replace(made, report=report.page)


def failures(document: dict[str, object]) -> list[str]:
    """What does not hold in the document of a strategy file about fixed-size batches, one sentence each: every bound is computed again."""
    problem, mechanism = fixed_size_problem_of(document), fixed_size_mechanism_of(document)
    computed = {_key(statement): statement for statement in statements(mechanism=mechanism, delta=problem.delta)}
    smallest = min(statement.epsilon for statement in computed.values())
    found = []
    if smallest > problem.epsilon:
        found.append(
            f"At sigma={mechanism.sigma!r} the smallest bound of epsilon is {smallest:.6g}, so epsilon={problem.epsilon!r} at "
            f"delta={problem.delta!r} is not confirmed."
        )
    for claim in evidence_of(document):
        match = computed.pop(_key(claim), None)
        if match is None:
            found.append(f"The file repeats or cannot support a statement of kind {claim.kind} by {_name(claim)}.")
        elif claim.delta != match.delta or not math.isclose(claim.epsilon, match.epsilon, rel_tol=AGREEMENT):
            found.append(
                f"The file claims epsilon={claim.epsilon!r} at delta={claim.delta!r} by {_name(claim)}; "
                f"it is {match.epsilon!r} at delta={match.delta!r}."
            )
    return found + [f"The file does not say what {_name(statement)} does." for statement in computed.values()]


def _key(statement: Evidence) -> tuple[object, ...]:
    return statement.accountant, statement.details.get("geometry"), statement.kind


def _name(statement: Evidence) -> str:
    geometry = statement.details.get("geometry")
    return statement.accountant if geometry is None else f"{statement.accountant} ({geometry})"
