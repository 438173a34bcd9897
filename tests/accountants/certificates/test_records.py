"""Certificates are values: they say what is wrong with them at construction, and survive JSON unchanged."""

import dataclasses
import json

import pytest

from accountants.certificates.records import (
    Candidate,
    Certificate,
    DirectionTest,
    Outcome,
    Plan,
    certificate_from_dict,
    certificate_to_dict,
    committed,
    mechanism_from_dict,
    mechanism_to_dict,
)
from search_spaces.errors import InputError
from tests.accountants.certificates.conftest import bound_test, candidate, plain_test, tiny_mechanism

OUTCOME = Outcome(mean=0.01, second_moment=0.001, largest=0.3, samples=4096, passed=True)


@pytest.fixture
def certificate(plan) -> Certificate:
    return Certificate(plan=plan, outcomes=((OUTCOME, None), (OUTCOME, OUTCOME)), selected=1, delta={"remove": 0.06, "add": 0.06})


def test_a_certificate_survives_json_byte_for_byte(certificate):
    text = json.dumps(certificate_to_dict(certificate), sort_keys=True)
    restored = certificate_from_dict(json.loads(text))
    assert restored == certificate
    assert json.dumps(certificate_to_dict(restored), sort_keys=True) == text


def test_a_mechanism_survives_json():
    mechanism = tiny_mechanism(0.7)
    assert mechanism_from_dict(json.loads(json.dumps(mechanism_to_dict(mechanism)))) == mechanism


@pytest.mark.parametrize("field", ["method", "candidates", "outcomes", "certified_delta"])
def test_a_missing_field_is_named(certificate, field):
    values = certificate_to_dict(certificate)
    del values[field]
    with pytest.raises(InputError, match="Expected the certificate to have the fields"):
        certificate_from_dict(values)


def test_an_unknown_field_of_a_test_is_refused(certificate):
    values = certificate_to_dict(certificate)
    values["candidates"][0]["tests"][0]["lenient"] = True
    with pytest.raises(InputError, match="lenient"):
        certificate_from_dict(values)


def test_a_selection_outside_the_list_is_refused(certificate):
    with pytest.raises(InputError, match="selected=3"):
        certificate_from_dict(certificate_to_dict(certificate) | {"selected": 3})


@pytest.mark.parametrize(("change", "named"), [
    ({"direction": "both"}, "direction='both'"), ({"sampler": "biased"}, "sampler='biased'"), ({"threshold": 0.0}, "threshold=0.0"),
    ({"threshold": float("nan")}, "threshold=nan"), ({"bound": 0.0}, "bound=0.0"), ({"bias": -1.0}, "bias=-1.0"),
    ({"alpha": 0}, "alpha=0"), ({"shift": -0.1}, "shift=-0.1"), ({"blocks": 0}, "blocks=0"), ({"samples": 0}, "samples=0"),
    ({"bound": 0.01}, "threshold=0.02"), ({"log_moment": float("inf")}, "log_moment=inf"),
])
def test_a_direction_test_out_of_range_is_refused(change, named):
    test = plain_test(tiny_mechanism(1.0), "remove", threshold=0.02)
    with pytest.raises(InputError, match=named):
        dataclasses.replace(test, **change)


def test_a_candidate_needs_both_directions_in_order():
    tests = candidate(1.0, threshold=0.01).tests
    for wrong in (tests[::-1], tests[:1], (tests[0], tests[0])):
        with pytest.raises(InputError, match="remove and add"):
            Candidate(mechanism=tiny_mechanism(1.0), tests=wrong)


def test_a_fallback_must_be_deterministic(plan):
    with pytest.raises(InputError, match="fallback"):
        dataclasses.replace(plan, fallback=plan.candidates[0])


def test_a_plan_needs_something_to_select():
    with pytest.raises(InputError, match="candidate or a fallback"):
        Plan(method="tail_sum", epsilon=1.0, delta=0.1, seed=0, candidates=())


def test_the_published_procedure_needs_descending_sigma_and_equal_tests(plan):
    with pytest.raises(InputError, match="descending"):
        dataclasses.replace(plan, method="published")
    descending = plan.candidates[::-1]
    assert dataclasses.replace(plan, method="published", candidates=descending).method == "published"
    with pytest.raises(InputError, match="share"):
        dataclasses.replace(plan, method="published", candidates=(*descending, candidate(0.5, threshold=0.04)))


def test_the_seed_is_tied_to_the_whole_plan(plan):
    seeds = {
        committed(changed, run_seed=run_seed).seed
        for run_seed, changed in [
            (1, plan), (2, plan), (1, dataclasses.replace(plan, delta=0.11)), (1, dataclasses.replace(plan, candidates=plan.candidates[:2])),
            (1, dataclasses.replace(plan, fallback=None)), (1, dataclasses.replace(plan, candidates=plan.candidates[::-1])),
        ]
    }
    assert len(seeds) == 6
    assert committed(committed(plan, run_seed=1), run_seed=1) == committed(plan, run_seed=1)


def test_bounds_draw_nothing():
    test = bound_test("add", threshold=0.01)
    assert isinstance(test, DirectionTest) and test.samples == test.blocks == 0
