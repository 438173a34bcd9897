"""Enclosures hold: the integral against an independent rigorous one, F'' above its bounds, F below every interval bound."""

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountants.fixed_size import balls, quantity
from accountants.fixed_size.one_step import OneStep, chord_bound, sturm_bound

_BITS = 128

INSTANCES = dict(
    order=st.integers(2, 40),
    rate=st.fractions(Fraction(1, 10**5), Fraction(999, 1000), max_denominator=10**5),
    sigma=st.fractions(Fraction(1, 2), Fraction(8), max_denominator=64),
)


def one_step(order: int, rate: Fraction, sigma: Fraction) -> OneStep:
    return OneStep(order=order, rate=rate, squared_shift=4 / sigma**2, relative_error=1e-18)


def rigorous(order: int, rate: Fraction, squared_shift: Fraction, s: Fraction) -> flint.acb:
    """F(s) from form (B) by adaptive rigorous integration: another formula and another quadrature than the package's."""
    beta = balls.exact(s).sqrt()
    p = balls.exact(rate)
    weights = OneStep(order=order, rate=rate, squared_shift=squared_shift, relative_error=1e-18).weights
    total = flint.acb(0)
    for k, weight in enumerate(weights):
        mean = balls.exact((k - 1) * s / 2)

        def integrand(v, _, mean=mean):
            return (1 - p + p * (beta * v + mean).exp()) ** (1 - order) * (-v * v / 2).exp() / (2 * flint.arb.pi()).sqrt()

        # g is at most (1−p)^{1−α}, so with φ there is nothing beyond 40 at these sizes.
        tolerances = {"rel_tol": flint.arb(2) ** -70, "abs_tol": flint.arb(2) ** -200}
        total += weight * flint.acb.integral(integrand, flint.acb(-40), flint.acb(40), **tolerances)
    return total


@pytest.mark.parametrize(
    "order, rate, sigma, share",
    [(2, "1/5", 2, "1"), (5, "1/100", 1, "1/2"), (9, "1/2", 3, "1/3"), (16, "1/400", 2, "1"), (6, "9/10", 2, "3/4")],
)
def test_contains_an_independent_rigorous_value(order, rate, sigma, share):
    with balls.precision(_BITS):
        step = one_step(order, Fraction(rate), Fraction(sigma))
        s = Fraction(share) * step.squared_shift
        lower, upper = step.bounds(s)
        other = rigorous(order, step.rate, step.squared_shift, s).real
        assert lower.union(upper).overlaps(other)
        assert (upper / lower - 1) < 1e-17
        assert other.rad() < 1e-15 * other


@given(share=st.fractions(Fraction(0), Fraction(1), max_denominator=1000), **INSTANCES)
def test_two_tolerances_overlap(order, rate, sigma, share):
    """A coarse enclosure, whose quadrature error is of the order it admits, still contains the fine one."""
    with balls.precision(_BITS):
        fine, coarse = (OneStep(order=order, rate=rate, squared_shift=4 / sigma**2, relative_error=e) for e in (1e-20, 1e-5))
        s = share * fine.squared_shift
        lower, upper = fine.bounds(s)
        wide_lower, wide_upper = coarse.bounds(s)
        assert lower <= upper and wide_lower <= lower and upper <= wide_upper


def values_on(step: OneStep, left: Fraction, right: Fraction, count: int) -> list[flint.arb]:
    return [step.bounds(left + (right - left) * i / count)[0] for i in range(count + 1)]


@settings(max_examples=15)
@given(
    left=st.fractions(Fraction(0), Fraction(9, 10), max_denominator=100), length=st.fractions(Fraction(1, 100), 1, max_denominator=100),
    **INSTANCES,
)
def test_every_interval_bound_is_above_f(order, rate, sigma, left, length):
    with balls.precision(_BITS):
        step = one_step(order, rate, sigma)
        left, right = left * step.squared_shift, min(left + length, Fraction(1)) * step.squared_shift
        inside = values_on(step, left, right, 6)
        left_bound, right_bound = step.bounds(left)[1], step.bounds(right)[1]
        width = balls.exact(right - left)
        bounds = [
            chord_bound(left_bound, right_bound, curvature=step.curvature_closed(right), length=width),
            chord_bound(left_bound, right_bound, curvature=step.curvature_by_quadrature(left, right), length=width),
        ]
        sturm = sturm_bound(left_bound, right_bound, angle=step.relative_curvature.sqrt() * width)
        bounds += [sturm] if sturm is not None else []
        bounds += [step.monotone_bound(left, right)] if left > 0 else []
        for bound in bounds:
            assert all(value <= bound for value in inside)


