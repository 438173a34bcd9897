"""The older bounds: their moments, their place above the certified bound, and where they end."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountants.fixed_size import branch_and_bound, rivals
from accountants.fixed_size.mechanism import FixedSizeMechanism
from search_spaces.errors import UnsupportedError
from tests.tolerances import FIXED_SIZE_VECTOR


@pytest.mark.parametrize("lam", [4.0, 0.25, 1e-4])
def test_moments_against_quadrature(lam):
    z = np.linspace(-12, 40, 520_001)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    log_moments = rivals._log_moments(lam)
    for k in (2, 3, 4, 7):
        expected = np.trapezoid(np.expm1(np.sqrt(lam) * z - lam / 2) ** k * density, z)
        assert np.exp(log_moments[k]) == pytest.approx(expected, rel=1e-8)
    assert log_moments[2] == pytest.approx(np.log(np.expm1(lam)), abs=1e-12)


@settings(max_examples=12)
@given(
    order=st.integers(2, 60), rate=st.fractions(Fraction(1, 10**4), Fraction(1, 2), max_denominator=10**4),
    sigma=st.fractions(Fraction(1, 2), Fraction(8), max_denominator=16),
)
def test_both_are_above_the_certified_bound(order, rate, sigma):
    """A published bound below the attained one-step divergence would be transcribed wrongly."""
    squared_shift = 4 / sigma**2
    attained = branch_and_bound.certify(order=order, rate=rate, squared_shift=squared_shift, gap=1e-6).lower
    floats = float(rate), float(squared_shift)
    assert rivals.wang_curve(*floats)[order] >= attained * (1 - FIXED_SIZE_VECTOR)
    for taylor_order in (3, 4, 5):
        assert rivals.birrell_curve(*floats, taylor_order)[order] >= attained * (1 - FIXED_SIZE_VECTOR)


def test_leading_terms_for_small_rates():
    """ρ_W ≈ 2α(e^λ−1)p² below its other branch and ρ_B ≈ α(e^λ−e^{λ/2})p² as p → 0."""
    rate, lam, order = 1e-7, 0.25, 6
    assert rivals.birrell_curve(rate, lam, 4)[order] == pytest.approx(order * (np.exp(lam) - np.exp(lam / 2)) * rate**2, rel=1e-4)
    assert rivals.wang_curve(rate, lam)[order] == pytest.approx(2 * order * np.expm1(lam) * rate**2, rel=1e-4)


def test_full_batches():
    full = FixedSizeMechanism(dataset_size=5, batch_size=5, iterations=3, sigma=2.0)
    assert rivals.wang_epsilon(full, delta=1e-5).value > 0
    with pytest.raises(UnsupportedError, match="batch_size < dataset_size for birrell"):
        rivals.birrell_epsilon(full, delta=1e-5)
