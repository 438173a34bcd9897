"""The pilot: σ where it is known in closed form or by quadrature, honest standard errors, and no ranking on what is not resolved."""

import dataclasses
import functools
import math

import numpy as np
import pytest
import scipy.optimize

from accountants.evidence import DIRECTIONS
from accountants.gaussian import gaussian_mu, lowest_sigma
from accountants.monte_carlo import pilot
from accountants.monte_carlo.mixture import DeltaEstimates
from accountants.monte_carlo.pilot import PilotResult, solve_sigma
from accountants.monte_carlo.simulation import _draw
from search_spaces.errors import CalibrationError, InputError
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.monte_carlo import cases

TARGETS = [(1.0, 1e-3), (0.1, 1e-8), (4.0, 1e-5), (10.0, 1e-8)]
every_target = pytest.mark.parametrize(("epsilon", "delta"), TARGETS)


def solve(name: str, bandwidth: int, *, epsilon: float, delta: float, iterations: int = 12, participations: int = 3, **more) -> PilotResult:
    model = cases.simulation(name, iterations, bandwidth, participations=participations)
    return solve_sigma(model.scheme, model.strategy, epsilon=epsilon, delta=delta, **({"seed": 0} | more))


def close(result: PilotResult, sigma: float) -> bool:
    allowed = tolerances.STANDARD_DEVIATIONS * result.sigma_standard_error + tolerances.PILOT_INTERPOLATION * sigma
    return abs(result.sigma - sigma) <= allowed


@functools.lru_cache(maxsize=None)
def exact_sigma(name: str, epsilon: float, delta: float) -> float:
    """σ of two iterations and one participation, by the root of the larger δ."""
    bandwidth = 1 if name == "random_allocation" else 2
    at = lambda log_sigma: cases.exact_residual_deltas(
        cases.mechanism(name, 2, bandwidth, participations=1, sigma=math.exp(log_sigma)), epsilon=epsilon
    )
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    return math.exp(scipy.optimize.brentq(lambda x: math.log(max(at(x)) / delta), math.log(0.3 / mu), math.log(1.5 / mu), xtol=1e-9))


class TestKnownSigma:
    @every_target
    def test_every_step_taken_is_a_gaussian_mechanism(self, epsilon, delta):
        """T = K and b = 1: no sampling error at all, and both directions alike."""
        scheme = make_scheme("random_allocation", iterations=12, participations=12, bandwidth=1)
        strategy = ToeplitzStrategy(iterations=12, coefficients=(0.7,))
        result = solve_sigma(scheme, strategy, epsilon=epsilon, delta=delta, seed=3)
        expected = math.sqrt(12) * 0.7 / gaussian_mu(epsilon=epsilon, delta=delta)
        assert result.sigma == pytest.approx(expected, rel=tolerances.PILOT_INTERPOLATION)
        assert result.sigma_standard_error < 1e-6 * expected
        assert result.deltas["remove"] == pytest.approx(result.deltas["add"], rel=1e-9)
        assert result.resolved and all(effective > 0.999 * result.samples for effective in result.effective_samples.values())

    @every_target
    def test_one_schedule_with_windows(self, epsilon, delta):
        """T/b = K: a Gaussian mechanism whose residual is sampled."""
        result = solve("cyclic_ra", 4, epsilon=epsilon, delta=delta)
        strategy = cases.simulation("cyclic_ra", 12, 4).strategy
        assert close(result, math.sqrt(3) * strategy.column_norm / gaussian_mu(epsilon=epsilon, delta=delta))

    @every_target
    def test_certain_participation_without_a_fixed_number(self, epsilon, delta):
        """K·b = T makes min-sep Poisson's probability one; there is no factor to help, and most targets stay unresolved at this budget."""
        result = solve("min_sep_poisson", 4, epsilon=epsilon, delta=delta)
        strategy = cases.simulation("min_sep_poisson", 12, 4).strategy
        if result.resolved:
            assert close(result, math.sqrt(3) * strategy.column_norm / gaussian_mu(epsilon=epsilon, delta=delta))
        else:
            assert min(result.effective_samples.values()) < 50

    @every_target
    @pytest.mark.parametrize("name", ["random_allocation", "min_sep_ra"])
    def test_two_iterations_against_quadrature(self, name, epsilon, delta):
        result = solve(name, 1 if name == "random_allocation" else 2, epsilon=epsilon, delta=delta, iterations=2, participations=1)
        assert result.resolved
        assert close(result, exact_sigma(name, epsilon, delta))

    @pytest.mark.parametrize(("name", "epsilon", "delta"), [("min_sep_ra", 1.0, 1e-3), ("random_allocation", 4.0, 1e-5)])
    def test_standard_errors_are_calibrated(self, name, epsilon, delta):
        """The root mean square of 20 deviations in standard errors; of normal ones it is outside with probability 10⁻⁵."""
        expected, bandwidth = exact_sigma(name, epsilon, delta), 1 if name == "random_allocation" else 2
        results = [solve(name, bandwidth, epsilon=epsilon, delta=delta, iterations=2, participations=1, seed=seed) for seed in range(20)]
        deviations = np.array([(result.sigma - expected) / result.sigma_standard_error for result in results])
        assert 0.4 < math.sqrt(np.mean(deviations**2)) < 1.8
        assert np.abs(deviations).max() < tolerances.STANDARD_DEVIATIONS
        assert len({result.sigma for result in results}) == 20


