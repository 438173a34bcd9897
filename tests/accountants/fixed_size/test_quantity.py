"""F in float64: the vectors, plain quadrature in the plane, and the extremes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.fixed_size import quantity
from tests.accountants.fixed_size import direct
from tests.tolerances import FIXED_SIZE_LOG_F, FIXED_SIZE_VECTOR


@pytest.mark.parametrize("row", direct.rows("fixed_size_rho_vectors.csv"), ids=lambda row: f"{row['alpha']}-{row['p']}-{row['sigma']}")
def test_ends_match_the_vectors(row):
    order, rate, squared_shift = int(row["alpha"]), float(row["p"]), 4 / float(row["sigma"]) ** 2
    closed, quadrature = quantity.collapsed(order, rate, squared_shift), quantity.equilateral(order, rate, squared_shift)
    assert closed == pytest.approx(float(row["J_u0"]), rel=FIXED_SIZE_VECTOR)
    # The quadrature knows log F to 10⁻¹³ only, so a small J keeps fewer digits.
    assert quadrature == pytest.approx(float(row["J_uhalf"]), rel=FIXED_SIZE_VECTOR, abs=FIXED_SIZE_LOG_F / (order - 1))


@given(
    order=st.integers(2, 24), rate=st.floats(1e-4, 0.999), sigma=st.floats(0.8, 6.0), share=st.floats(0.0, 1.0),
)
def test_agrees_with_quadrature_in_the_plane(order, rate, sigma, share):
    squared_shift = 4 / sigma**2
    a, b = direct.pairwise_triple(squared_shift, share * squared_shift)
    expected = direct.log_f(order, rate, a, b)
    assert quantity.log_f(order, rate, squared_shift, share * squared_shift) == pytest.approx(expected, rel=1e-12, abs=FIXED_SIZE_LOG_F)


def test_is_smooth_in_s_at_zero():
    values = [quantity.log_f(12, 0.01, 1.0, s) for s in (0.0, 1e-9, 1e-6)]
    assert values[0] > values[1] > values[2] > values[0] - 1e-4


@pytest.mark.parametrize("order, rate, sigma", [(2, 1e-12, 50.0), (256, 0.9999, 0.5), (2, 0.5, 1e-3), (4000, 1e-3, 40.0), (2, 1e-7, 1e5)])
def test_extremes_are_finite_and_ordered(order, rate, sigma):
    squared_shift = 4 / sigma**2
    collapsed = quantity.collapsed(order, rate, squared_shift)
    assert 0 < collapsed <= order * squared_shift / 2 * (1 + 1e-12)
    assert collapsed <= quantity.larger_end(order, rate, squared_shift) < math.inf


def test_rate_one_is_the_gaussian_mechanism():
    assert quantity.larger_end(7, 1.0, 0.25) == pytest.approx(7 * 0.25 / 2)


def test_window_holds_every_bump():
    # Two bumps: one at 0 where the mixture is near one, one far right; a node count that misses either changes the sum.
    damped = quantity.log_weights(40, 1e-3, 4.0) - np.arange(41.0) ** 2 / 2
    integrand = quantity.Integrand(log_coefficients=damped, slope=1.0, beta=2.0, exponent=39, shift=0.0, rate=1e-3)
    low, high = integrand.window()
    v = np.linspace(-110.0, 60.0, 200_001)
    logs = integrand.log(v)
    kept = v[logs > logs.max() - 40]
    assert low <= kept[0] and kept[-1] <= high
    assert integrand.log_integral() == pytest.approx(float(np.logaddexp.reduce(logs)) + math.log(v[1] - v[0]), abs=1e-10)