@settings(max_examples=15)
@given(share=st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=100), **INSTANCES)
def test_curvature_bounds_are_below_the_second_derivative(order, rate, sigma, share):
    with balls.precision(_BITS):
        step = one_step(order, rate, sigma)
        s, h = share * step.squared_shift, step.squared_shift / 1000
        before, at, after = (step.bounds(s + i * h)[0] for i in (-1, 0, 1))
        second = (before - 2 * at + after) / balls.exact(h) ** 2
        # The divided difference is an average of F'' over [s−h, s+h], which the bounds below cover.
        assert second >= -step.curvature_closed(s + h)
        assert second >= -step.curvature_by_quadrature(s - h, s + h)
        largest = max(before, at, after, key=float)
        assert second >= -step.relative_curvature * largest * balls.exact(Fraction(1001, 1000))


@pytest.mark.parametrize("crop", [(0.0, 1.0), (0.3, 1.0), (0.0, 0.75), (0.35, 0.7)])
@pytest.mark.parametrize("order, rate, sigma", [(3, "1/100", 1), (12, "1/400", 2), (25, "1/2", 3)])
def test_holds_for_any_window(monkeypatch, crop, order, rate, sigma):
    """The window is a heuristic: whatever it drops must be in the tail bound."""
    whole = quantity.Integrand.window

    def cropped(integrand):
        low, high = whole(integrand)
        return low + crop[0] * (high - low), low + crop[1] * (high - low)

    with balls.precision(_BITS):
        step = one_step(order, Fraction(rate), Fraction(sigma))
        s = step.squared_shift / 2
        lower, upper = step.bounds(s)
        monkeypatch.setattr(quantity.Integrand, "window", cropped)
        crude_lower, crude_upper = step.bounds(s)
        assert crude_lower <= upper and lower <= crude_upper
        assert crop == (0.0, 1.0) or crude_upper > upper


@given(left=st.floats(0.1, 10.0), right=st.floats(0.1, 10.0), curvature=st.floats(0.01, 50.0), length=st.floats(0.1, 3.0))
def test_chord_and_sturm_bounds_are_the_exact_maxima(left, right, curvature, length):
    """On F'' = −κ and F'' = −KF, whose solutions through the ends are explicit, both bounds are attained and not exceeded."""
    s = np.linspace(0, length, 20_001)
    ends = flint.arb(left), flint.arb(right)
    parabola = left + (right - left) * s / length + curvature / 2 * s * (length - s)
    bound = float(chord_bound(*ends, curvature=flint.arb(curvature), length=flint.arb(length)))
    assert parabola.max() <= bound * (1 + 1e-12) and bound == pytest.approx(parabola.max(), rel=1e-6)
    angle = min(length, 3.0)
    sinusoid = (left * np.sin(angle * (1 - s / length)) + right * np.sin(angle * s / length)) / np.sin(angle)
    bound = float(sturm_bound(*ends, angle=flint.arb(angle)))
    assert sinusoid.max() <= bound * (1 + 1e-12) and bound == pytest.approx(sinusoid.max(), rel=1e-6)


def test_sturm_bound_needs_a_short_interval():
    one = flint.arb(1)
    assert sturm_bound(one, one, angle=flint.arb(4)) is None
    assert sturm_bound(one, one, angle=flint.arb(0.5)) >= one


def test_polynomial_inequalities_behind_the_curvature():
    """Lemma 1 and Lemma 2 of math/fixed-size-batches.md, section 3, on a grid."""
    v, w = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    for order in (2, 2.5, 3, 5, 10, 40, 256, 5000):
        pi = (
            order * (order - 1) * v**2 * w**2 - 2 * order * (order + 1) * v * w**3 + (order + 1) * (order + 2) * w**4 - v * w
            - (order - 1) * v**2 * w + 5 * order * v * w**2 + 2 * w**2 - 4 * (order + 1) * w**3
        )
        noise = 1e-15 * order**2
        assert (pi >= -1.04 * order / (4 * (order - 1)) - noise).all()
        assert (pi >= -np.where(v >= w, v**2, 2 * w**2) - noise).all()


def test_rounding_is_outward():
    with balls.precision(64):
        third = balls.exact(Fraction(1, 3))
        assert balls.round_down(third) < balls.round_up(third)
        assert flint.arb(balls.round_down(third)) <= third.lower() and third.upper() <= flint.arb(balls.round_up(third))
        assert balls.round_up(balls.exact(0.5)) == 0.5 == balls.round_down(balls.exact(0.5))
    assert flint.ctx.prec == 53
