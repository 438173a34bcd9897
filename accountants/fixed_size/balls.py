"""Between float64 or fractions and ball arithmetic: exact in, directed out.

A ball (`flint.arb`) is a midpoint with a radius that provably holds the true value; every operation widens it by its own rounding. Working
precision is a setting of the calling thread, so all work is done inside `precision(bits)`, which restores the old one.
"""

import fractions
import math

import flint
from flint import arb


def precision(bits: int):
    """Context manager: ball arithmetic with `bits` bits inside, the previous setting afterwards."""
    return flint.ctx.workprec(bits)


def exact(value: fractions.Fraction | float | int) -> arb:
    """The ball of a rational or of a float's exact value; its radius is at most one rounding."""
    ratio = fractions.Fraction(value)
    return arb(flint.fmpq(ratio.numerator, ratio.denominator))


def round_up(ball: arb) -> float:
    """The smallest float64 (or the next one) that is >= everything in the ball; inf where it exceeds float64 or is not finite."""
    if not ball.is_finite():
        return math.inf
    upper = ball.upper()
    nearest = float(upper)
    while arb(nearest) < upper:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def round_down(ball: arb) -> float:
    """The largest float64 (or the previous one) that is <= everything in the ball."""
    return -round_up(-ball)


def larger(first: arb, second: arb) -> arb:
    """The larger of two exact numbers (radius zero), which always compare."""
    return second if first < second else first


def smaller(first: arb, second: arb) -> arb:
    """The smaller of two exact numbers."""
    return first if first < second else second
