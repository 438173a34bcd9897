"""Certified ρ(α) of the pairwise geometry: the maximum over s ∈ [0, Δ²], by branch and bound in ball arithmetic.

Source: math/fixed-size-batches.md, sections 4 and 6. Interior maxima exist (for small p where the two ends tie), so the ends alone are
no bound; at every moment the largest interval key is one.
"""

import dataclasses
import fractions
import functools
import math

from flint import arb

from accountants.fixed_size import balls, quantity
from accountants.fixed_size.one_step import OneStep, chord_bound, sturm_bound

NODE_LIMIT = 4000
"""Evaluations of F after which the search stops with the bound it has; the bound stays valid, its gap is reported."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CertifiedOrder:
    """ρ(α) enclosed.

    Attributes:
      order: α.
      lower: a value of D_α that is attained (rounded down); ρ is at least this.
      upper: ρ is at most this (rounded up).
      maximiser: u ∈ [0, 1/2] of the best node.
      nodes: evaluations of F.
    """

    order: int
    lower: float
    upper: float
    maximiser: float
    nodes: int


@dataclasses.dataclass(eq=False, kw_only=True)
class _Interval:
    """[left, right] with exact upper bounds of F at its ends and what else bounds F on it.

    Attributes:
      curvature: κ with F'' >= −κ, valid on parents and halves alike; None: not computed yet.
      direct: a bound of F itself, also inherited; None: none yet.
      wide: whether it is too long for bound (S).
      key: the least bound of F on it; None: infinite.
      tried: how many of the sharper bounds were computed for this very interval.
    """

    left: fractions.Fraction
    right: fractions.Fraction
    left_bound: arb
    right_bound: arb
    curvature: arb | None = None
    direct: arb | None = None
    wide: bool = False
    key: arb | None = None
    tried: int = 0

    def refresh(self, step: OneStep) -> None:
        """Set the key from everything known."""
        length = balls.exact(self.right - self.left)
        sturm = sturm_bound(self.left_bound, self.right_bound, angle=step.relative_curvature.sqrt() * length)
        self.wide = sturm is None
        keys = [sturm, self.direct]
        if self.curvature is not None:
            keys.append(chord_bound(self.left_bound, self.right_bound, curvature=self.curvature, length=length))
        finite = [key for key in keys if key is not None]
        self.key = functools.reduce(balls.smaller, finite) if finite else None

    def halves(self, middle: fractions.Fraction, bound: arb) -> tuple["_Interval", "_Interval"]:
        """Both halves, given a bound of F in the middle."""
        return (
            dataclasses.replace(self, right=middle, right_bound=bound, tried=0),
            dataclasses.replace(self, left=middle, left_bound=bound, tried=0),
        )

    def sharpen(self, step: OneStep) -> bool:
        """Compute the next bound, cheapest first; whether there was one left to compute."""
        if self.curvature is None:
            self.curvature = step.curvature_closed(self.right)
        elif self.tried == 0 and (self.left > 0 or not self.wide):
            self.tried = 1
            if self.wide:
                bound = step.monotone_bound(self.left, self.right)
                self.direct = bound if self.direct is None else balls.smaller(bound, self.direct)
            else:
                self.curvature = balls.smaller(self.curvature, step.curvature_by_quadrature(self.left, self.right))
        else:
            return False
        self.refresh(step)
        return True


@functools.lru_cache(maxsize=4096)
def certify(*, order: int, rate: fractions.Fraction, squared_shift: fractions.Fraction, gap: float) -> CertifiedOrder:
    """An upper bound of ρ(α), at most `gap` above it unless `NODE_LIMIT` stops the search first.

    Args:
      order: α >= 2.
      rate: p in (0, 1]; at 1 the mechanism is a Gaussian one and ρ = αΔ²/2 exactly.
      squared_shift: Δ² > 0.
      gap: γ > 0, in units of ρ.
    """
    bits = max(96, 72 - math.floor(math.log2(gap * (order - 1))) + order.bit_length())
    with balls.precision(bits):
        if rate == 1:
            exact = order * balls.exact(squared_shift) / 2
            return CertifiedOrder(order=order, lower=balls.round_down(exact), upper=balls.round_up(exact), maximiser=0.0, nodes=0)
        relative_error = min(1e-16, gap * (order - 1) / 16)
        step = OneStep(order=order, rate=rate, squared_shift=squared_shift, relative_error=relative_error)
        return _search(step, balls.exact(fractions.Fraction(gap)) * (order - 1))


class _Nodes:
    """F at the points evaluated so far: how many, and the best lower bound with its place."""

    def __init__(self, step: OneStep, log_gap: arb):
        self.step, self.log_gap = step, log_gap
        self.count, self.best, self.place = 0, None, fractions.Fraction(0)

    def evaluate(self, s: fractions.Fraction) -> arb:
        """The upper bound of F(s); the lower one is remembered if it is the best."""
        lower, upper = self.step.bounds(s)
        self.count += 1
        if self.best is None or lower > self.best:
            self.best, self.place = lower, s
        return upper

    def settles(self, key: arb | None) -> bool:
        """Whether an interval with this key can be left alone."""
        return key is not None and (key <= self.best or bool((key / self.best).log() <= self.log_gap))


def _search(step: OneStep, log_gap: arb) -> CertifiedOrder:
    nodes = _Nodes(step, log_gap)
    zero, end = fractions.Fraction(0), step.squared_shift
    intervals = [_Interval(left=zero, right=end, left_bound=nodes.evaluate(zero), right_bound=nodes.evaluate(end))]
    intervals[0].refresh(step)
    while True:
        worst = max(range(len(intervals)), key=functools.cmp_to_key(lambda i, j: _compare(intervals[i].key, intervals[j].key)))
        top = intervals[worst]
        if nodes.settles(top.key) or (nodes.count >= NODE_LIMIT and top.key is not None):
            break
        if top.sharpen(step):
            continue
        middle = (top.left + top.right) / 2
        intervals[worst : worst + 1] = halves = top.halves(middle, nodes.evaluate(middle))
        for half in halves:
            half.refresh(step)
    # No interval's key exceeds the last one's.
    bound = balls.larger(top.key, nodes.best)
    powers = step.order - 1
    return CertifiedOrder(
        order=step.order, lower=max(0.0, balls.round_down(nodes.best.log() / powers)), upper=balls.round_up(bound.log() / powers),
        maximiser=float(nodes.place / (2 * step.squared_shift)), nodes=nodes.count,
    )


def _compare(first: arb | None, second: arb | None) -> int:
    """Order of two keys; None is infinite. Keys are exact, so every comparison is decided."""
    if first is None or second is None:
        return (first is None) - (second is None)
    return bool(first > second) - bool(first < second)
