"""Certified ρ: the vectors with their interior maxima, dense sampling, and what happens when the search is cut short."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from accountants.fixed_size import branch_and_bound, quantity
from accountants.fixed_size.one_step import OneStep
from tests.accountants.fixed_size import direct
from tests.tolerances import FIXED_SIZE_LOG_F, FIXED_SIZE_VECTOR


@pytest.mark.parametrize("row", direct.rows("fixed_size_rho_vectors.csv"), ids=lambda row: f"{row['alpha']}-{row['p']}-{row['sigma']}")
def test_vectors(row):
    gap = 1e-3 * float(row["rho_lower"])
    found = branch_and_bound.certify(
        order=int(row["alpha"]), rate=Fraction(row["p"]), squared_shift=4 / Fraction(row["sigma"]) ** 2, gap=gap
    )
    low, high = float(row["rho_lower"]), float(row["rho_upper"])
    # Two enclosures of one number must overlap, up to the 15 digits the file has.
    assert found.lower <= high * (1 + FIXED_SIZE_VECTOR) and low * (1 - FIXED_SIZE_VECTOR) <= found.upper
    assert found.upper - found.lower <= gap * (1 + 1e-9)
    assert found.maximiser == pytest.approx(float(row["u_star"]), abs=0.02)


def test_interior_maximum_is_not_missed():
    rate, squared_shift = Fraction(1, 10**5), 4 / Fraction("1.42") ** 2
    found = branch_and_bound.certify(order=11, rate=rate, squared_shift=squared_shift, gap=1e-11)
    ends = quantity.larger_end(11, float(rate), float(squared_shift))
    assert found.lower > 1.03 * ends and 0.25 < found.maximiser < 0.35


@settings(max_examples=12)
@given(
    order=st.integers(2, 30), rate=st.fractions(Fraction(1, 10**4), Fraction(99, 100), max_denominator=10**4),
    sigma=st.fractions(Fraction(1, 2), Fraction(6), max_denominator=32),
)
def test_is_above_dense_samples(order, rate, sigma):
    squared_shift = 4 / sigma**2
    found = branch_and_bound.certify(order=order, rate=rate, squared_shift=squared_shift, gap=1e-8)
    samples = [
        quantity.log_f(order, float(rate), float(squared_shift), s) / (order - 1) for s in np.linspace(0, float(squared_shift), 40)
    ]
    noise = FIXED_SIZE_LOG_F * max(1.0, max(samples))
    assert max(samples) - noise <= found.upper
    assert found.lower <= found.upper <= found.lower * (1 + 1e-15) + 1e-8 + 1e-15


def test_stays_a_bound_when_cut_short(monkeypatch):
    rate, squared_shift = Fraction(1, 10**4), 4 / Fraction("1.363") ** 2
    full = branch_and_bound.certify(order=8, rate=rate, squared_shift=squared_shift, gap=1e-12)
    monkeypatch.setattr(branch_and_bound, "NODE_LIMIT", 3)
    short = branch_and_bound.certify(order=8, rate=rate, squared_shift=squared_shift, gap=1.1e-12)
    assert short.nodes <= 3 < full.nodes
    assert short.lower <= full.lower <= full.upper <= short.upper
    assert short.upper - short.lower > 1e-10


def test_wide_enclosures_widen_the_result(monkeypatch):
    """With F known to 1 % only, both ends of the answer give way: the attained value uses lower bounds, the maximum upper ones."""
    problem = {"order": 4, "rate": Fraction(1, 20), "squared_shift": Fraction(2)}
    sharp = branch_and_bound.certify(**problem, gap=1e-9)
    narrow = OneStep.bounds
    monkeypatch.setattr(OneStep, "bounds", lambda step, s: tuple(v * f for v, f in zip(narrow(step, s), (arb(127) / 128, arb(129) / 128))))
    wide = branch_and_bound.certify(**problem, gap=1.01e-2)
    slack = math.log(129 / 128) / 3
    assert wide.lower <= sharp.lower - 0.9 * slack and wide.upper >= sharp.upper + 0.9 * slack


def test_small_sigma_needs_few_intervals():
    """Δ² = 10⁴: intervals too long for the curvature bounds are closed by the monotone bound."""
    found = branch_and_bound.certify(order=2, rate=Fraction(1, 100), squared_shift=Fraction(10**4), gap=1e-4)
    assert found.maximiser == 0 and found.nodes < 200
    assert found.upper == pytest.approx(quantity.collapsed(2, 0.01, 1e4), abs=1.1e-4)


def test_rate_one_is_closed_form():
    found = branch_and_bound.certify(order=5, rate=Fraction(1), squared_shift=Fraction(1, 3), gap=1e-9)
    assert found.lower <= 5 / 6 <= found.upper <= 5 / 6 * (1 + 1e-15)
