"""Calibration: the returned σ was evaluated and meets the target in both directions, a slightly smaller one does not; failures say why."""

import math

import pytest

from accountants.base import Accountant
from accountants.calibration import TOLERANCE, calibrate
from accountants.evidence import DIRECTIONS, Evidence
from accountants.gaussian import GaussianAccountant, gaussian_delta, gaussian_mu
from accountants.pld import PldAccountant
from accountants.registry import ACCOUNTANTS, asked_by_default
from accountants.tightest import tightest_bound
from search_spaces.errors import CalibrationError, InputError, NumericalError, UnresolvedError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic, identity
from tests import tolerances


def problem(
    name: str = "cyclic_ra", *, iterations: int = 48, participations: int = 3, bandwidth: int = 4
) -> tuple[BatchScheme, ToeplitzStrategy]:
    bandwidth = 1 if name in ("poisson", "random_allocation") else bandwidth
    strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=0.1) if bandwidth > 1 else identity(iterations=iterations)
    return make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth), strategy


class Scripted(Accountant):
    """An accountant whose δ is a function of σ, in the directions given."""

    name, kind = "scripted", "bound"

    def __init__(self, remove, add=None):
        self.functions = (remove, add or remove)
        self.asked = []

    def unsupported(self, mechanism):
        return None

    def delta(self, mechanism, *, epsilon):
        self.asked.append(mechanism.sigma)
        return tuple(
            Evidence(accountant=self.name, direction=direction, kind="bound", epsilon=epsilon, delta=function(mechanism.sigma))
            for direction, function in zip(DIRECTIONS, self.functions)
        )

    def epsilon(self, mechanism, *, delta):
        raise AssertionError("calibration asks for δ")


def deltas(accountant, scheme, strategy, sigma, epsilon):
    return [statement.delta for statement in accountant.delta(Mechanism(scheme=scheme, strategy=strategy, sigma=sigma), epsilon=epsilon)]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("accountant", ["gaussian", "jensen", "pld"])
def test_sigma_meets_the_target_and_a_smaller_one_does_not(name, accountant):
    scheme, strategy = problem(name)
    if ACCOUNTANTS[accountant].unsupported(Mechanism(scheme=scheme, strategy=strategy, sigma=1.0)):
        with pytest.raises(UnsupportedError, match=name):
            calibrate(scheme, strategy, epsilon=2.0, delta=1e-5, accountant=accountant)
        return
    result = calibrate(scheme, strategy, epsilon=2.0, delta=1e-5, accountant=accountant)
    assert [statement.delta for statement in result.evidence] == deltas(ACCOUNTANTS[accountant], scheme, strategy, result.sigma, 2.0)
    assert [statement.direction for statement in result.evidence] == list(DIRECTIONS)
    assert all(statement.delta <= 1e-5 and statement.epsilon == 2.0 for statement in result.evidence)
    smaller = result.sigma * (1 - 1.01 * TOLERANCE)
    assert max(deltas(ACCOUNTANTS[accountant], scheme, strategy, smaller, 2.0)) > 1e-5
    assert result.accountant == accountant and result.seconds > 0


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 30.0, 100.0])
@pytest.mark.parametrize("name", ["cyclic_poisson", "cyclic_ra"])
def test_the_target_is_used_up(name, epsilon):
    scheme, strategy = problem(name)
    result = calibrate(scheme, strategy, epsilon=epsilon, delta=1e-5, accountant="pld")
    achieved = max(
        statement.epsilon
        for statement in PldAccountant().epsilon(Mechanism(scheme=scheme, strategy=strategy, sigma=result.sigma), delta=1e-5)
    )
    assert 0.99 * epsilon <= achieved <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("iterations", [10, 100, 500])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [1.0, 7.0, 20.0])
def test_ordinary_settings_never_fail(iterations, rate, epsilon):
    scheme, strategy = problem("poisson", iterations=iterations, participations=round(rate * iterations))
    result = calibrate(scheme, strategy, epsilon=epsilon, delta=1e-5, accountant="pld", tolerance=1e-2)
    assert max(statement.delta for statement in result.evidence) <= 1e-5


def test_anchor():
    scheme, strategy = problem("cyclic_poisson", iterations=1024, participations=4, bandwidth=32)
    result = calibrate(scheme, strategy, epsilon=4.0, delta=1e-5, accountant="pld")
    assert result.sigma == pytest.approx(1.162, rel=tolerances.ANCHOR_SIGMA)


def test_the_gaussian_is_calibrated_in_closed_form():
    scheme, strategy = problem("min_sep_ra")
    result = calibrate(scheme, strategy, epsilon=2.0, delta=1e-5, accountant="gaussian")
    assert result.evaluations == 1
    assert result.evidence[0].delta == pytest.approx(1e-5, rel=tolerances.INVERSE)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
def test_tolerance_is_kept_with_few_evaluations(tolerance):
    scheme, strategy = problem()
    accountant = Scripted(lambda sigma: gaussian_delta(epsilon=1.0, mu=0.7 / sigma))
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=accountant, tolerance=tolerance)
    root = 0.7 / gaussian_mu(epsilon=1.0, delta=1e-6)
    assert root * (1 - 1e-9) <= result.sigma <= root * (1 + tolerance)
    assert len(accountant.asked) == result.evaluations <= 25


def test_nothing_beyond_the_largest_multiplier_of_interest_is_tried():
    scheme, strategy = problem()
    needs = lambda: Scripted(lambda sigma: min(1.0, 1e-6 * (0.9 / sigma) ** 30))
    accountant = needs()
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=accountant, at_most=0.95)
    assert 0.9 <= result.sigma <= 0.9 * (1 + TOLERANCE) and max(accountant.asked) <= 0.95 * (1 + 1e-12)
    accountant = needs()
    with pytest.raises(CalibrationError, match="no noise multiplier up to 0.85"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=accountant, at_most=0.85)
    assert len(accountant.asked) == 1
    with pytest.raises(InputError, match="at_most=-1"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=accountant, at_most=-1)


