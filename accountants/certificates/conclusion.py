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

    tail_sum: the base, which is the largest threshold (with its clipping bias) or deterministic bound, plus the slack of every sampled test
    beyond it. published: the published bound for the shared threshold, plus what a deterministic bound above that threshold exceeds it by
    (math/certificates.md, sections 0, 1 and 3).
    """
    index = DIRECTIONS.index(direction)
    tests = [candidate.tests[index] for candidate in (*plan.candidates, *([plan.fallback] if plan.fallback else []))]
    sampled = [test for test in tests if test.sampler != "bound"]
    deterministic = max((test.threshold for test in tests if test.sampler == "bound"), default=0.0)
    if not sampled:
        return deterministic
    if plan.method == "published":
        first, bias = sampled[0], max(test.bias for test in sampled)
        published = published_delta(threshold=first.threshold, samples=first.samples, bound=first.bound)
        return published + bias + max(deterministic - first.threshold, 0.0)
    base = max(deterministic, *(test.threshold + test.bias for test in sampled))
    # A value's mean may lie below δ by the bias, so it is compared with the base less the bias.
    return base + sum(
        candidate_slack(threshold=test.threshold, samples=test.samples, bound=test.bound, base=base - test.bias) for test in sampled
    )


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
