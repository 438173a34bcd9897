"""The registry: the contract of every accountant, and `account`."""

import math

import pytest

from accountants import registry
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.registry import ACCOUNTANTS, account, supporting
from search_spaces.errors import InputError, UnresolvedError, UnsupportedError
from search_spaces.schemes import make_scheme
from tests.contracts.accountant_contract import AccountantContract, small_mechanism


class TestContract(AccountantContract):
    """Every accountant in `ACCOUNTANTS`."""


CLOSED_FORMS = ("gaussian", "jensen", "pld")


def test_asks_every_accountant_that_fits_in_both_directions():
    mechanism = small_mechanism("cyclic_ra")
    evidence = account(mechanism, epsilon=1.0)
    assert [(statement.accountant, statement.direction) for statement in evidence] == [
        (name, direction) for name in supporting(mechanism) for direction in DIRECTIONS
    ]
    assert set(CLOSED_FORMS) <= set(supporting(mechanism))
    assert "pld" not in supporting(small_mechanism("min_sep_ra"))


@pytest.mark.parametrize("question", [{"epsilon": 1.0}, {"delta": 1e-3}])
def test_asks_the_named_accountants_only(question):
    evidence = account(small_mechanism("poisson"), accountants=["pld", "gaussian"], **question)
    assert [statement.accountant for statement in evidence] == ["pld", "pld", "gaussian", "gaussian"]
    assert all(getattr(statement, name) == value for statement in evidence for name, value in question.items())


@pytest.mark.parametrize("question", [{}, {"epsilon": 1.0, "delta": 1e-5}])
def test_needs_exactly_one_of_epsilon_and_delta(question):
    with pytest.raises(InputError, match="exactly one of epsilon=.* and delta="):
        account(small_mechanism("poisson"), **question)


@pytest.mark.parametrize("question", [{"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0}])
def test_refuses_values_out_of_range(question):
    with pytest.raises(InputError, match=next(iter(question))):
        account(small_mechanism("poisson"), **question)


def test_is_keyword_only():
    with pytest.raises(TypeError):
        account(small_mechanism("poisson"), 1.0)


def test_asymptotic_accountants_are_not_offered():
    with pytest.raises(InputError, match="accountant='gdp' to be one of gaussian, "):
        account(small_mechanism("poisson"), epsilon=1.0, accountants=["gdp"])


def test_names_the_accountants_that_fit_an_unsupported_mechanism():
    with pytest.raises(UnsupportedError, match="pld.*min_sep_ra.*these do: gaussian, jensen"):
        account(small_mechanism("min_sep_ra"), epsilon=1.0, accountants=["pld"])


def test_no_steps_is_refused_before_any_division():
    with pytest.raises(InputError, match="iterations=0"):
        make_scheme("poisson", iterations=0, participations=0, bandwidth=1)


def test_leaves_out_with_a_warning_what_cannot_be_resolved(monkeypatch):
    monkeypatch.setattr(registry, "ACCOUNTANTS", {name: ACCOUNTANTS[name] for name in CLOSED_FORMS})
    with pytest.warns(UserWarning, match="pld has no answer: .*delta_floor"):
        evidence = account(small_mechanism("poisson"), delta=1e-18)
    assert {statement.accountant for statement in evidence} == {"gaussian", "jensen"}


def test_leaves_out_with_a_warning_what_cannot_be_resolved_beside_others():
    with pytest.warns(UserWarning, match="pld has no answer"):
        evidence = account(small_mechanism("poisson"), delta=1e-18, accountants=["gaussian", "pld"])
    assert {statement.accountant for statement in evidence} == {"gaussian"}


def test_raises_what_cannot_be_resolved_if_it_is_alone():
    with pytest.raises(UnresolvedError, match="delta_floor"):
        account(small_mechanism("poisson"), delta=1e-18, accountants=["pld"])


def test_takes_accountants_with_settings_of_their_own():
    (remove, add) = account(small_mechanism("nested_ra"), epsilon=1.0, accountants=[MonteCarloAccountant(samples=8192, seed=3)])
    assert remove.details["samples"] == add.details["samples"] == 8192 and remove.details["seed"] == 3
