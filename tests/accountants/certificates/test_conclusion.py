"""Which candidate a plan selects, and what it guarantees, with outcomes made by hand."""

import dataclasses

import pytest

from accountants.certificates.conclusion import conclude, guaranteed_delta
from accountants.certificates.records import Candidate, Outcome
from accountants.tail_sum import candidate_slack, published_delta
from search_spaces.errors import CertificateError
from tests.accountants.certificates.conftest import bound_test, candidate, fallback, plain_test, tiny_mechanism


def outcomes(passing: dict[int, tuple[bool, bool]], drawn: list[tuple[int, str]]):
    """A `MakeTest` that passes as told and writes down what it was asked."""
    def make_test(index: int, direction: str) -> Outcome:
        drawn.append((index, direction))
        passed = passing[index][("remove", "add").index(direction)]
        return Outcome(mean=0.01, second_moment=0.001, largest=0.1, samples=4096, passed=passed)

    return make_test


def test_the_first_candidate_that_passes_both_directions_is_selected(plan):
    drawn = []
    made = conclude(plan, outcomes({0: (True, False), 1: (True, True), 2: (True, True)}, drawn))
    assert made.selected == 1 and made.chosen == plan.candidates[1]
    assert drawn == [(0, "remove"), (0, "add"), (1, "remove"), (1, "add")]


def test_the_second_direction_is_not_drawn_once_the_first_has_failed(plan):
    drawn = []
    made = conclude(plan, outcomes({0: (False, True), 1: (False, True), 2: (True, True)}, drawn))
    assert drawn == [(0, "remove"), (1, "remove"), (2, "remove"), (2, "add")]
    assert made.outcomes[0][1] is None


def test_the_fallback_is_selected_when_nothing_passes(plan):
    made = conclude(plan, outcomes(dict.fromkeys(range(3), (False, False)), []))
    assert made.selected == -1 and made.chosen == plan.fallback
    with pytest.raises(CertificateError, match="None of the 3 candidates passed"):
        conclude(dataclasses.replace(plan, fallback=None), outcomes(dict.fromkeys(range(3), (False, False)), []))


def test_the_published_procedure_stops_at_the_first_failure_and_keeps_the_one_before(plan):
    published = dataclasses.replace(plan, method="published", candidates=plan.candidates[::-1], delta=0.2)
    drawn = []
    made = conclude(published, outcomes({0: (True, True), 1: (True, False), 2: (True, True)}, drawn))
    assert made.selected == 0 and (2, "remove") not in drawn
    made = conclude(published, outcomes({0: (False, True)}, []))
    assert made.selected == -1
    made = conclude(published, outcomes(dict.fromkeys(range(3), (True, True)), []))
    assert made.selected == 2


def test_a_plan_that_cannot_guarantee_its_delta_draws_nothing(plan):
    drawn = []
    with pytest.raises(CertificateError, match="above the target"):
        conclude(dataclasses.replace(plan, delta=0.0501), outcomes({}, drawn))
    assert drawn == []


def test_the_guarantee_is_the_largest_threshold_plus_every_slack(plan):
    samples = plan.candidates[0].tests[0].samples
    slack = candidate_slack(threshold=0.05, samples=samples)
    assert guaranteed_delta(plan, "remove") == pytest.approx(0.05 + 3 * slack, rel=1e-12)


def test_a_lower_threshold_is_charged_only_for_what_exceeds_the_largest(plan):
    lower = dataclasses.replace(plan, candidates=(*plan.candidates, candidate(1.4, threshold=0.045)))
    added = guaranteed_delta(lower, "add") - guaranteed_delta(plan, "add")
    samples = plan.candidates[0].tests[0].samples
    assert 0 < added < 0.5 * candidate_slack(threshold=0.05, samples=samples)


def test_a_deterministic_bound_raises_the_base_but_has_no_slack(plan):
    higher = dataclasses.replace(plan, fallback=fallback(0.07))
    samples = plan.candidates[0].tests[0].samples
    expected = 0.07 + 3 * candidate_slack(threshold=0.05, samples=samples, base=0.07)
    assert guaranteed_delta(higher, "remove") == pytest.approx(expected, rel=1e-12)
    only = dataclasses.replace(plan, candidates=(), fallback=fallback(0.07))
    assert guaranteed_delta(only, "remove") == 0.07


def test_a_clipping_bias_is_added(plan):
    mechanism = tiny_mechanism(1.0)
    remove = plain_test(mechanism, "remove", threshold=0.05)
    biased = dataclasses.replace(plain_test(mechanism, "add", threshold=0.05), bound=0.4, bias=0.01)
    one = dataclasses.replace(plan, candidates=(Candidate(mechanism=mechanism, tests=(remove, biased)),), fallback=None)
    expected = 0.06 + candidate_slack(threshold=0.05, samples=biased.samples, bound=0.4)
    assert guaranteed_delta(one, "add") == pytest.approx(expected, rel=1e-12)


def test_the_published_guarantee_covers_a_fallback_that_meets_the_base_threshold(plan):
    published = dataclasses.replace(plan, method="published", candidates=plan.candidates[::-1])
    samples = plan.candidates[0].tests[0].samples
    expected = published_delta(threshold=0.05, samples=samples)
    assert guaranteed_delta(published, "remove") == pytest.approx(expected, rel=1e-12)
    weaker = dataclasses.replace(published, fallback=fallback(0.08))
    assert guaranteed_delta(weaker, "remove") == pytest.approx(expected + 0.03, rel=1e-12)


def test_a_direction_that_is_bounded_needs_no_samples(plan):
    mechanism = tiny_mechanism(1.0)
    mixed = Candidate(mechanism=mechanism, tests=(plain_test(mechanism, "remove", threshold=0.05), bound_test("add", threshold=0.03)))
    drawn = []
    made = conclude(dataclasses.replace(plan, candidates=(mixed,)), outcomes({0: (True, True)}, drawn))
    assert made.selected == 0 and drawn == [(0, "remove")]
    assert made.delta["add"] == 0.03
