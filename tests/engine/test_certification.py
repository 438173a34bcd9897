"""The certification stage: one result whatever the workers, deterministic schemes without samples, refusals."""

import json

import pytest

from accountants.certificates.recheck import failures
from accountants.registry import ACCOUNTANTS, account, asked_by_default
from engine.certification import certify, certify_best, draw_test, ray_drawer
from engine.deterministic import TOLERANCE
from engine.results import read_strategy
from search_spaces.errors import CalibrationError, InputError
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

PROBLEM = Problem(iterations=16, participations=2, epsilon=2.0, delta=1e-2)


def choice(name: str, bandwidth: int = 4):
    return (
        make_scheme(name, iterations=16, participations=2, bandwidth=bandwidth), harmonic(iterations=16, bandwidth=bandwidth, r=0.1),
    )


def test_the_result_does_not_depend_on_the_workers(ray_session):
    here, there = (
        certify_best(PROBLEM, [choice("min_sep_ra"), choice("nested_ra")], certificate="tilted", seed=3, draw=draw)
        for draw in (draw_test, ray_drawer(2))
    )
    assert here.certificate == there.certificate
    assert here.mechanism == there.mechanism
    assert failures(here.certificate) == []


def test_certified_statements_come_first_and_estimates_are_marked():
    certified = certify_best(PROBLEM, [choice("nested_ra")], certificate="tilted", seed=3, draw=draw_test)
    first, second, *others = certified.evidence
    assert (first.direction, second.direction) == ("remove", "add")
    assert first.kind == "certified" and first.delta <= PROBLEM.delta and "confidence" in first.details
    assert all((one.kind == "estimate") == (one.standard_error is not None) for one in others)
    assert {one.accountant for one in others} >= {"gaussian", "monte_carlo"}
    json.dumps(certified.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["nested_ra", "balls_in_bins", "min_sep_poisson"])
def test_the_best_deterministic_sigma_stands_beside_the_certified_one(name):
    certified = certify_best(PROBLEM, [choice(name)], certificate="tilted", seed=3, draw=draw_test)
    best, mechanism = certified.deterministic, certified.mechanism
    assert best.ratio == mechanism.sigma / best.sigma
    at = lambda factor, name: max(
        one.delta for one in account(mechanism.with_sigma(factor * best.sigma), epsilon=PROBLEM.epsilon, accountants=[name])
    )
    assert at(1.0, best.accountant) <= PROBLEM.delta
    bounds = [one for one in asked_by_default(mechanism) if ACCOUNTANTS[one].kind == "bound"]
    assert all(at(1 - 2 * TOLERANCE, one) > PROBLEM.delta for one in bounds)
    assert certified.to_dict()["deterministic"] == {"sigma": best.sigma, "accountant": best.accountant, "ratio": best.ratio}


def test_nobody_else_is_asked_where_others_are_not_wanted():
    certified = certify_best(PROBLEM, [choice("nested_ra")], certificate="tilted", seed=3, draw=draw_test, others=False)
    assert certified.deterministic is None and certified.document()["deterministic"] is None and len(certified.evidence) == 2


@pytest.mark.parametrize(("name", "accountant"), [("deterministic", "gaussian"), ("cyclic_ra", "pld"), ("cyclic_poisson", "pld")])
def test_a_scheme_with_a_deterministic_accountant_needs_no_samples(name, accountant):
    def never(*_):
        raise AssertionError("nothing is to be drawn")

    certified = certify_best(PROBLEM, [choice(name), choice("min_sep_ra")], certificate="tilted", seed=3, draw=never)
    assert certified.mechanism.scheme.name == name
    assert {one.kind for one in certified.evidence[:2]} == {"bound"} and certified.evidence[0].accountant == accountant
    assert all(one.delta <= PROBLEM.delta for one in certified.evidence[:2])
    assert failures(certified.certificate) == []
    assert (certified.deterministic.accountant, certified.deterministic.ratio) == (accountant, 1.0)


def test_certify_writes_a_file_that_reads_back(tmp_path):
    scheme, strategy = choice("min_sep_ra")
    path = tmp_path / "strategy.json"
    certified = certify(scheme=scheme, strategy=strategy, epsilon=2.0, delta=1e-2, seed=1, out=path)
    document = read_strategy(path)
    assert document["sigma"] == certified.mechanism.sigma and document["certificate"]["method"] == "tail_sum"


def test_the_published_procedure_works(tmp_path):
    scheme, strategy = choice("min_sep_ra")
    certified = certify(scheme=scheme, strategy=strategy, epsilon=2.0, delta=1e-2, seed=1, certificate="published")
    assert certified.certificate.plan.method == "published" and certified.certificate.selected >= 0
    assert {test.sampler for test in certified.certificate.chosen.tests} == {"plain"}
    assert failures(certified.certificate) == []


def test_refusals_name_the_argument(tmp_path):
    scheme, strategy = choice("min_sep_ra")
    with pytest.raises(InputError, match="certificate='lucky'"):
        certify(scheme=scheme, strategy=strategy, epsilon=2.0, delta=1e-2, certificate="lucky")
    with pytest.raises(CalibrationError, match="allow more samples"):
        certify(
            scheme=scheme, strategy=strategy, epsilon=2.0, delta=1e-2, certificate="tail-sum", max_samples=10, out=tmp_path / "never.json",
        )
    assert list(tmp_path.iterdir()) == []
