"""Overlapping windows: served by the bounds of balls-in-bins under their registered names, refused by all other accountants."""

import numpy as np
import pytest

from accountants.balls_in_bins.accounting import BALLS_IN_BINS_ACCOUNTANTS
from accountants.calibration import calibrate
from accountants.registry import ACCOUNTANTS, account, asked_by_default, supporting
from accountants.tightest import tightest_bound
from search_spaces.dense_strategies import DenseStrategy, OverlappingMechanism, inverse_square_root
from search_spaces.errors import UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins
from search_spaces.strategies import ToeplitzStrategy
from tests import tolerances

SCHEME, STRATEGY = BallsInBins(iterations=12, participations=3), inverse_square_root(iterations=12, bandwidth=2)
MECHANISM = OverlappingMechanism(scheme=SCHEME, strategy=STRATEGY, sigma=2.0)
SERVING = ("pld", "renyi", "conditional_composition")


def test_bounds_of_balls_in_bins_serve_it_and_no_other_accountant_does():
    assert supporting(MECHANISM) == asked_by_default(MECHANISM) == SERVING
    scheme = BallsInBins(iterations=200, participations=1)
    large = OverlappingMechanism(scheme=scheme, strategy=DenseStrategy(matrix=np.tri(200)), sigma=2.0)
    assert supporting(large) == SERVING and "conditional_composition" not in asked_by_default(large)


@pytest.mark.parametrize("name", [name for name in ACCOUNTANTS if name not in SERVING])
def test_others_refuse_it(name):
    assert "may overlap under balls_in_bins" in ACCOUNTANTS[name].unsupported(MECHANISM)
    for ask in (lambda: ACCOUNTANTS[name].delta(MECHANISM, epsilon=1.0), lambda: ACCOUNTANTS[name].epsilon(MECHANISM, delta=1e-3)):
        with pytest.raises(UnsupportedError, match="may overlap"):
            ask()


@pytest.mark.parametrize("question", [{"epsilon": 1.0}, {"delta": 1e-3}])
def test_statements_are_those_of_the_package(question):
    of_package = {accountant.name: accountant for accountant in BALLS_IN_BINS_ACCOUNTANTS}
    names = {"pld": "gram_majorant_pld", "renyi": "renyi_balls_in_bins", "conditional_composition": "conditional_composition"}
    for statement in account(MECHANISM, **question):
        other = account(MECHANISM, accountants=[of_package[names[statement.accountant]]], **question)[statement.direction == "add"]
        assert (statement.direction, statement.epsilon, statement.delta) == (other.direction, other.epsilon, other.delta)


@pytest.mark.parametrize("accountant", ["pld", "renyi"])
def test_a_matrix_without_overlap_is_a_banded_strategy(accountant):
    scheme, banded = BallsInBins(iterations=12, participations=3, bandwidth=2), ToeplitzStrategy(iterations=12, coefficients=(1.0, 0.5))
    matrix = np.eye(12) + 0.5 * np.eye(12, k=-1)
    dense = OverlappingMechanism(scheme=scheme, strategy=DenseStrategy(matrix=matrix), sigma=2.0)
    ask = lambda mechanism: ACCOUNTANTS[accountant].delta(mechanism, epsilon=1.0)
    for statement, other in zip(ask(dense), ask(Mechanism(scheme=scheme, strategy=banded, sigma=2.0))):
        # The program with the Gaussian factor may be smaller, and needs windows without overlap.
        assert other.delta <= statement.delta * (1 + tolerances.FOLLOWS)
        if accountant == "pld":
            assert statement.delta == pytest.approx(other.delta, rel=tolerances.FOLLOWS)


def test_calibration_meets_the_target_and_the_tightest_is_the_smallest():
    target = {"epsilon": 1.0, "delta": 1e-3, "tolerance": 1e-3}
    each = [calibrate(SCHEME, STRATEGY, accountant=name, **target) for name in SERVING]
    for found in each:
        assert max(statement.delta for statement in found.evidence) <= 1e-3
        smaller = MECHANISM.with_sigma(found.sigma * (1 - 1.01e-3))
        assert max(statement.delta for statement in account(smaller, epsilon=1.0, accountants=[found.accountant])) > 1e-3
    best = tightest_bound(SCHEME, STRATEGY, **target)
    smallest = min(found.sigma for found in each)
    assert smallest * (1 - 1e-3) <= best.sigma <= smallest * (1 + 2e-3)
