"""The accountant `monte_carlo`: exact values within its standard errors, ε as the inverse of δ, records that say how they were made."""

import functools
import math
import pickle

import numpy as np
import pytest
import scipy.optimize

from accountants.base import PartlyUnresolvedError
from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_epsilon
from accountants.monte_carlo import accountant as module
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.registry import account
from search_spaces.errors import InputError, UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy
from tests import tolerances
from tests.accountants.monte_carlo import cases

ACCOUNTANT = MonteCarloAccountant(samples=8192, seed=4)
TINY = [("random_allocation", 1, 0.8), ("min_sep_ra", 2, 0.9), ("balls_in_bins", 2, 1.3)]
every_tiny = pytest.mark.parametrize(("name", "bandwidth", "sigma"), TINY, ids=[case[0] for case in TINY])


def tiny(name: str, bandwidth: int, sigma: float) -> Mechanism:
    return cases.mechanism(name, 2, bandwidth, participations=1, sigma=sigma)


@every_tiny
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_delta_against_quadrature(name, bandwidth, sigma, epsilon):
    subject = tiny(name, bandwidth, sigma)
    for statement, exact in zip(ACCOUNTANT.delta(subject, epsilon=epsilon), cases.exact_residual_deltas(subject, epsilon=epsilon)):
        assert abs(statement.delta - exact) <= tolerances.STANDARD_DEVIATIONS * statement.standard_error
        assert 0 < statement.standard_error < 0.1 * exact


@every_tiny
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_epsilon_against_quadrature(name, bandwidth, sigma, delta):
    subject = tiny(name, bandwidth, sigma)
    for index, statement in enumerate(ACCOUNTANT.epsilon(subject, delta=delta)):
        excess = lambda epsilon: math.log(max(cases.exact_residual_deltas(subject, epsilon=epsilon)[index], 1e-300) / delta)
        exact = scipy.optimize.brentq(excess, 0.0, 30.0, xtol=1e-8)
        assert (statement.delta, statement.details["of"]) == (delta, "epsilon")
        assert abs(statement.epsilon - exact) <= tolerances.STANDARD_DEVIATIONS * statement.standard_error
        assert 0 < statement.standard_error < 0.05 * exact


def test_every_step_taken_is_a_gaussian_mechanism_without_sampling_error():
    scheme = make_scheme("random_allocation", iterations=12, participations=12, bandwidth=1)
    subject = Mechanism(scheme=scheme, strategy=ToeplitzStrategy(iterations=12, coefficients=(0.7,)), sigma=2.0)
    for statement in ACCOUNTANT.delta(subject, epsilon=2.0):
        assert statement.delta == pytest.approx(cases.single_gaussian_delta(2.0, subject.sensitivity / 2.0), rel=1e-9)
        assert statement.standard_error < 1e-9 * statement.delta
    for statement in ACCOUNTANT.epsilon(subject, delta=1e-6):
        assert statement.epsilon == pytest.approx(gaussian_epsilon(delta=1e-6, mu=subject.sensitivity / 2.0), abs=1e-7)


def test_epsilon_is_zero_where_the_target_is_met_without_it():
    for statement in ACCOUNTANT.epsilon(tiny("min_sep_ra", 2, 50.0), delta=0.1):
        assert (statement.epsilon, statement.standard_error) == (0.0, 0.0)


@pytest.mark.parametrize("of", ["delta", "epsilon"])
def test_records_say_that_they_are_estimates_and_how_they_were_made(of):
    subject = tiny("min_sep_ra", 2, 0.9)
    statements = ACCOUNTANT.delta(subject, epsilon=1.0) if of == "delta" else ACCOUNTANT.epsilon(subject, delta=1e-3)
    assert [statement.direction for statement in statements] == list(DIRECTIONS)
    for statement in statements:
        assert (statement.kind, statement.accountant, statement.adjacency) == ("estimate", "monte_carlo", "add_remove")
        details = statement.details
        assert (details["of"], details["samples"], details["seed"], details["dtype"]) == (of, 8192, 4, "float64")
        assert details["confidence"] == "one standard error" and details["effective_samples"] >= 50
        assert math.isfinite(statement.standard_error)


def test_the_same_seed_gives_the_same_statements():
    subject = tiny("min_sep_ra", 2, 0.9)
    deltas = [
        [statement.delta for statement in MonteCarloAccountant(samples=4096, seed=seed).delta(subject, epsilon=1.0)] for seed in (1, 1, 2)
    ]
    assert deltas[0] == deltas[1] != deltas[2]


