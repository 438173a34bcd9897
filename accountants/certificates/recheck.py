"""Recompute a certificate from what it states: nothing in the file is believed that can be derived."""

import math

from accountants.certificates.conclusion import guaranteed_delta, is_passed
from accountants.certificates.records import Certificate, DirectionTest, Outcome
from accountants.certificates.sampling import block_size, passes
from accountants.estimators import add_envelope
from accountants.evidence import DIRECTIONS
from accountants.registry import ACCOUNTANTS
from accountants.tilted import LARGEST_MEMORY, shifted_add_bound, tilted_log_moment, tilted_remove_bound
from search_spaces.errors import BandsmithError
from search_spaces.mechanism import Mechanism

_RELATIVE = 1e-9
"""Recomputed values may differ from stated ones by this much, relatively: another CPU, BLAS or library version."""


def failures(certificate: Certificate) -> list[str]:
    """What does not hold, one sentence each, in the order of the argument; empty if the certificate supports its claim.

    Checked: the guarantee follows from the thresholds; every bound, bias and moment is at least what it is recomputed to be; every
    stated outcome is consistent and decides as stated; the selection is the one the plan's order gives. Not checked here: that
    the samples were drawn as stated (draw them again for that).
    """
    found = [*_guarantee(certificate), *_selection(certificate)]
    plan = certificate.plan
    every = [*plan.candidates, *([plan.fallback] if plan.fallback else [])]
    for number, candidate in enumerate(every):
        for test in candidate.tests:
            found += [f"Candidate {number}, {test.direction}: {problem}" for problem in _test(candidate.mechanism, test, plan.epsilon)]
    for number, (candidate, pair) in enumerate(zip(plan.candidates, certificate.outcomes)):
        for test, outcome in zip(candidate.tests, pair):
            found += [f"Candidate {number}, {test.direction}: {problem}" for problem in _outcome(test, outcome)]
    return found


def _guarantee(certificate: Certificate) -> list[str]:
    plan, found = certificate.plan, []
    for direction in DIRECTIONS:
        value, stated = guaranteed_delta(plan, direction), certificate.delta.get(direction, math.nan)
        if value > plan.delta:
            found.append(f"The tests guarantee delta={value:.6g} in direction {direction}, above the target {plan.delta:.6g}.")
        if not math.isclose(value, stated, rel_tol=_RELATIVE):
            found.append(f"The stated delta={stated} in direction {direction} is not the {value} that the tests guarantee.")
    return found


def _selection(certificate: Certificate) -> list[str]:
    plan = certificate.plan
    if len(certificate.outcomes) > len(plan.candidates):
        return [f"There are {len(certificate.outcomes)} outcomes for {len(plan.candidates)} candidates."]
    passed = [is_passed(candidate, pair) for candidate, pair in zip(plan.candidates, certificate.outcomes)]
    if plan.method == "published":
        expected = passed.index(False) - 1 if False in passed else len(passed) - 1
        complete = False in passed[-1:] or len(passed) == len(plan.candidates)
    else:
        expected = passed.index(True) if True in passed else -1
        complete = True in passed[-1:] or len(passed) == len(plan.candidates)
    if not complete or (expected < 0 and plan.fallback is None):
        return ["The outcomes do not decide a selection."]
    if expected != certificate.selected:
        return [f"The outcomes select candidate {expected}, not the stated {certificate.selected}."]
    return []


def _test(mechanism: Mechanism, test: DirectionTest, epsilon: float) -> list[str]:
    try:
        return _bound_test(mechanism, test, epsilon) if test.sampler == "bound" else _sampled_test(mechanism, test, epsilon)
    except BandsmithError as error:
        return [f"It cannot be recomputed: {error}"]


def _bound_test(mechanism: Mechanism, test: DirectionTest, epsilon: float) -> list[str]:
    if test.accountant == "jensen" and test.direction == "add":
        value = add_envelope(mechanism, epsilon=epsilon).bias(0.0)
    elif test.accountant in ACCOUNTANTS and ACCOUNTANTS[test.accountant].kind == "bound":
        value = ACCOUNTANTS[test.accountant].delta(mechanism, epsilon=epsilon)[DIRECTIONS.index(test.direction)].delta
    else:
        return [f"Accountant {test.accountant!r} makes no deterministic bound."]
    return [] if _at_most(value, test.threshold) else [f"{test.accountant} bounds delta by {value:.9g}, not by {test.threshold:.9g}."]


def _sampled_test(mechanism: Mechanism, test: DirectionTest, epsilon: float) -> list[str]:
    found = []
    if test.samples != test.blocks * block_size(mechanism):
        found.append(f"{test.blocks} blocks hold {test.blocks * block_size(mechanism)} samples, not {test.samples}.")
    if test.sampler == "tilted":
        moment = tilted_log_moment(mechanism, alpha=test.alpha, memory_limit=LARGEST_MEMORY)
        if not math.isclose(moment, test.log_moment, rel_tol=_RELATIVE, abs_tol=_RELATIVE):
            found.append(f"log_moment is {moment:.12g}, not {test.log_moment:.12g}.")
        needed = tilted_remove_bound(mechanism, epsilon=epsilon, alpha=test.alpha, log_moment=test.log_moment)
    elif test.sampler == "shifted":
        needed = shifted_add_bound(add_envelope(mechanism, epsilon=epsilon), shift=test.shift)
    elif test.direction == "add":
        # Values are clipped at the bound, so any bound is one; what it hides is the bias.
        needed = 0.0
        bias = add_envelope(mechanism, epsilon=epsilon).bias(test.bound)
        if not _at_most(bias, test.bias):
            found.append(f"clipping at {test.bound:.6g} can hide {bias:.6g}, not {test.bias:.6g}.")
    else:
        needed = 1.0
    if not _at_most(needed, test.bound):
        found.append(f"values reach {needed:.9g}, above the stated bound {test.bound:.9g}.")
    return found


def _outcome(test: DirectionTest, outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return []
    found = []
    if outcome.samples != test.samples:
        found.append(f"{outcome.samples} samples were drawn, not {test.samples}.")
    if outcome.passed != passes(test, outcome.mean):
        found.append(f"a mean of {outcome.mean:.6g} against the threshold {test.threshold:.6g} is not what passed={outcome.passed} says.")
    consistent = 0 <= outcome.mean <= outcome.largest <= test.bound * (1 + _RELATIVE)
    if not consistent or outcome.mean**2 > outcome.second_moment * (1 + _RELATIVE):
        found.append(f"mean={outcome.mean:.6g}, second_moment={outcome.second_moment:.6g} and largest={outcome.largest:.6g} do not fit.")
    return found


def _at_most(value: float, limit: float) -> bool:
    return value <= limit * (1 + _RELATIVE)
