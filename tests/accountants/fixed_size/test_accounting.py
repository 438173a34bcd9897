"""The entry points: what they state, that they invert each other, and how they refuse."""

import json
import math

import pytest

from accountants.evidence import Evidence
from accountants.fixed_size import ACCOUNTANTS, FixedSizeMechanism, account, calibrate, largest_iterations
from search_spaces.errors import CalibrationError, InputError

SMALL = FixedSizeMechanism(dataset_size=1000, batch_size=10, iterations=500, sigma=3.0)
EVERY = [("renyi", "pairwise"), ("renyi", "ball"), ("pld", "pairwise"), ("wang", "pairwise"), ("birrell", "pairwise")]


@pytest.mark.parametrize("accountant, geometry", EVERY)
def test_statement(accountant, geometry):
    evidence = account(mechanism=SMALL, delta=1e-6, accountant=accountant, geometry=geometry)
    assert (evidence.direction, evidence.adjacency, evidence.delta) == ("replace", "replace", 1e-6)
    assert evidence.kind == ("bound" if accountant in ("renyi", "pld") else "estimate")
    assert "mirror image" in evidence.details["symmetry"]
    assert Evidence.from_dict(json.loads(json.dumps(evidence.to_dict()))) == evidence


@pytest.mark.parametrize("accountant, geometry", EVERY)
def test_delta_inverts_epsilon(accountant, geometry):
    evidence = account(mechanism=SMALL, delta=1e-6, accountant=accountant, geometry=geometry)
    back = account(mechanism=SMALL, epsilon=evidence.epsilon, accountant=accountant, geometry=geometry)
    # The best order for δ is the best one for ε at the optimum, so only rounding and the certificate's slack remain.
    assert back.delta == pytest.approx(1e-6, rel=1e-3)


def test_order_of_the_accountants():
    epsilon = {pair: account(mechanism=SMALL, delta=1e-6, accountant=pair[0], geometry=pair[1]).epsilon for pair in EVERY}
    assert epsilon["renyi", "ball"] <= epsilon["renyi", "pairwise"]
    assert epsilon["renyi", "pairwise"] < min(epsilon["wang", "pairwise"], epsilon["birrell", "pairwise"])


def test_the_widened_cap_is_said():
    evidence = account(
        mechanism=FixedSizeMechanism(dataset_size=10**5, batch_size=1, iterations=1, sigma=10.0), delta=1e-9, geometry="ball"
    )
    assert evidence.details["order"] > 256 and "widened" in evidence.details["order_note"]


@pytest.mark.parametrize("accountant, geometry", EVERY)
def test_calibrated_sigma_is_the_smallest(accountant, geometry):
    arguments = dict(dataset_size=1000, batch_size=10, iterations=500, accountant=accountant, geometry=geometry)
    mechanism, evidence = calibrate(**arguments, epsilon=1.5, delta=1e-6)
    assert evidence.epsilon <= 1.5
    again = account(mechanism=mechanism, delta=1e-6, accountant=accountant, geometry=geometry)
    assert again.epsilon == evidence.epsilon
    less = account(mechanism=mechanism.with_sigma(mechanism.sigma * (1 - 1e-5)), delta=1e-6, accountant=accountant, geometry=geometry)
    assert less.epsilon > 1.5


@pytest.mark.parametrize("accountant, geometry", EVERY)
def test_largest_iterations_is_the_largest(accountant, geometry):
    arguments = dict(dataset_size=1000, batch_size=10, sigma=3.0, accountant=accountant, geometry=geometry)
    mechanism, evidence = largest_iterations(**arguments, epsilon=2.0, delta=1e-6)
    assert evidence.epsilon <= 2.0
    more = mechanism.with_iterations(mechanism.iterations + 1)
    assert account(mechanism=more, delta=1e-6, accountant=accountant, geometry=geometry).epsilon > 2.0