class TestResult:
    @every_target
    @pytest.mark.parametrize("name", ["min_sep_ra", "nested_ra", "balls_in_bins"])
    def test_meets_the_target_in_both_directions_and_lies_between_the_gaussians(self, name, epsilon, delta):
        result = solve(name, 4, epsilon=epsilon, delta=delta)
        model = cases.simulation(name, 12, 4)
        assert set(result.deltas) == set(result.slopes) == set(result.effective_samples) == set(DIRECTIONS)
        assert result.deltas[result.direction] == max(result.deltas.values()) == pytest.approx(delta, rel=1e-6)
        assert all(slope < -1 for slope in result.slopes.values())
        assert result.resolved and result.sigma_standard_error < 0.01 * result.sigma
        unamplified = math.sqrt(3) * model.strategy.column_norm / gaussian_mu(epsilon=epsilon, delta=delta)
        assert lowest_sigma(model.scheme, model.strategy, epsilon=epsilon, delta=delta) <= result.sigma <= unamplified

    def test_is_a_function_of_its_arguments(self):
        one, same, other = (solve("min_sep_ra", 4, epsilon=1.0, delta=1e-3, seed=seed) for seed in (5, 5, 6))
        assert dataclasses.replace(one, seconds=0.0) == dataclasses.replace(same, seconds=0.0)
        assert one.sigma != other.sigma

    def test_sigma_falls_with_epsilon_and_delta(self):
        sigma = lambda epsilon, delta: solve("min_sep_ra", 4, epsilon=epsilon, delta=delta).sigma
        assert sigma(1.0, 1e-3) > sigma(1.2, 1e-3) > sigma(1.2, 2e-3)

    def test_sigma_is_proportional_to_the_coefficients(self):
        model = cases.simulation("min_sep_ra", 12, 4)
        scaled = ToeplitzStrategy(iterations=12, coefficients=tuple(8.0 * c for c in model.strategy.coefficients))
        twin = solve_sigma(model.scheme, scaled, epsilon=1.0, delta=1e-3, seed=0)
        assert twin.sigma == pytest.approx(8.0 * solve("min_sep_ra", 4, epsilon=1.0, delta=1e-3).sigma, rel=1e-9)

    def test_a_sweep_of_strategies_and_targets_compiles_nothing(self):
        solve("min_sep_ra", 4, epsilon=1.0, delta=1e-3)
        compiled = _draw._cache_size()
        scheme = make_scheme("min_sep_ra", iterations=12, participations=3, bandwidth=4)
        for r, epsilon in zip((-0.1, 0.0, 0.1, 0.3), (0.7, 1.0, 1.5, 2.0)):
            solve_sigma(scheme, harmonic(iterations=12, bandwidth=4, r=r), epsilon=epsilon, delta=1e-3, seed=1)
        assert _draw._cache_size() == compiled


