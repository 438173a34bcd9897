"""Conversion to (ε, δ), and the choice of the order."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.fixed_size import conversion, quantity


@given(
    iterations=st.sampled_from([1, 100, 10**4, 10**6]), delta=st.sampled_from([1e-3, 1e-6, 1e-12]),
    rate=st.sampled_from([1e-4, 0.01, 0.3]), sigma=st.floats(0.8, 10.0),
)
def test_bisection_finds_the_best_order(iterations, delta, rate, sigma):
    squared_shift = 4 / sigma**2
    cost = lambda m: conversion.epsilon_at(m, quantity.collapsed(m, rate, squared_shift), iterations=iterations, delta=delta)
    choice = conversion.best_order(cost)
    assert cost(choice.order) <= min(cost(m) for m in range(2, conversion.DEFAULT_CAP + 1)) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("best", [2, 3, 255, 256, 257, 1000, 5000])
def test_cap_is_widened_and_said(best):
    choice = conversion.best_order(lambda m: abs(m - best))
    assert choice.order == best and not choice.at_cap
    assert (choice.cap > conversion.DEFAULT_CAP) == (best >= conversion.DEFAULT_CAP) == ("order_note" in choice.describe())


def test_the_largest_cap_is_said():
    choice = conversion.best_order(lambda m: -m)
    assert choice.at_cap and choice.order == conversion.LARGEST_CAP
    assert "might improve" in choice.describe()["order_note"]


@given(order=st.integers(2, 300), rho=st.floats(1e-9, 2.0), iterations=st.integers(1, 10**5), delta=st.floats(1e-12, 0.5))
def test_bounds_are_above_the_float_value_and_invert_each_other(order, rho, iterations, delta):
    value = conversion.epsilon_at(order, rho, iterations=iterations, delta=delta)
    bound = conversion.epsilon_bound(order, rho, iterations=iterations, delta=delta)
    assert bound >= max(0.0, value - 1e-12 * abs(value)) and bound <= max(0.0, value) * (1 + 1e-12) + 1e-12
    if value > 0:
        # δ(ε(δ)) = δ, with ε rounded up by one unit, which (α−1) magnifies.
        back = conversion.delta_bound(order, rho, iterations=iterations, epsilon=bound)
        assert delta * (1 - 1e-11 * order * max(1.0, value)) <= back <= delta * (1 + 1e-12)
        log_back = conversion.log_delta_at(order, rho, iterations=iterations, epsilon=value)
        assert log_back == pytest.approx(math.log(delta), abs=1e-11 * order * max(1.0, value))


def test_delta_never_exceeds_one():
    assert conversion.delta_bound(5, 10.0, iterations=10, epsilon=0.1) == 1.0


def test_conversion_is_valid_for_the_gaussian_mechanism():
    """The true δ of a Gaussian mechanism is below what its Rényi curve αμ²/2 gives at every order."""
    mu, epsilon = 0.8, 2.0
    cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    true = cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
    converted = [conversion.delta_bound(m, m * mu**2 / 2, iterations=1, epsilon=epsilon) for m in range(2, 30)]
    assert true <= min(converted) < 4 * true
