"""The theorem of realisable_triples.md: every inequality of its proof on random instances, and the theorem itself by quadrature."""

from fractions import Fraction

import numpy as np
import dp_accounting
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from accountants.fixed_size import branch_and_bound, quantity, triples
from tests.accountants.fixed_size import direct
from tests.tolerances import FIXED_SIZE_LOG_F

_V = np.linspace(-16.0, 16.0, 3201)
_WEIGHT = np.exp(-0.5 * _V**2) / np.exp(-0.5 * _V**2).sum()


def test_no_random_triple_exceeds_the_closed_form():
    rng = np.random.default_rng(5)
    for x0, x1, x2 in direct.in_disc(rng, 40, 1.0):
        order, rate, shift = int(rng.integers(2, 9)), float(rng.uniform(0.001, 0.999)), float(rng.uniform(0.3, 2.5))
        value = direct.log_f(order, rate, shift * (x1 - x0), shift * (x2 - x0), nodes=400)
        bound = (order - 1) * quantity.collapsed(order, rate, shift**2)
        assert value <= bound + 1e-11 * max(1.0, bound)


def test_real_orders_are_covered_as_well():
    rng = np.random.default_rng(6)
    for x0, x1, x2 in direct.in_disc(rng, 15, 1.0, on_circle=0.9):
        order, rate, shift = float(rng.uniform(2, 5)), float(rng.uniform(0.01, 0.9)), float(rng.uniform(0.5, 2.5))
        value = direct.log_f(order, rate, shift * (x1 - x0), shift * (x2 - x0), nodes=400)
        best = direct.log_f(order, rate, np.array([shift, 0.0]), np.zeros(2), nodes=400)
        assert value <= best + 1e-11 * max(1.0, best)


def test_the_larger_shift_comes_first():
    """Lemma B."""
    rng = np.random.default_rng(7)
    for _ in range(15):
        a, b = sorted(rng.normal(size=(2, 2)), key=np.linalg.norm, reverse=True)
        order, rate = float(rng.uniform(1.1, 6)), float(rng.uniform(0.01, 0.99))
        assert direct.log_f(order, rate, a, b, nodes=300) >= direct.log_f(order, rate, b, a, nodes=300) - FIXED_SIZE_LOG_F


def _second_moments(rate, x, y, z):
    """E_h of v², vw and w² at α = 2 and at α = 1, each over one Gaussian variable (conditioning A on B)."""
    b = np.sqrt(y) * _V - y / 2
    q, mean = 1 - rate, lambda terms: np.sum(_WEIGHT * terms)
    second, ratio = np.exp(b), lambda shift: q + rate * np.exp(b + shift)
    at = lambda coefficient, shift, power: coefficient * mean(ratio(shift) ** -power)
    two = (
        at(np.exp(x), 2 * z, 1),
        at(q * np.exp(z), y + z, 2) + at(rate * np.exp(x + 2 * z), y + 2 * z, 2),
        at(q**2 * np.exp(y), 2 * y, 3) + 2 * at(rate * q * np.exp(y + 2 * z), 2 * y + z, 3)
        + at(rate**2 * np.exp(x + y + 4 * z), 2 * y + 2 * z, 3),
    )
    own = rate * second / (q + rate * second)
    one_vw = rate**2 * at(np.exp(z), y + z, 1)
    one_w = mean(own**2 * (q + rate * np.exp(z / y * np.sqrt(y) * _V - z**2 / (2 * y))))
    return [rate**2 * value for value in two], one_vw, one_w


def _acute(rng):
    while True:
        angles = np.pi * rng.dirichlet([0.7, 0.7, 0.7])
        if angles.max() <= np.pi / 2:
            return angles[0], *sorted(angles[1:])


def test_moving_the_displaced_example_along_its_arc():
    """The Proposition at α = 2, in the form it is proved and in the form of the derivative along the arc."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        rate = float(rng.choice([10 ** rng.uniform(-5, 0), rng.uniform(0, 1), 1 - 10 ** rng.uniform(-4, -0.5)]))
        squared_shift = 10 ** rng.uniform(-2, 1.2)
        zero, one, two = _acute(rng)
        x, y = squared_shift * np.sin(two) ** 2, squared_shift * np.sin(one) ** 2
        z = squared_shift * np.sin(one) * np.sin(two) * np.cos(zero)
        assert x >= y >= z >= 0
        assert x + y - 2 * z == pytest.approx(squared_shift * np.sin(zero) ** 2)
        assert np.sin(2 * two) * y * (x - z) == pytest.approx(np.sin(2 * one) * x * (y - z), abs=1e-12 * squared_shift**2)
        (vv, vw, ww), _, _ = _second_moments(rate, x, y, z)
        gain, loss = x * (y - z) * (vv - vw), y * (x - z) * (ww - vw)
        assert gain >= loss - 1e-12 * (x * (y - z) * vv + y * (x - z) * ww)


def test_along_right_triangles_the_first_order_term_vanishes():
    """Section 4: E_h[w(v−w)] = 0 at α = 1 where z = y."""
    rng = np.random.default_rng(9)
    for _ in range(50):
        rate, y = float(rng.uniform(0.001, 0.999)), 10 ** rng.uniform(-2, 1)
        _, vw, ww = _second_moments(rate, y + rng.uniform(0, 5), y, y)
        assert ww == pytest.approx(vw, rel=1e-10)


@pytest.mark.parametrize("sigma, batch", [(2.0, 1), (1.0, 40), (8.0, 4)])
def test_is_poisson_sampling_at_half_the_noise(sigma, batch):
    """The extremal pair is the remove pair of Poisson sampling with noise multiplier σ/2, which a library computes on its own."""
    orders = [2, 3, 8, 40]
    accountant = rdp_privacy_accountant.RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(batch / 400, dp_accounting.GaussianDpEvent(sigma / 2)))
    for order, expected in zip(orders, accountant.rdp):
        found = triples.certify(order=order, rate=Fraction(batch, 400), squared_shift=4 / Fraction(sigma) ** 2)
        assert found.upper == pytest.approx(expected, rel=1e-9)
        assert found.lower <= found.upper <= found.lower * (1 + 1e-14)


def test_is_never_above_the_pairwise_geometry():
    for order, rate, sigma in ((2, "0.04", 3), (12, "0.0025", 2), (60, "0.01", 6), (11, "0.00001", "1.42"), (5, "1", 2)):
        problem = {"order": order, "rate": Fraction(rate), "squared_shift": 4 / Fraction(sigma) ** 2}
        assert triples.certify(**problem).upper <= branch_and_bound.certify(**problem, gap=1e-12).upper * (1 + 1e-14)
