"""Plans keep their promise by construction, whatever the estimates they are made from."""

import dataclasses
import math

import pytest

from accountants.certificates import planning, profiles
from accountants.certificates.conclusion import guaranteed_delta
from accountants.certificates.planning import Choice, plan_published, plan_tail_sum, unamplified
from accountants.certificates.profiles import needs_memory, profile
from accountants.certificates.records import Plan
from accountants.certificates.sampling import block_size
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_delta
from accountants.monte_carlo.pilot import solve_sigma
from accountants.tilted import tilted_cost
from search_spaces.errors import CalibrationError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

TARGET = dict(epsilon=2.0, delta=1e-3)


def choice(name: str, bandwidth: int) -> Choice:
    scheme = make_scheme(name, iterations=16, participations=2, bandwidth=bandwidth)
    strategy = harmonic(iterations=16, bandwidth=bandwidth, r=0.1)
    pilot = solve_sigma(scheme, strategy, samples=8192, seed=0, **TARGET)
    return Choice(mechanism=Mechanism(scheme=scheme, strategy=strategy, sigma=pilot.sigma), pilot=pilot)


@pytest.fixture(scope="module")
def choices() -> list[Choice]:
    return [choice("min_sep_ra", 4), choice("nested_ra", 4), choice("min_sep_poisson", 4)]


@pytest.mark.parametrize("tilt", [False, True])
def test_a_plan_guarantees_its_delta_and_nearly_uses_it(choices, tilt):
    plan = plan_tail_sum(choices, seed=0, max_samples=3_000_000, tilt=tilt, **TARGET)
    guaranteed = [guaranteed_delta(plan, direction) for direction in DIRECTIONS]
    # The direction that does not bind may be tested at a threshold that needs few samples.
    assert 0.95 * TARGET["delta"] < max(guaranteed) <= TARGET["delta"]


def test_candidates_come_in_ascending_rmse_near_the_pilot_and_every_choice_has_one(choices):
    plan = plan_tail_sum(choices, seed=0, max_samples=3_000_000, tilt=True, **TARGET)
    errors = [candidate.mechanism.rmse for candidate in plan.candidates]
    assert errors == sorted(errors)
    assert {candidate.mechanism.scheme.name for candidate in plan.candidates} == {one.mechanism.scheme.name for one in choices}
    for candidate in plan.candidates:
        (pilot,) = [one.pilot for one in choices if one.mechanism.scheme == candidate.mechanism.scheme]
        assert 0.99 * pilot.sigma < candidate.mechanism.sigma < 1.15 * pilot.sigma


def test_a_threshold_stays_below_what_no_value_exceeds():
    """At the σ that the narrow choice needs for "add", all values of its "remove" test lie below δ."""
    problem = dict(iterations=64, participations=4)
    target = dict(epsilon=4.0, delta=1e-3)
    found = []
    for bandwidth in (2, 8):
        scheme, strategy = make_scheme("min_sep_ra", bandwidth=bandwidth, **problem), harmonic(iterations=64, bandwidth=bandwidth, r=0.1)
        pilot = solve_sigma(scheme, strategy, samples=16_384, seed=0, **target)
        found.append(Choice(mechanism=Mechanism(scheme=scheme, strategy=strategy, sigma=pilot.sigma), pilot=pilot))
    plan = plan_tail_sum(found, seed=0, max_samples=400_000, tilt=True, **target)
    tests = [test for candidate in plan.candidates for test in candidate.tests if test.sampler != "bound"]
    assert any(test.bound < target["delta"] for test in tests)
    assert all(test.threshold < test.bound for test in tests)
    assert max(guaranteed_delta(plan, direction) for direction in DIRECTIONS) <= target["delta"]


def test_the_published_procedure_begins_where_its_tests_should_pass(choices):
    plan = plan_published(choices[0], seed=0, max_samples=20_000_000, **TARGET)
    first, pilot = plan.candidates[0], choices[0].pilot
    for test in first.tests:
        ratio = first.mechanism.sigma / pilot.sigma
        assert pilot.deltas[test.direction] * ratio ** pilot.slopes[test.direction] < test.threshold


def test_the_fallback_is_the_unamplified_mechanism(choices):
    plan = plan_tail_sum(choices[:1], seed=0, max_samples=3_000_000, tilt=True, **TARGET)
    mechanism = plan.fallback.mechanism
    delta = gaussian_delta(epsilon=TARGET["epsilon"], mu=mechanism.sensitivity / mechanism.sigma)
    assert delta <= plan.fallback.tests[0].threshold <= TARGET["delta"]


def test_the_same_seed_gives_the_same_plan(choices):
    first, second = (plan_tail_sum(choices[:2], seed=4, max_samples=3_000_000, tilt=True, **TARGET) for _ in range(2))
    assert first == second


def test_a_budget_too_small_for_any_test_is_named(choices):
    with pytest.raises(CalibrationError, match="No remove test of min_sep_ra within 100 samples"):
        plan_tail_sum(choices[:1], seed=0, max_samples=100, tilt=False, **TARGET)


def test_larger_tables_are_allowed_only_where_no_test_is_possible_without(choices, monkeypatch):
    make = lambda samples: plan_tail_sum(choices[:1], seed=0, max_samples=samples, tilt=True, **TARGET).candidates[0].tests[0].sampler
    assert make(1000) == "tilted"
    monkeypatch.setattr(planning, "MEMORY_LIMIT", 1)
    assert make(3_000_000) == "plain" and make(1000) == "tilted"
    monkeypatch.setattr(planning, "LARGEST_MEMORY", 1)
    with pytest.raises(CalibrationError, match="within 1000 samples"):
        make(1000)


