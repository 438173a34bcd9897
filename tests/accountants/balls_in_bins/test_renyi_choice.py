"""The Rényi accountant's choice: reports it, never above what it chose from, never below the truth."""

import numpy as np
import pytest

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.conversion import epsilon_from_moments
from accountants.balls_in_bins.renyi_add import shifted_gaussian_epsilon
from accountants.balls_in_bins.renyi_choice import largest_order, renyi_bounds
from search_spaces.errors import InputError
from tests.accountants.balls_in_bins.cases import REFERENCE, gram, label

NAMED = {label(case): case for case in REFERENCE["eps_delta"]}
BUDGET = 2e7


@pytest.mark.parametrize("name", ["identity1-50x1-1.0", "bsr2-50x1-2.0", "bsr4-20x4-16.0", "bisr4-20x4-8.0"])
def test_is_between_monte_carlo_and_the_published_choice(name):
    case = NAMED[name]
    remove, add = renyi_bounds(gram(case), sigma=case["sigma"], delta=case["delta"], budget=BUDGET)
    for found, direction in ((remove, "remove"), (add, "add")):
        assert found.value >= case[direction]["mc_eps"] - 4 * case[direction]["mc_eps_se"]
        assert found.value <= case["renyi_paper_grid"][f"eps_{direction}"] * (1 + 1e-9)
    assert {"truncation", "bandwidth", "stride", "conversion", "order", "alpha"} <= set(remove.details)


def test_is_at_most_the_bounds_it_chose_from():
    case = NAMED["bsr2-50x1-2.0"]
    matrix, sigma, delta = gram(case), case["sigma"], case["delta"]
    remove, add = renyi_bounds(matrix, sigma=sigma, delta=delta, budget=BUDGET)
    plain = epsilon_from_moments(truncations.exact(matrix).moments(sigma=sigma, order=20).upper_logs(), delta=delta)[0]
    assert remove.value <= plain * (1 + 1e-9) and add.value <= shifted_gaussian_epsilon(matrix, sigma=sigma, delta=delta)


def test_delta_and_epsilon_agree():
    matrix = gram({"kind": "bsr", "p": 2, "b": 10, "k": 2})
    for direction, bound in enumerate(renyi_bounds(matrix, sigma=2.0, delta=1e-4, budget=BUDGET)):
        at = renyi_bounds(matrix, sigma=2.0, epsilon=bound.value, budget=BUDGET)[direction]
        assert at.value == pytest.approx(1e-4, rel=1e-6)


def test_wide_bands_are_truncated():
    matrix = gram({"kind": "bisr", "p": 4, "b": 40, "k": 3})
    remove, _ = renyi_bounds(matrix, sigma=10.0, delta=1e-5, budget=1e6)
    assert remove.details["truncation"] in ("shifted", "thinned") and remove.details["bandwidth"] <= 4


@pytest.mark.parametrize("budget", [1e4, 1e6, 1e8])
def test_orders_stay_within_the_budget(budget):
    majorant = truncations.exact(gram({"kind": "bsr", "p": 3, "b": 30, "k": 2}))
    cost = lambda order: truncations.operations(bins=30, bandwidth=3, order=order, wraps=True)
    order = largest_order(majorant, budget=budget, at_most=64)
    assert order == 2 or cost(order) <= budget
    assert order == 64 or cost(order + 1) > budget


@pytest.mark.parametrize(("arguments", "message"), [({"sigma": -1.0}, "sigma=-1.0"), ({"budget": 0.0}, "budget=0.0")])
def test_refuses_with_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        renyi_bounds(np.eye(3), **{"sigma": 1.0, "delta": 1e-5} | arguments)
