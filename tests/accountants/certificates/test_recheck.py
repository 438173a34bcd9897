"""Whatever in a certificate is changed is found by computing it again."""

import dataclasses

import pytest

from accountants.certificates.conclusion import conclude
from accountants.certificates.planning import Choice, plan_tail_sum
from accountants.certificates.recheck import failures
from accountants.certificates.records import Certificate
from accountants.certificates.sampling import draw_blocks, outcome
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.pilot import solve_sigma
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

TARGET = dict(epsilon=2.0, delta=1e-2)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    scheme = make_scheme("nested_ra", iterations=8, participations=2, bandwidth=2)
    strategy = harmonic(iterations=8, bandwidth=2, r=0.1)
    pilot = solve_sigma(scheme, strategy, samples=8192, seed=0, **TARGET)
    choice = Choice(mechanism=Mechanism(scheme=scheme, strategy=strategy, sigma=pilot.sigma), pilot=pilot)
    plan = plan_tail_sum([choice], seed=1, max_samples=400_000, tilt=True, **TARGET)

    def make_test(index: int, direction: str):
        test = plan.candidates[index].tests[DIRECTIONS.index(direction)]
        return outcome(test, draw_blocks(plan, index, direction, range(test.blocks)))

    return conclude(plan, make_test)


def with_test(certificate: Certificate, direction: int, **changes) -> Certificate:
    """The certificate with the selected candidate's test changed."""
    plan, selected = certificate.plan, certificate.selected
    tests = list(plan.candidates[selected].tests)
    tests[direction] = dataclasses.replace(tests[direction], **changes)
    candidates = list(plan.candidates)
    candidates[selected] = dataclasses.replace(candidates[selected], tests=tuple(tests))
    return dataclasses.replace(certificate, plan=dataclasses.replace(plan, candidates=tuple(candidates)))


def with_outcome(certificate: Certificate, **changes) -> Certificate:
    """The certificate with the selected candidate's remove outcome changed."""
    pairs = [list(pair) for pair in certificate.outcomes]
    pairs[certificate.selected][0] = dataclasses.replace(pairs[certificate.selected][0], **changes)
    return dataclasses.replace(certificate, outcomes=tuple(map(tuple, pairs)))


def with_sigma(certificate: Certificate, factor: float) -> Certificate:
    """The certificate with the selected candidate's σ changed."""
    plan, selected = certificate.plan, certificate.selected
    candidates = list(plan.candidates)
    mechanism = candidates[selected].mechanism
    candidates[selected] = dataclasses.replace(candidates[selected], mechanism=mechanism.with_sigma(factor * mechanism.sigma))
    return dataclasses.replace(certificate, plan=dataclasses.replace(plan, candidates=tuple(candidates)))


def test_an_honest_certificate_has_no_failures(certificate):
    assert certificate.selected >= 0
    assert {test.sampler for test in certificate.chosen.tests} == {"tilted", "shifted"}
    assert failures(certificate) == []


@pytest.mark.parametrize(("change", "named"), [
    (lambda c: with_test(c, 0, bound=0.9 * c.chosen.tests[0].bound), "above the stated bound"),
    (lambda c: with_test(c, 1, bound=0.9 * c.chosen.tests[1].bound), "above the stated bound"),
    (lambda c: with_test(c, 0, log_moment=c.chosen.tests[0].log_moment - 0.1), "log_moment is"),
    (lambda c: with_test(c, 0, samples=c.chosen.tests[0].samples + 1), "blocks hold"),
    (lambda c: with_test(c, 0, threshold=1.2 * c.chosen.tests[0].threshold), "above the target"),
    (lambda c: with_outcome(c, mean=2 * c.outcomes[c.selected][0].mean), "is not what passed=True says"),
    (lambda c: with_outcome(c, passed=False), "is not what passed=False says"),
    (lambda c: with_outcome(c, samples=7), "7 samples were drawn"),
    (lambda c: with_outcome(c, second_moment=0.0), "do not fit"),
    (lambda c: with_sigma(c, 0.9), "above the stated bound"),
    (lambda c: dataclasses.replace(c, selected=-1), "not the stated -1"),
    (lambda c: dataclasses.replace(c, outcomes=()), "do not decide a selection"),
    (lambda c: dataclasses.replace(c, delta={"remove": 1e-3, "add": c.delta["add"]}), "is not the"),
    (lambda c: dataclasses.replace(c, delta={"remove": c.delta["remove"]}), "direction add is not the"),
    (lambda c: dataclasses.replace(c, plan=dataclasses.replace(c.plan, delta=0.9e-2)), "above the target"),
])
def test_what_was_changed_is_named(certificate, change, named):
    found = failures(change(certificate))
    assert any(named in failure for failure in found), found


def test_a_false_deterministic_bound_is_found(certificate):
    plan = certificate.plan
    fallback = dataclasses.replace(plan.fallback, mechanism=plan.fallback.mechanism.with_sigma(0.5 * plan.fallback.mechanism.sigma))
    found = failures(dataclasses.replace(certificate, plan=dataclasses.replace(plan, fallback=fallback)))
    assert any("gaussian bounds delta by" in failure for failure in found)
    tests = tuple(dataclasses.replace(test, accountant="monte_carlo") for test in plan.fallback.tests)
    estimated = dataclasses.replace(plan.fallback, tests=tests)
    found = failures(dataclasses.replace(certificate, plan=dataclasses.replace(plan, fallback=estimated)))
    assert any("makes no deterministic bound" in failure for failure in found)