def test_tilting_saves_samples(choices):
    plain, tilted = (plan_tail_sum(choices[:1], seed=0, max_samples=3_000_000, tilt=tilt, **TARGET) for tilt in (False, True))
    count = lambda plan: plan.candidates[0].tests[0].samples * plan.candidates[0].tests[0].threshold
    assert tilted.candidates[0].tests[0].sampler == "tilted"
    assert tilted.candidates[0].tests[0].bound < 0.1 * plain.candidates[0].tests[0].bound
    assert count(tilted) < count(plain)


def test_the_published_plan_descends_by_its_step_with_half_the_target(choices):
    plan = plan_published(choices[0], seed=0, max_samples=10**6, **TARGET)
    sigmas = [candidate.mechanism.sigma for candidate in plan.candidates]
    assert all(b == pytest.approx(a / 1.01) for a, b in zip(sigmas, sigmas[1:]))
    assert {test.threshold for candidate in plan.candidates for test in candidate.tests} == {TARGET["delta"] / 2}
    assert all(guaranteed_delta(plan, direction) <= TARGET["delta"] for direction in DIRECTIONS)
    with pytest.raises(CalibrationError, match="more than the 1000 allowed"):
        plan_published(choices[0], seed=0, max_samples=1000, **TARGET)


def test_the_unamplified_candidate_is_deterministic(choices):
    candidate = unamplified(choices[0].mechanism, epsilon=2.0, delta=1e-4)
    assert {test.sampler for test in candidate.tests} == {"bound"} and {test.threshold for test in candidate.tests} == {1e-4}


def test_a_pilot_that_is_wrong_changes_sigma_but_never_the_guarantee(choices):
    one = choices[0]
    wrong = dataclasses.replace(one, pilot=dataclasses.replace(one.pilot, sigma=0.7 * one.pilot.sigma))
    plan = plan_tail_sum([wrong], seed=0, max_samples=3_000_000, tilt=True, **TARGET)
    assert all(guaranteed_delta(plan, direction) <= TARGET["delta"] for direction in DIRECTIONS)


def test_a_trial_ends_when_it_is_as_precise_as_it_need_be(choices, monkeypatch):
    """min-sep Poisson has no factor, so its values spread the most."""
    one = choices[2]
    measure = lambda: profile(one.mechanism, one.pilot, "remove", seed=0, tilt=True, **TARGET)
    monkeypatch.setattr(profiles, "_TRIAL_SAMPLES", 1)
    for wanted in (0.05, 0.02):
        monkeypatch.setattr(profiles, "_TRIAL_ERROR", wanted)
        monkeypatch.setattr(profiles, "_TRIAL_SHARE", 1e9)
        # The number of samples rests on the variance seen in the first block.
        assert measure().relative_error < 1.3 * wanted
    monkeypatch.setattr(profiles, "_TRIAL_ERROR", 1e-4)
    monkeypatch.setattr(profiles, "_MOST_TRIAL_SAMPLES", 2 * block_size(one.mechanism))
    spread = measure()
    assert spread.relative_error == pytest.approx(math.sqrt(spread.relative_variance / (2 * block_size(one.mechanism))))


@pytest.mark.parametrize(("loss", "factor", "chosen"), [(0.02, 0.99, 1), (0.02, 1.01, 0), (0.005, 0.99, 0)], ids=["better", "worse", "near"])
def test_larger_tables_are_tried_where_sigma_would_lie_well_above_the_root(choices, monkeypatch, loss, factor, chosen):
    mechanism = choices[0].mechanism
    costs = [tilted_cost(mechanism, alpha=alpha).bytes for alpha in (2, 3)]
    limits = (sum(costs) // 2, costs[1])
    monkeypatch.setattr(planning, "MEMORY_LIMIT", limits[0])
    monkeypatch.setattr(planning, "LARGEST_MEMORY", limits[1])
    first = unamplified(mechanism, delta=1e-4, epsilon=2.0)
    other = dataclasses.replace(first, mechanism=first.mechanism.with_sigma(factor * first.mechanism.sigma))
    plans = [Plan(method="tail_sum", seed=0, candidates=(one,), **TARGET) for one in (first, other)]
    made = dict(zip(limits, plans))
    monkeypatch.setattr(planning, "_plan", lambda *_, memory_limit, **__: (made[memory_limit], loss))
    assert plan_tail_sum(choices[:1], seed=0, max_samples=10**6, tilt=True, **TARGET) is plans[chosen]
    # Nothing is gained where the larger limit admits no further law.
    monkeypatch.setattr(planning, "MEMORY_LIMIT", limits[1])
    assert not needs_memory(mechanism, more_than=limits[1], at_most=limits[1])


def test_a_deterministic_bound_does_not_keep_sigma_up(choices):
    one = choices[2]
    add = profile(one.mechanism, one.pilot, "add", seed=0, tilt=True, **TARGET)
    assert add.sampler == "bound" and add.mechanism.sigma < 0.99 * one.mechanism.sigma
    # It was computed at the smaller σ, so it holds at every candidate's.
    assert add.at(one.mechanism, delta=TARGET["delta"]).shape.threshold < add.delta
