"""The certified maximum against 2000-bit arithmetic and the closed form."""

import math

import flint
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from accountants.gaussian import gaussian_delta
from accountants.tilted.peak import log_delta_bounds, log_peak
from search_spaces.errors import InputError
from tests import tolerances

EPSILONS = (-3.0, 0.0, 0.1, 1.0, 4.0, 20.0)
XIS = (1e-3, 0.01, 0.1, 0.5, 0.86, 2.0, 10.0)
RATES = (0.05, 0.3, 1.0, 2.0, 5.0, 20.0)


def exact_log_delta(epsilon: float, xi: float) -> float:
    """log δ_G by flint, with the digits that cancellation takes."""
    precision, flint.ctx.prec = flint.ctx.prec, 2000
    try:
        e, mu = flint.arb(epsilon), flint.arb(xi)
        phi = lambda x: (-x / flint.arb(2).sqrt()).erfc() / 2
        return float((phi(mu / 2 - e / mu) - e.exp() * phi(-mu / 2 - e / mu)).log())
    finally:
        flint.ctx.prec = precision


# 2000 bits resolve δ_G down to about e^−1000.
RESOLVED = [
    (epsilon, xi) for epsilon in (-20.0, -1.0, -1e-9, 0.0, 0.3, 4.0, 30.0, 300.0) for xi in XIS
    if (epsilon / xi - xi / 2) ** 2 / 2 + epsilon < 1000
]


@pytest.mark.parametrize(("epsilon", "xi"), RESOLVED)
def test_bounds_enclose_log_delta(epsilon, xi):
    low, high = log_delta_bounds(np.array([epsilon]), xi)
    exact = exact_log_delta(epsilon, xi)
    assert low[0] <= exact <= high[0]
    assert high[0] - low[0] < 1e-6 * max(1.0, abs(exact))


@pytest.mark.parametrize("xi", XIS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_peak_is_never_passed_and_nearly_reached(epsilon, xi):
    for rate in RATES:
        peak = log_peak(epsilon=epsilon, xi=xi, rate=rate)
        center = epsilon - (rate + 0.5) * xi**2, epsilon + math.log1p(1 / rate) + xi + 1
        points = np.linspace(center[0] - 1, center[1], 4001)
        values = log_delta_bounds(epsilon - points, xi)[0] - rate * points
        best = int(np.argmax(values))
        assert values.max() <= peak
        around = points[best] + (points[1] - points[0]) * np.linspace(-1, 1, 9)
        exact = [exact_log_delta(epsilon - point, xi) - rate * point for point in around if (epsilon - point) / xi < 40]
        if exact:
            assert max(exact) <= peak
        fine = points[best] + (points[1] - points[0]) * np.linspace(-1, 1, 2001)
        reached = (log_delta_bounds(epsilon - fine, xi)[0] - rate * fine).max()
        assert peak - reached < tolerances.PEAK


@hypothesis.given(
    epsilon=st.floats(-5, 20), xi=st.floats(0.05, 5), rate=st.floats(0.05, 10),
    first=st.floats(-30, 30), second=st.floats(-30, 30), part=st.floats(0.0, 1.0),
)
def test_the_objective_is_concave_and_below_the_peak(epsilon, xi, rate, first, second, part):
    points = epsilon + np.array([first, part * first + (1 - part) * second, second])
    low, high = log_delta_bounds(epsilon - points, xi)
    chord = part * low[0] + (1 - part) * low[2]
    assert high[1] >= chord - 1e-9 * (1 + abs(chord))
    assert np.all(low - rate * points <= log_peak(epsilon=epsilon, xi=xi, rate=rate))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_without_a_factor_it_is_the_renyi_conversion(epsilon, rate):
    alpha = 1 + rate
    closed = -rate * epsilon - math.log(rate) + alpha * math.log1p(-1 / alpha)
    assert log_peak(epsilon=epsilon, xi=0.0, rate=rate) == pytest.approx(closed, abs=1e-11 * (1 + abs(closed)))
    assert log_peak(epsilon=epsilon, xi=1e-9, rate=rate) == pytest.approx(closed, abs=1e-3 * (1 + rate))


def test_grows_with_the_factor_and_falls_with_epsilon():
    peaks = [log_peak(epsilon=1.0, xi=xi, rate=2.0) for xi in (0.0, 1e-4, 0.1, 0.5, 1.0, 3.0)]
    assert peaks == sorted(peaks)
    peaks = [log_peak(epsilon=epsilon, xi=0.8, rate=2.0) for epsilon in (-1.0, 0.0, 1.0, 4.0)]
    assert peaks == sorted(peaks, reverse=True)


def test_is_above_every_value_of_the_plain_formula():
    points = np.linspace(-40, 40, 200_001)
    values = gaussian_delta(epsilon=4.0 - points, mu=0.86) * np.exp(-points)
    assert values.max() <= math.exp(log_peak(epsilon=4.0, xi=0.86, rate=1.0)) <= values.max() * (1 + 1e-6)


@pytest.mark.parametrize(("xi", "rate", "name"), [(-1.0, 1.0, "xi"), (math.nan, 1.0, "xi"), (1.0, 0.0, "rate"), (1.0, math.inf, "rate")])
def test_refuses_bad_arguments(xi, rate, name):
    with pytest.raises(InputError, match=f"{name}="):
        log_peak(epsilon=1.0, xi=xi, rate=rate)
