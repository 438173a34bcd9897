"""Independent check of a strategy file: everything derivable is recomputed, and the certificate is tested on new random numbers."""

import dataclasses
import secrets
import time
from pathlib import Path

from accountants.certificates.conclusion import guaranteed_delta
from accountants.certificates.recheck import failures
from accountants.certificates.records import Certificate, Plan, certificate_from_dict, committed
from accountants.evidence import DIRECTIONS
from engine import deterministic, fixed_size
from engine.certification import DrawTest, Progress, certified_evidence, draw_test, run_test
from engine.results import evidence_of, mechanism_of, problem_of, read_strategy
from search_spaces import checks
from search_spaces.errors import BandsmithError
from search_spaces.problem import FIXED_SIZE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """What a check found.

    Attributes:
      holds: whether everything held.
      failures: what did not, one sentence each.
      seed: of the new random numbers.
      means: by direction, the new sample mean of the certified test, where one was drawn.
      thresholds: by direction, what it had to stay below.
      seconds: wall time.
    """

    holds: bool
    failures: tuple[str, ...]
    seed: int
    means: dict[str, float]
    thresholds: dict[str, float]
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return dataclasses.asdict(self) | {"failures": list(self.failures)}


def verify(path: Path, *, seed: int | None = None, draw: DrawTest = draw_test, progress: Progress | None = None) -> Verification:
    """Check a strategy file from scratch.

    The file's own statements are compared with each other; every bound, moment, bias and guarantee of the certificate is computed
    again; and the selected candidate is tested again, alone, with as many new samples and the same thresholds. That the deterministic σ
    meets the target is computed again too. A file about fixed-size batches rests on no samples; its bounds are computed again.

    Args:
      path: a strategy file.
      seed: of the new samples; None draws one from the operating system, so that nobody can have prepared the file for it.
      draw: draws one test.
      progress: told where the work stands.

    Raises:
      InputError: the file cannot be read, was tampered with, or is not a strategy file.
    """
    started = time.perf_counter()
    seed = secrets.randbits(64) if seed is None else checks.integer(at_least=0, seed=seed)
    document = read_strategy(path)
    means: dict[str, float] = {}
    thresholds: dict[str, float] = {}
    if document["scheme"] == FIXED_SIZE:
        found = fixed_size.failures(document)
    else:
        certificate = certificate_from_dict(document["certificate"])
        found = [*_disagreements(document, certificate), *failures(certificate)]
        if not found:
            found += deterministic.failures(document)
            found += _test_again(certificate, seed, draw, progress, means, thresholds)
    return Verification(
        holds=not found, failures=tuple(found), seed=seed, means=means, thresholds=thresholds, seconds=time.perf_counter() - started,
    )


def _disagreements(document: dict[str, object], certificate: Certificate) -> list[str]:
    """Where the file's own statements contradict its certificate."""
    problem, plan, found = problem_of(document), certificate.plan, []
    stated, certified = mechanism_of(document), certificate.chosen.mechanism
    if (stated.scheme, stated.strategy.coefficients, stated.sigma) != (certified.scheme, certified.strategy.coefficients, certified.sigma):
        found.append("The file's scheme, strategy and sigma are not those of the candidate its certificate selects.")
    if (problem.epsilon, problem.delta) != (plan.epsilon, plan.delta):
        found.append("The file's problem has another epsilon or delta than its certificate.")
    if committed(plan, run_seed=document["seeds"].get("run", -1)).seed != plan.seed:
        found.append("The certifying seed is not the one that the run's seed and the plan give, so the plan may be younger than its samples.")
    derived = {(e.accountant, e.direction, e.kind): e for e in certified_evidence(certificate)}
    for claim in evidence_of(document):
        match = derived.pop((claim.accountant, claim.direction, claim.kind), None)
        if match is None and claim.kind == "certified":
            found.append(f"The file claims {claim.direction} certified by {claim.accountant}, which its certificate does not say.")
        if match is not None and (claim.epsilon, claim.delta) != (match.epsilon, match.delta):
            found.append(f"The file claims delta={claim.delta} for {claim.direction}; its certificate says {match.delta}.")
    return found + [f"The file does not repeat what its certificate says of {direction}." for _, direction, _ in derived]


def _test_again(certificate: Certificate, seed: int, draw: DrawTest, progress: Progress | None, means, thresholds) -> list[str]:
    """The selected candidate's tests on new random numbers, as a plan of one candidate, and whether they pass."""
    plan, found = certificate.plan, []
    alone = Plan(
        method=plan.method, epsilon=plan.epsilon, delta=plan.delta, seed=seed, candidates=(certificate.chosen,), purpose="verify",
    )
    for index, direction in enumerate(DIRECTIONS):
        test = certificate.chosen.tests[index]
        if test.sampler == "bound":
            continue
        try:
            made = run_test(alone, 0, direction, draw=draw, progress=progress)
        except BandsmithError as error:
            found.append(f"The {direction} test cannot be drawn again: {error}")
            continue
        means[direction], thresholds[direction] = made.mean, test.threshold
        if not made.passed:
            found.append(
                f"On new samples (seed {seed}) the {direction} mean {made.mean:.6g} exceeds the threshold {test.threshold:.6g}, "
                f"so delta={guaranteed_delta(alone, direction):.6g} is not confirmed."
            )
    return found
