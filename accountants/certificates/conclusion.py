"""From tests to a guarantee: which candidate a plan selects, and the δ that selection has."""

from collections.abc import Callable

from accountants.certificates.records import Candidate, Certificate, DirectionTest, Outcome, Plan
from accountants.evidence import DIRECTIONS
from accountants.tail_sum import candidate_slack, published_delta
from search_spaces.errors import CertificateError

MakeTest = Callable[[int, str], Outcome]
"""(candidate index, direction) → outcome: draws the samples of one test."""


def guaranteed_delta(plan: Plan, direction: str) -> float:
    """E[δ_sel] of the plan's selection in one direction is at most this, whatever is selected; rounded up.

    tail_sum: the largest threshold (or deterministic bound) plus the slack of every sampled test.
    published: the published bound for the shared threshold, or the largest deterministic bound.
    Clipping biases are added (math/certificates.md, sections 0, 1 and 3).
    """
    index = DIRECTIONS.index(direction)
    tests = [candidate.tests[index] for candidate in (*plan.candidates, *([plan.fallback] if plan.fallback else []))]
    sampled = [test for test in tests if test.sampler != "bound"]
    deterministic = max((test.threshold for test in tests if test.sampler == "bound"), default=0.0)
    if not sampled:
        return deterministic
    bias = max(test.bias for test in sampled)
    if plan.method == "published":
        first = sampled[0]
        fallback_is_covered = deterministic <= first.threshold
        published = published_delta(threshold=first.threshold, samples=first.samples, bound=first.bound) + bias
        # The published bound covers a fallback that meets the base δ'; one that does not is charged on top.
        return published if fallback_is_covered else published + deterministic
    slack = sum(candidate_slack(threshold=test.threshold, samples=test.samples, bound=test.bound) for test in sampled)
    return max(deterministic, max(test.threshold + test.bias for test in sampled)) + slack


def conclude(plan: Plan, make_test: MakeTest) -> Certificate:
    """Make the plan's tests in its order until the selection is decided.

    Raises:
      CertificateError: the plan cannot guarantee its δ, or nothing passed and there is no fallback.
    """
    delta = {direction: guaranteed_delta(plan, direction) for direction in DIRECTIONS}
    for direction, value in delta.items():
        if value > plan.delta:
            raise CertificateError(f"The plan guarantees delta={value:.6g} in direction {direction}, above the target {plan.delta:.6g}.")
    outcomes, selected = [], -1
    for index, candidate in enumerate(plan.candidates):
        pair = _try(candidate, index, make_test)
        outcomes.append(pair)
        passed = is_passed(candidate, pair)
        if passed:
            selected = index
        if passed != (plan.method == "published"):
            break
    if selected < 0 and plan.fallback is None:
        raise CertificateError(f"None of the {len(plan.candidates)} candidates passed and the plan has no fallback.")
    return Certificate(plan=plan, outcomes=tuple(outcomes), selected=selected, delta=delta)


def is_passed(candidate: Candidate, pair: tuple[Outcome | None, Outcome | None]) -> bool:
    """Whether both directions hold: a deterministic bound always does, a sampled test by its outcome."""
    return all(_holds(test, outcome) for test, outcome in zip(candidate.tests, pair))


def _try(candidate: Candidate, index: int, make_test: MakeTest) -> tuple[Outcome | None, Outcome | None]:
    """Outcomes of both directions; the second is not drawn once the first has failed."""
    outcomes: list[Outcome | None] = [None, None]
    for position, test in enumerate(candidate.tests):
        if test.sampler == "bound":
            continue
        outcomes[position] = make_test(index, test.direction)
        if not outcomes[position].passed:
            break
    return tuple(outcomes)


def _holds(test: DirectionTest, outcome: Outcome | None) -> bool:
    return test.sampler == "bound" or (outcome is not None and outcome.passed)