def test_more_samples_add_to_the_same_ones_and_shrink_the_error():
    subject = tiny("min_sep_ra", 2, 0.9)
    few, many = (MonteCarloAccountant(samples=samples, seed=1).delta(subject, epsilon=1.0) for samples in (4096, 16 * 4096))
    for one, other in zip(few, many):
        assert other.standard_error == pytest.approx(one.standard_error / 4, rel=0.25)
        assert abs(one.delta - other.delta) <= tolerances.STANDARD_DEVIATIONS * one.standard_error


def test_what_is_not_resolved_is_not_stated():
    """Certain participation without the Gaussian factor: a small δ is out of reach of this many samples."""
    subject = cases.mechanism("min_sep_poisson", 12, 4, sigma=2.0)
    with pytest.raises(UnresolvedError, match="effective samples of 8192 for .*min_sep_poisson at epsilon=8, fewer than 50: unresolved"):
        ACCOUNTANT.delta(subject, epsilon=8.0)
    with pytest.raises(UnresolvedError, match="unresolved"):
        ACCOUNTANT.epsilon(subject, delta=1e-14)


def test_refuses_schemes_without_randomness():
    subject = cases.mechanism("deterministic", 12, 4, sigma=2.0)
    assert "deterministic" in ACCOUNTANT.unsupported(subject)
    for ask in (functools.partial(ACCOUNTANT.delta, epsilon=1.0), functools.partial(ACCOUNTANT.epsilon, delta=1e-3)):
        with pytest.raises(UnsupportedError, match="deterministic"):
            ask(subject)


@pytest.mark.parametrize("settings", [{"samples": 0}, {"samples": 1.5}, {"seed": -1}, {"seed": True}])
def test_refuses_bad_settings(settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))}="):
        MonteCarloAccountant(**settings)


def test_errors_are_calibrated_in_both_directions():
    """60 seeds: the root mean square of deviations in standard errors is near one."""
    subject = tiny("min_sep_ra", 2, 0.9)
    exact = np.array(cases.exact_residual_deltas(subject, epsilon=2.0))
    deviations = []
    for seed in range(60):
        statements = MonteCarloAccountant(samples=4096, seed=seed).delta(subject, epsilon=2.0)
        deviations.append([(one.delta - delta) / one.standard_error for one, delta in zip(statements, exact)])
    size = np.sqrt(np.mean(np.square(deviations), axis=0))
    assert np.all((0.5 < size) & (size < 1.5))
    assert np.abs(np.mean(deviations, axis=0)).max() < 5 / math.sqrt(60)


@pytest.mark.parametrize(("case", "sigma", "resolved"), [
    (("min_sep_poisson", 12, 4), 2.0, "add"), (("cyclic_poisson", 12, 2), 1.5, "remove"),
], ids=["add alone", "remove alone"])
def test_a_resolved_direction_is_stated_beside_one_that_is_not(case, sigma, resolved):
    """Certain participation hides the large losses of remove; at this σ an add value is almost never positive."""
    subject = cases.mechanism(*case, sigma=sigma)
    with pytest.raises(PartlyUnresolvedError, match="fewer than 50: unresolved") as caught:
        ACCOUNTANT.delta(subject, epsilon=4.0)
    statements = {statement.direction: statement for statement in caught.value.statements}
    known, unknown = statements.pop(resolved), *statements.values()
    assert known.delta < 1e-4 and known.details["effective_samples"] >= 50
    assert (unknown.delta, unknown.kind) == (1.0, "estimate") and unknown.details["reason"] == str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).statements == caught.value.statements


def test_account_states_the_resolved_direction_and_says_why_the_other_is_open():
    subject = cases.mechanism("min_sep_poisson", 12, 4, sigma=2.0)
    with pytest.warns(UserWarning, match="monte_carlo has an answer in one direction only: .*for remove of min_sep_poisson"):
        remove, add = account(subject, epsilon=4.0, accountants=[ACCOUNTANT])
    assert remove.delta == 1 and remove.details["resolved"] is False and 0 < add.delta < 1e-4


def test_an_unresolved_epsilon_is_infinite_with_a_reason(monkeypatch):
    estimate = lambda drawn, epsilon, direction: (math.exp(-3 * epsilon), 1e-4, (200.0, 3.0)[direction])
    monkeypatch.setattr(module, "_estimate", estimate)
    with pytest.raises(PartlyUnresolvedError, match="3.0 effective samples") as caught:
        ACCOUNTANT.epsilon(tiny("min_sep_ra", 2, 0.9), delta=1e-3)
    remove, add = caught.value.statements
    assert remove.epsilon == pytest.approx(math.log(1e3) / 3, abs=1e-6)
    assert math.isinf(add.epsilon) and add.delta == 1e-3 and "unresolved" in add.details["reason"]
