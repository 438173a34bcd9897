"""The accountant `pld`: against the two libraries' distributions, its reductions, its floor, and what it refuses to compute."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from accountants import pld
from accountants.gaussian import GaussianAccountant, gaussian_delta
from accountants.pld import PldAccountant, Reduction, loss_distributions
from search_spaces.errors import UnresolvedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic, identity
from tests import tolerances

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)
    import PLD_accounting as allocation

ANCHOR = {"iterations": 1024, "participations": 4}


def mechanism(name: str, *, iterations: int, participations: int, bandwidth: int = 1, sigma: float = 1.0) -> Mechanism:
    scheme = make_scheme(name, iterations=iterations, participations=participations, bandwidth=bandwidth)
    strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=0.1) if bandwidth > 1 else identity(iterations=iterations)
    return Mechanism(scheme=scheme, strategy=strategy, sigma=sigma)


def deltas(built: Mechanism, epsilon: float) -> list[float]:
    return [statement.delta for statement in PldAccountant().delta(built, epsilon=epsilon)]


@pytest.mark.parametrize(
    ("iterations", "participations", "sigma"), [(1, 1, 1.0), (8, 4, 1.9), (32, 4, 1.16), (32, 4, 0.3), (256, 4, 0.7), (5, 5, 2.0)]
)
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_poisson_is_between_the_librarys_two_estimates(iterations, participations, sigma, epsilon):
    built = mechanism("poisson", iterations=iterations, participations=participations, sigma=sigma)
    if pld.Reduction.of(built).detected_delta(epsilon) >= 0.9:
        pytest.skip("answered by the mixture")
    arguments = {"standard_deviation": sigma, "sampling_prob": participations / iterations, "value_discretization_interval": 1e-3}
    low = privacy_loss_distribution.from_gaussian_mechanism(pessimistic_estimate=False, **arguments).self_compose(iterations)
    high = privacy_loss_distribution.from_gaussian_mechanism(pessimistic_estimate=True, **arguments).self_compose(iterations)
    remove, add = deltas(built, epsilon)
    assert max(remove, add) >= low.get_delta_for_epsilon(epsilon) - 1e-12
    assert max(remove, add) <= high.get_delta_for_epsilon(epsilon) * (1 + 2 * tolerances.GRID_SPREAD) + 1e-11


@pytest.mark.parametrize(("iterations", "participations", "sigma"), [(8, 4, 1.8), (10, 3, 1.5), (12, 1, 0.9), (7, 2, 1.2)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_allocation_is_between_the_librarys_two_bounds(iterations, participations, sigma, direction):
    built = mechanism("random_allocation", iterations=iterations, participations=participations, sigma=sigma)
    parameters = allocation.PrivacyParams(sigma=sigma, num_steps=iterations, num_selected=participations)
    config = allocation.AllocationSchemeConfig(loss_discretization=0.05, tail_truncation=1e-12)
    low, high = [
        allocation.gaussian_allocation_directional_pld(
            params=parameters, config=config, direction=allocation.Direction(direction), bound_type=bound_type
        )
        for bound_type in (allocation.BoundType.IS_DOMINATED, allocation.BoundType.DOMINATES)
    ]
    excess = lambda law, epsilon: law.p_max + law.prob_arr @ np.maximum(-np.expm1(epsilon - law.x_array), 0.0)
    for epsilon in (0.0, 1.0, 2.5):
        delta = deltas(built, epsilon)[("remove", "add").index(direction)]
        assert excess(low, epsilon) <= delta <= excess(high, epsilon) * (1 + tolerances.GRID_SPREAD)


@pytest.mark.parametrize(("cyclic", "plain"), [("cyclic_poisson", "poisson"), ("cyclic_ra", "random_allocation")])
def test_cyclic_schemes_are_dp_sgd_over_the_eligible_steps(cyclic, plain):
    banded = mechanism(cyclic, iterations=48, participations=3, bandwidth=4, sigma=1.1)
    reduced = mechanism(plain, iterations=12, participations=3, sigma=1.1)
    np.testing.assert_allclose(deltas(banded, 1.0), deltas(reduced, 1.0), rtol=tolerances.FOLLOWS)


def test_a_narrower_strategy_than_the_scheme_allows_is_accounted_by_the_scheme():
    scheme = make_scheme("cyclic_ra", iterations=48, participations=3, bandwidth=4)
    narrow = Mechanism(scheme=scheme, strategy=harmonic(iterations=48, bandwidth=2, r=0.1), sigma=1.1)
    assert Reduction.of(narrow).steps == 12


def test_nested_is_bounded_by_cyclic_and_says_so():
    nested = mechanism("nested_ra", iterations=48, participations=3, bandwidth=4)
    cyclic = mechanism("cyclic_ra", iterations=48, participations=3, bandwidth=4)
    statements = PldAccountant().delta(nested, epsilon=1.0)
    assert [statement.delta for statement in statements] == deltas(cyclic, 1.0)
    assert all("cyclic_ra" in statement.details["reduction"] for statement in statements)
    assert "reduction" not in PldAccountant().delta(cyclic, epsilon=1.0)[0].details


def test_a_changed_participation_rate_is_accounted():
    built = mechanism("cyclic_poisson", iterations=48, participations=3, bandwidth=4)
    doubled = dataclasses.replace(built, scheme=dataclasses.replace(built.scheme, rate_factor=2.0))
    more = mechanism("cyclic_poisson", iterations=48, participations=6, bandwidth=4)
    assert deltas(doubled, 1.0) == deltas(more, 1.0)
    assert deltas(doubled, 1.0)[0] > 1.5 * deltas(built, 1.0)[0]


def test_every_step_taken_is_the_gaussian_mechanism():
    for name in ("poisson", "random_allocation"):
        for delta in deltas(mechanism(name, iterations=4, participations=4, sigma=2.0), 1.0):
            exact = gaussian_delta(epsilon=1.0, mu=1.0)
            assert exact <= delta <= exact * (1 + tolerances.FOLLOWS)


def test_the_norm_of_the_coefficients_counts_and_not_the_largest():
    joint = ToeplitzStrategy(iterations=8, coefficients=(3.0, 4.0))
    scheme = make_scheme("cyclic_ra", iterations=8, participations=2, bandwidth=2)
    single = mechanism("random_allocation", iterations=4, participations=2, sigma=0.4)
    np.testing.assert_allclose(
        deltas(Mechanism(scheme=scheme, strategy=joint, sigma=2.0), 1.0), deltas(single, 1.0), rtol=tolerances.FOLLOWS
    )


@pytest.mark.parametrize(("name", "bandwidth", "sigma", "rmse"), [("cyclic_poisson", 32, 1.162, 1.443), ("cyclic_ra", 32, 1.0382, 1.2893)])
def test_anchor(name, bandwidth, sigma, rmse):
    built = mechanism(name, **ANCHOR, bandwidth=bandwidth, sigma=sigma)
    epsilon = max(statement.epsilon for statement in PldAccountant().epsilon(built, delta=1e-5))
    assert epsilon == pytest.approx(4.0, rel=tolerances.ANCHOR_SIGMA)
    best = min(harmonic(iterations=1024, bandwidth=bandwidth, r=r).rmse(sigma=sigma, participations=4) for r in np.linspace(0.0, 0.499, 50))
    assert best == pytest.approx(rmse, rel=tolerances.ANCHOR_SIGMA)


@pytest.mark.parametrize("name", ["poisson", "random_allocation"])
def test_epsilon_has_no_jumps_and_says_where_it_is_not_resolved(name):
    built = mechanism(name, iterations=64, participations=4, sigma=0.9)
    epsilons, unresolved = [], []
    for delta in np.logspace(-18, -3, 151):
        try:
            epsilons.append(max(statement.epsilon for statement in PldAccountant().epsilon(built, delta=float(delta))))
        except UnresolvedError as error:
            assert "delta_floor=" in str(error)
            unresolved.append(delta)
    assert unresolved and max(unresolved) < 1e-10, "the floor is reached, and far below any δ of practice"
    assert len(epsilons) + len(unresolved) == 151 and np.all(np.diff(epsilons) <= 0)
    assert np.max(-np.diff(epsilons) / epsilons[1:]) < 0.05


def test_delta_below_the_floor_is_still_an_upper_bound():
    built = mechanism("poisson", iterations=64, participations=4, sigma=3.0)
    statement = PldAccountant().delta(built, epsilon=8.0)[0]
    assert 0 < statement.delta <= statement.details["delta_floor"]
    assert statement.delta <= GaussianAccountant().delta(built, epsilon=8.0)[0].delta * (1 + tolerances.FOLLOWS)


def refuse(*_arguments: object) -> None:
    raise AssertionError("a privacy loss distribution was built")


@pytest.mark.parametrize("name", ["poisson", "random_allocation", "cyclic_poisson", "cyclic_ra", "nested_ra"])
def test_hopelessly_little_noise_is_answered_without_a_distribution(name, monkeypatch):
    monkeypatch.setattr(pld, "loss_distributions", refuse)
    built = mechanism(name, **ANCHOR, bandwidth=32 if "_" in name and name != "random_allocation" else 1, sigma=0.03)
    for statement in PldAccountant().delta(built, epsilon=4.0):
        assert statement.delta > 0.9 and "noise" in statement.details["reason"]
    for statement in PldAccountant().epsilon(built, delta=1e-5):
        assert 1e3 < statement.epsilon < math.inf


@pytest.mark.parametrize("poisson", [True, False])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_detection_is_below_and_the_mixture_above_the_distribution(poisson, mu, epsilon):
    reduction = Reduction(steps=16, mu=mu, probability=0.25, participations=None if poisson else 4)
    remove, add = loss_distributions(reduction)
    assert reduction.detected_delta(epsilon) <= remove.delta(epsilon)
    assert max(remove.delta(epsilon), add.delta(epsilon)) <= reduction.mixture_delta(epsilon) + remove.rounding + add.rounding


@pytest.mark.parametrize("poisson", [True, False])
def test_the_mixtures_epsilon_is_its_inverse(poisson):
    reduction = Reduction(steps=16, mu=5.0, probability=0.25, participations=None if poisson else 4)
    epsilon = reduction.mixture_epsilon(1e-5)
    assert reduction.mixture_delta(epsilon) <= 1e-5 < reduction.mixture_delta(epsilon * (1 - tolerances.FOLLOWS))
    assert reduction.mixture_epsilon(reduction.mixture_delta(0.0)) == 0.0


def test_strategies_of_one_norm_share_a_distribution():
    pld._cached_distributions.cache_clear()
    for r in np.linspace(-0.02, 0.4, 15):
        scheme = make_scheme("cyclic_ra", **ANCHOR, bandwidth=32)
        PldAccountant().delta(Mechanism(scheme=scheme, strategy=harmonic(iterations=1024, bandwidth=32, r=r), sigma=1.05), epsilon=4.0)
    assert pld._cached_distributions.cache_info().misses <= 2
    assert pld._cached_distributions.cache_info().maxsize is not None


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 24.9, 1e4])
def test_extreme_noise_has_an_answer(mu):
    for name in ("poisson", "random_allocation"):
        built = mechanism(name, iterations=16, participations=4, sigma=1 / mu)
        assert all(0 < delta <= 1 for delta in deltas(built, 0.5))
        assert all(math.isfinite(statement.epsilon) for statement in PldAccountant().epsilon(built, delta=1e-5))
