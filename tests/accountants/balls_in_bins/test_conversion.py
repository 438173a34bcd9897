"""Conversions: moments of a known law, the search for ε."""

import math

import numpy as np
import pytest
from accountants.balls_in_bins.conversion import Bound, best, delta_from_moments, epsilon_from_moments, interpolated, smallest_epsilon
from accountants.gaussian import gaussian_delta
from tests import tolerances


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_moments_of_a_gaussian_give_valid_and_consistent_bounds(mu):
    t = np.arange(60)
    logs = 0.5 * t * (t - 1) * mu**2
    for epsilon in (0.0, 0.5, 2.0, 5.0):
        delta, alpha = delta_from_moments(logs, epsilon=epsilon)
        assert gaussian_delta(epsilon=epsilon, mu=mu) * (1 - 1e-12) <= delta <= 1 and 1 < alpha <= 59
        if 0 < delta < 1 and epsilon > 0:
            assert epsilon_from_moments(logs, delta=delta)[0] == pytest.approx(epsilon, rel=tolerances.CLOSED_FORM)


def test_real_orders_lie_on_chords_and_skip_what_is_infinite():
    orders, logs = interpolated(np.array([0.0, 0.0, 1.0, 3.0, np.inf]))
    assert logs[orders == 1.5] == 0.5 and logs[orders == 2.25] == 1.5 and logs[orders == 3.0] == 3.0
    assert np.isinf(logs[orders > 3]).all()
    assert epsilon_from_moments(np.array([0.0, 0.0, np.inf]), delta=1e-5)[0] == math.inf


def test_smallest_epsilon_returns_only_what_it_has_seen_to_suffice():
    seen = {}

    def delta_at(epsilon):
        seen[epsilon] = math.exp(-3 * epsilon)
        return seen[epsilon]

    found = smallest_epsilon(delta_at, 1e-4)
    assert seen[found] <= 1e-4 and found == pytest.approx(math.log(1e4) / 3, rel=1e-8)
    assert smallest_epsilon(delta_at, 1.0) == 0.0
    assert smallest_epsilon(lambda epsilon: 0.5, 0.1, largest=10.0) == math.inf


def test_best_is_the_smallest():
    assert best(Bound(value=value, details={"at": value}) for value in (2.0, 1.0, 3.0)).details == {"at": 1.0}