@pytest.mark.parametrize("name", ["cyclic_ra", "min_sep_ra", "poisson"])
def test_the_tightest_bound_is_the_smallest_of_all(name):
    scheme, strategy = problem(name, iterations=24, participations=2, bandwidth=3)
    target = {"epsilon": 2.0, "delta": 1e-4, "tolerance": 1e-3}
    mechanism, sigmas = Mechanism(scheme=scheme, strategy=strategy, sigma=1.0), []
    for accountant in asked_by_default(mechanism):
        if ACCOUNTANTS[accountant].kind == "bound":
            sigmas.append(calibrate(scheme, strategy, accountant=accountant, **target).sigma)
    best = tightest_bound(scheme, strategy, **target)
    assert min(sigmas) * (1 - 1e-3) <= best.sigma <= min(sigmas) * (1 + 2e-3)
    assert max(statement.delta for statement in best.evidence) <= 1e-4


def test_an_accountant_that_is_quick_at_epsilon_is_asked_for_epsilon():
    scheme, strategy = problem("balls_in_bins", iterations=16, participations=2)
    accountant = ACCOUNTANTS["conditional_composition"]
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-3, accountant=accountant, tolerance=1e-3)
    assert all((statement.epsilon, statement.delta) == (1.0, 1e-3) for statement in result.evidence)
    assert max(deltas(accountant, scheme, strategy, result.sigma, 1.0)) <= 1e-3
    assert max(deltas(accountant, scheme, strategy, result.sigma * (1 - 1.1e-3), 1.0)) > 1e-3
    with pytest.raises(CalibrationError, match="epsilon is .* in direction"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-3, accountant=accountant, at_most=0.9 * result.sigma)


def test_the_worse_direction_decides():
    scheme, strategy = problem()
    needs = lambda sigma_needed: lambda sigma: min(1.0, 1e-6 * (sigma_needed / sigma) ** 30)
    for remove, add in ((needs(0.5), needs(0.9)), (needs(0.9), needs(0.5))):
        result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(remove, add))
        assert 0.9 <= result.sigma <= 0.9 * (1 + TOLERANCE) + 1e-12


def test_a_step_function_is_bisected():
    scheme, strategy = problem()
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(lambda sigma: 0.0 if sigma >= 0.8 else 1.0))
    assert 0.8 <= result.sigma <= 0.8 * (1 + TOLERANCE)


def test_an_unresolved_multiplier_is_never_returned():
    def delta(sigma):
        if sigma > 1.0:
            raise UnresolvedError("too few effective samples.")
        return min(1.0, 1e-6 * (0.9 / sigma) ** 30)

    scheme, strategy = problem()
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(delta))
    assert 0.9 <= result.sigma <= 1.0
    with pytest.raises(CalibrationError, match="too few effective samples"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-9, accountant=Scripted(delta))


def test_says_what_was_tried_when_nothing_is_enough():
    scheme, strategy = problem()
    with pytest.raises(CalibrationError, match="scripted finds no noise multiplier up to .* delta is 0.2 in direction remove"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(lambda sigma: 0.2))


def test_a_delta_below_the_floor_is_met_without_amplification():
    scheme, strategy = problem("random_allocation")
    result = calibrate(scheme, strategy, epsilon=1.0, delta=1e-18, accountant="pld")
    enough = GaussianAccountant().sigma(scheme, strategy, epsilon=1.0, delta=1e-18)
    assert enough * (1 - TOLERANCE) <= result.sigma <= enough * (1 + TOLERANCE)


def test_failures_are_not_taken_for_answers():
    def fails(sigma):
        raise NumericalError("the mass is lost.")

    def never_resolves(sigma):
        raise UnresolvedError("too few effective samples.")

    scheme, strategy = problem()
    with pytest.raises(CalibrationError, match="no noise multiplier up to .* the mass is lost"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(fails))
    with pytest.raises(CalibrationError, match="resolves no noise multiplier down to .* too few effective samples"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-6, accountant=Scripted(never_resolves))


def test_says_so_when_any_noise_is_enough():
    # An example that takes part in none of the steps with probability 1/e is itself (0, 0.64)-DP.
    scheme, strategy = problem("poisson", iterations=100, participations=1)
    with pytest.raises(CalibrationError, match="the scheme itself is the protection"):
        calibrate(scheme, strategy, epsilon=1.0, delta=0.7, accountant="pld")


@pytest.mark.parametrize("target", [
    {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": None}, {"delta": 0.0}, {"delta": 1.0},
    {"delta": -1e-5}, {"delta": math.nan}, {"delta": None}, {"tolerance": 0.0}, {"tolerance": -1e-3},
])
def test_refuses_a_target_out_of_range(target):
    scheme, strategy = problem()
    with pytest.raises(InputError, match=f"{next(iter(target))}="):
        calibrate(scheme, strategy, **{"epsilon": 1.0, "delta": 1e-5, "accountant": "pld"} | target)


def test_targets_are_keyword_only_and_accountants_known():
    scheme, strategy = problem()
    with pytest.raises(TypeError):
        calibrate(scheme, strategy, 1.0, 1e-5, "pld")
    with pytest.raises(InputError, match="accountant='moments' to be one of"):
        calibrate(scheme, strategy, epsilon=1.0, delta=1e-5, accountant="moments")
    with pytest.raises(UnsupportedError, match="min_sep_ra"):
        calibrate(*problem("min_sep_ra"), epsilon=1.0, delta=1e-5, accountant=PldAccountant())