class TestResolution:
    def test_a_remove_direction_that_sees_nothing_is_never_settled(self):
        """Certain participation at ε = 0.1 and δ = 1e-8: "remove" has δ itself, as "add" has, but its samples miss it and say 0."""
        result = solve("min_sep_poisson", 4, epsilon=0.1, delta=1e-8)
        assert result.effective_samples["remove"] < 50 and result.deltas["remove"] < 1e-10
        assert not result.resolved

    @pytest.mark.parametrize(
        ("remove", "add", "resolved"),
        [
            ((1.0, 60.0), (0.5, 60.0), True), ((1.0, 40.0), (0.5, 60.0), False), ((1.0, 60.0), (0.5, 40.0), False),
            ((1.0, 60.0), (0.001, 1.0), True), ((0.001, 1.0), (1.0, 60.0), False), ((0.5, 60.0), (1.0, 49.0), False),
        ],
        ids=["both", "remove binds unresolved", "add matters unresolved", "add negligible", "remove unseen", "add binds unresolved"],
    )
    def test_what_counts_as_resolved(self, monkeypatch, remove, add, resolved):
        """Given (δ at σ = 3.5 relative to the target, effective samples) by direction, with δ falling like σ⁻²⁰."""

        def estimates(_scheme, _strategy, *, sigmas, **_):
            powers = (np.asarray(sigmas) / 3.5) ** -20.0
            return {
                direction: DeltaEstimates(
                    delta=1e-3 * level * powers, standard_error=1e-5 * powers, effective_samples=np.full(4, effective)
                )
                for direction, (level, effective) in zip(DIRECTIONS, (remove, add))
            }

        monkeypatch.setattr(pilot, "estimate_deltas", estimates)
        result = solve("min_sep_ra", 4, epsilon=1.0, delta=1e-3)
        assert result.sigma == pytest.approx(3.5, rel=1e-9)
        assert result.direction == ("remove" if remove[0] > add[0] else "add")
        assert result.resolved == resolved
        assert result.sigma_standard_error == pytest.approx(3.5 * 0.01 / 20, rel=0.2)


class TestBadInput:
    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"epsilon": 0.0}, "epsilon=0.0"), ({"epsilon": -1.0}, "epsilon=-1.0"), ({"epsilon": math.nan}, "epsilon=nan"),
            ({"delta": 0.0}, "delta=0.0"), ({"delta": 1.0}, "delta=1.0"), ({"samples": 0}, "samples=0"), ({"seed": -1}, "seed=-1"),
        ],
    )
    def test_is_refused(self, changed, named):
        with pytest.raises(InputError, match=named):
            solve("min_sep_ra", 4, **({"epsilon": 1.0, "delta": 1e-3} | changed))

    def test_is_keyword_only(self):
        model = cases.simulation("min_sep_ra", 12, 4)
        with pytest.raises(TypeError):
            solve_sigma(model.scheme, model.strategy, 1.0, 1e-3)

    def test_a_target_that_any_noise_meets_has_no_sigma(self):
        """An example of this Poisson scheme takes part in nothing with probability 0.75¹² = 0.03, so neither δ ever reaches 0.98."""
        with pytest.raises(CalibrationError, match="delta=0.98"):
            solve("poisson", 1, epsilon=0.5, delta=0.98)


class TestAnchor:
    def test_min_sep_allocation_beats_nested_allocation(self):
        """T = 1024, K = 4, ε = 4, δ = 1e-5, b = 128: RMSE 0.88 and 0.97 with 1 % noise (math/batch-schemes.md, "Reference points")."""
        rmses = []
        for name, r in (("min_sep_ra", 0.02), ("nested_ra", 0.05)):
            scheme = make_scheme(name, iterations=1024, participations=4, bandwidth=128)
            strategy = harmonic(iterations=1024, bandwidth=128, r=r)
            result = solve_sigma(scheme, strategy, epsilon=4.0, delta=1e-5, samples=2048, seed=0)
            assert result.resolved and result.direction == "remove"
            rmses.append(strategy.rmse(sigma=result.sigma, participations=4))
        assert rmses[0] < 0.95 * rmses[1]
        assert rmses == pytest.approx([0.880, 0.966], rel=0.03)