def test_targets_out_of_reach():
    arguments = dict(dataset_size=100, batch_size=10, delta=1e-6)
    with pytest.raises(CalibrationError, match="One step at sigma=0.5 already has epsilon="):
        largest_iterations(**arguments, sigma=0.5, epsilon=1e-3)
    with pytest.raises(CalibrationError, match="No sigma up to"):
        calibrate(**arguments, iterations=10, epsilon=1e-6, geometry="ball")


@pytest.mark.parametrize("accountant, geometry", EVERY)
@pytest.mark.parametrize(
    "batch, iterations, sigma", [(1, 1, 1.0), (1, 10**6, 20.0), (9999, 1, 5.0), (9999, 10**6, 5000.0), (1, 1, 1000.0), (5000, 10, 0.2)],
)
def test_extremes_are_finite(accountant, geometry, batch, iterations, sigma):
    mechanism = FixedSizeMechanism(dataset_size=10**4, batch_size=batch, iterations=iterations, sigma=sigma)
    for delta in (1e-2, 1e-12):
        evidence = account(mechanism=mechanism, delta=delta, accountant=accountant, geometry=geometry)
        assert 0 <= evidence.epsilon < math.inf
    assert evidence.epsilon >= account(mechanism=mechanism, delta=1e-2, accountant=accountant, geometry=geometry).epsilon


@pytest.mark.parametrize("change, message", [
    ({"iterations": 2.5}, r"Expected iterations=2\.5 to be an integer >= 1\."),
    ({"iterations": 0}, r"Expected iterations=0 to be an integer >= 1\."),
    ({"batch_size": 1001}, r"Expected batch_size=1001 to be at most dataset_size=1000: .*sampling rate cannot exceed 1\."),
    ({"batch_size": 0}, r"Expected batch_size=0 to be an integer >= 1\."),
    ({"dataset_size": 0.5}, r"Expected dataset_size=0\.5 to be an integer >= 1\."),
    ({"sigma": 0.0}, r"Expected sigma=0\.0 to be a finite number > 0\."),
    ({"sigma": math.nan}, r"Expected sigma=nan to be a finite number > 0\."),
])
def test_refused_mechanisms(change, message):
    with pytest.raises(InputError, match=message):
        FixedSizeMechanism(**{"dataset_size": 1000, "batch_size": 10, "iterations": 5, "sigma": 1.0} | change)


@pytest.mark.parametrize("arguments, message", [
    ({"delta": 0}, r"Expected delta=0 to be a number strictly between 0 and 1\."),
    ({"delta": 1.0}, r"Expected delta=1\.0 to be a number strictly between 0 and 1\."),
    ({"epsilon": -1}, r"Expected epsilon=-1 to be a finite number >= 0\."),
    ({}, "Expected exactly one of delta=None and epsilon=None to be given"),
    ({"delta": 0.1, "epsilon": 1.0}, "Expected exactly one of"),
    ({"delta": 0.1, "accountant": "rdp"}, "Expected accountant='rdp' to be one of renyi, pld, wang, birrell"),
    ({"delta": 0.1, "geometry": "disc"}, "Expected geometry='disc' to be one of pairwise, ball"),
])
def test_refused_questions(arguments, message):
    with pytest.raises(InputError, match=message):
        account(mechanism=SMALL, **arguments)


@pytest.mark.parametrize("solve, arguments", [
    (calibrate, {"iterations": 10, "epsilon": 0.0, "delta": 1e-5}),
    (calibrate, {"iterations": 10, "epsilon": 1.0, "delta": 0.0}),
    (largest_iterations, {"sigma": 1.0, "epsilon": math.inf, "delta": 1e-5}),
    (largest_iterations, {"sigma": 1.0, "epsilon": 1.0, "delta": 1}),
])
def test_refused_targets(solve, arguments):
    with pytest.raises(InputError, match="Expected (epsilon|delta)="):
        solve(dataset_size=100, batch_size=10, **arguments)


def test_every_accountant_is_tested():
    assert {name for name, _ in EVERY} == set(ACCOUNTANTS)
