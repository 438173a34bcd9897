"""The Gaussian mechanism: δ_G against 400-bit arithmetic, its inverses, the accountant, and the Gaussian factor's lower bounds."""

import math

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.gaussian import (
    GaussianAccountant,
    gaussian_delta,
    gaussian_delta_bounds,
    gaussian_epsilon,
    gaussian_mu,
    lower_delta,
    lowest_sigma,
    rmse_lower_limit,
)
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic, identity
from tests import tolerances
from tests.accountants.quadrature import exact_deltas

finite_epsilons = st.floats(-50.0, 50.0)
means = st.floats(-6.0, 2.0).map(lambda exponent: 10.0**exponent)


def reference_delta(epsilon: float, mu: float) -> flint.arb:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) as a ball of 400 bits, far more than the 30 digits that cancel at most."""
    e, m = flint.arb(epsilon), flint.arb(mu)
    phi = lambda x: (-x / flint.arb(2).sqrt()).erfc() / 2
    return phi(m / 2 - e / m) - e.exp() * phi(-m / 2 - e / m)


@pytest.fixture(autouse=True)
def high_precision():
    previous, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = previous


@given(epsilon=finite_epsilons, mu=means)
def test_bounds_hold_despite_rounding(epsilon, mu):
    lower, upper = gaussian_delta_bounds(epsilon=epsilon, mu=mu)
    exact = reference_delta(epsilon, mu)
    # A ball is neither above nor below what it contains: near 1 the distance can be below 2⁻⁴⁰⁰.
    assert not exact < flint.arb(float(lower)) and not exact > flint.arb(float(upper))
    assert lower <= gaussian_delta(epsilon=epsilon, mu=mu) <= upper


@given(mu=st.floats(-3.0, 2.0).map(lambda exponent: 10.0**exponent), quantile=st.floats(-8.0, 36.8))
def test_delta_is_accurate_down_to_1e_300(mu, quantile):
    epsilon = mu * (mu / 2 + quantile)
    exact = float(reference_delta(epsilon, mu))
    assert gaussian_delta(epsilon=epsilon, mu=mu) == pytest.approx(exact, rel=tolerances.GAUSSIAN_DELTA, abs=1e-300)


def test_delta_is_vectorised_and_never_negative_or_above_one():
    epsilon = np.concatenate([[-math.inf, math.inf], np.linspace(-2000, 2000, 401)])
    mu = np.array([[1e-3], [0.5], [40.0]])
    deltas = gaussian_delta(epsilon=epsilon, mu=mu)
    assert deltas.shape == (3, 403)
    assert np.all((deltas >= 0) & (deltas <= 1))
    np.testing.assert_array_equal(deltas[:, 0], 1.0)
    np.testing.assert_array_equal(deltas[:, 1], 0.0)
    assert np.all(np.diff(deltas[:, 2:], axis=1) <= 0)
    assert deltas[1, 250] == gaussian_delta(epsilon=float(epsilon[250]), mu=0.5)


@given(delta=st.floats(-30.0, -0.01).map(lambda exponent: 10.0**exponent), mu=st.floats(-3.0, 1.5).map(lambda exponent: 10.0**exponent))
def test_epsilon_is_the_inverse_rounded_up(delta, mu):
    epsilon = gaussian_epsilon(delta=delta, mu=mu)
    assert not reference_delta(epsilon, mu) > flint.arb(delta)
    smaller = epsilon - 1e-9 * max(abs(epsilon), mu)
    assert float(reference_delta(smaller, mu)) >= delta * (1 - 1e-12)


@given(epsilon=st.floats(0.0, 100.0), delta=st.floats(-30.0, -0.01).map(lambda exponent: 10.0**exponent))
def test_mu_is_the_inverse_on_either_side(epsilon, delta):
    safe = gaussian_mu(epsilon=epsilon, delta=delta)
    unsafe = gaussian_mu(epsilon=epsilon, delta=delta, round_up=True)
    assert reference_delta(epsilon, safe) <= flint.arb(delta) <= reference_delta(epsilon, unsafe)
    # At ε = 0, δ is 0.4·μ and the two Φ agree to μ, so the roundings of 10⁻¹⁶ that the bounds allow for are 10⁻¹⁶/μ of it.
    assert unsafe == pytest.approx(safe, rel=tolerances.INVERSE + 1e-14 / safe)


def test_mu_at_the_published_point():
    assert gaussian_mu(epsilon=4, delta=1e-5) == pytest.approx(0.925, abs=5e-4)


@pytest.mark.parametrize(("epsilon", "limit"), [(1, 2.639), (2, 1.411), (4, 0.765), (8, 0.425)])
def test_rmse_limits_of_the_anchor(epsilon, limit):
    assert rmse_lower_limit(iterations=1024, epsilon=epsilon, delta=1e-5) == pytest.approx(limit, abs=6e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (1, 0.0), (1, 1.0), (1, math.nan)])
def test_mu_refuses_values_out_of_range(epsilon, delta):
    with pytest.raises(InputError, match="epsilon=|delta="):
        gaussian_mu(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(("iterations", "participations", "coefficients"), [(2, 2, (0.7,)), (2, 1, (0.8, 0.6)), (2, 1, (0.5,))])
def test_accountant_is_exact_without_amplification(iterations, participations, coefficients):
    strategy = ToeplitzStrategy(iterations=iterations, coefficients=coefficients)
    scheme = make_scheme("deterministic", iterations=iterations, participations=participations, bandwidth=len(coefficients))
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=0.9)
    for statement, exact in zip(GaussianAccountant().delta(mechanism, epsilon=1.2), exact_deltas(mechanism, epsilon=1.2)):
        assert statement.delta == pytest.approx(exact, rel=tolerances.QUADRATURE)
        assert statement.details["exact"] is True


def test_accountant_says_that_it_is_an_upper_bound_where_it_is():
    scheme = make_scheme("min_sep_poisson", iterations=10, participations=2, bandwidth=3)
    mechanism = Mechanism(scheme=scheme, strategy=harmonic(iterations=10, bandwidth=3, r=0.1), sigma=2.0)
    statement = GaussianAccountant().delta(mechanism, epsilon=1.0)[0]
    assert statement.details["exact"] is False
    # ⌈10/3⌉ participations fit, not the 2 that are expected.
    assert statement.details["sensitivity"] == pytest.approx(2.0)


def test_jointly_released_outputs_count_by_the_norm_of_their_factors():
    pair = ToeplitzStrategy(iterations=2, coefficients=(3.0, 4.0))
    mechanism = Mechanism(scheme=make_scheme("deterministic", iterations=2, participations=1, bandwidth=2), strategy=pair, sigma=2.0)
    delta = GaussianAccountant().delta(mechanism, epsilon=1.0)[0].delta
    assert delta == pytest.approx(gaussian_delta(epsilon=1.0, mu=math.hypot(3.0, 4.0) / 2.0), rel=tolerances.FOLLOWS)
    assert delta > gaussian_delta(epsilon=1.0, mu=4.0 / 2.0) * 1.01


def test_repeated_participations_add_in_squares():
    scheme = make_scheme("deterministic", iterations=12, participations=3, bandwidth=4)
    strategy = harmonic(iterations=12, bandwidth=4, r=0.2)
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=1.0)
    assert mechanism.sensitivity == pytest.approx(math.sqrt(3) * strategy.column_norm, rel=1e-12)


def test_closed_form_sigma_meets_the_target_and_is_the_smallest():
    scheme, strategy = make_scheme("min_sep_ra", iterations=12, participations=3, bandwidth=2), harmonic(iterations=12, bandwidth=2, r=0.0)
    sigma = GaussianAccountant().sigma(scheme, strategy, epsilon=2.0, delta=1e-6)
    at = lambda value: GaussianAccountant().delta(Mechanism(scheme=scheme, strategy=strategy, sigma=value), epsilon=2.0)[0].delta
    assert at(sigma) <= 1e-6 < at(sigma * (1 - 1e-10))


@pytest.mark.parametrize("name", ["deterministic", "balls_in_bins", "nested_ra", "min_sep_ra", "cyclic_ra"])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_gaussian_factor_is_below_the_exact_delta(name, epsilon):
    strategy = ToeplitzStrategy(iterations=2, coefficients=(0.9, 0.5))
    mechanism = Mechanism(scheme=make_scheme(name, iterations=2, participations=1, bandwidth=2), strategy=strategy, sigma=0.8)
    assert 0 < lower_delta(mechanism, epsilon=epsilon) <= min(exact_deltas(mechanism, epsilon=epsilon)) * (1 + tolerances.QUADRATURE)


def test_gaussian_factor_is_all_there_is_when_every_step_is_taken():
    # With K = T and C = I the mechanism is the Gaussian of mean √T/σ along 1.
    mechanism = Mechanism(
        scheme=make_scheme("random_allocation", iterations=4, participations=4, bandwidth=1), strategy=identity(iterations=4), sigma=2.0
    )
    assert mechanism.gaussian_factor == pytest.approx(1.0, rel=1e-12)
    assert lower_delta(mechanism, epsilon=1.0) == pytest.approx(GaussianAccountant().delta(mechanism, epsilon=1.0)[0].delta, rel=1e-9)


def test_lowest_sigma_is_where_the_lower_bound_meets_the_target():
    scheme, strategy = make_scheme("nested_ra", iterations=12, participations=3, bandwidth=2), harmonic(iterations=12, bandwidth=2, r=0.1)
    sigma = lowest_sigma(scheme, strategy, epsilon=1.0, delta=1e-4)
    assert lower_delta(Mechanism(scheme=scheme, strategy=strategy, sigma=sigma), epsilon=1.0) == pytest.approx(1e-4, rel=tolerances.INVERSE)
    limit = rmse_lower_limit(iterations=12, epsilon=1.0, delta=1e-4)
    assert strategy.rmse(sigma=sigma, participations=3) >= limit


def test_schemes_without_fixed_participations_have_no_factor():
    scheme, strategy = make_scheme("poisson", iterations=4, participations=2, bandwidth=1), identity(iterations=4)
    assert Mechanism(scheme=scheme, strategy=strategy, sigma=1.0).gaussian_factor == 0
    with pytest.raises(UnsupportedError, match="poisson has no Gaussian factor"):
        lowest_sigma(scheme, strategy, epsilon=1.0, delta=1e-4)
    with pytest.raises(UnsupportedError, match="exactly K participations"):
        lower_delta(Mechanism(scheme=scheme, strategy=strategy, sigma=1.0), epsilon=1.0)
