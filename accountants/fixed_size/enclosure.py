"""Integrals of section 5 enclosed in ball arithmetic: trapezoidal sum, its error by a strip bound, the dropped tails by tangent lines.

f(v) = Σ_k c_k e^{kμv} (1−p+pe^{βv−β²/2+shift})^{−n} φ(v) with c_k >= 0. Source: math/fixed-size-batches.md, section 5. Proved there:

* Error of the infinite sum. f is holomorphic in |Im v| < π/β. On the line Im v = y the first factor has the modulus of its real part's
  value, φ gains e^{y²/2}, and |A + Be^{iθ}| >= (A+B) cos(θ/2) for A, B >= 0; so ∫|f(x+iy)|dx <= e^{y²/2} cos(βy/2)^{−n} ∫f, and the strip
  theorem of the trapezoidal rule gives |T_h − I| <= ϵI with ϵ = 2e^{d²/2} cos(βd/2)^{−n} / (e^{2πd/h} − 1) for every 0 < d < π/β.
* Dropped nodes. Each term f_k has (log f_k)'' <= −1, so right of the first dropped node R it stays under its tangent minus u²/2, and
  h Σ_{j>=0} f_k(R+jh) <= f_k(R) M(t_k), t_k = kμ − nβw(R) − R, M(t) = h + √(π/2) for t <= 0 and (h + √(2π)) e^{t²/2} for t > 0, where
  w(R) is the second factor's posterior weight at R; left of the window the same with −t_k.

Hence I ∈ [S/(1+ϵ), (S + tails)/(1−ϵ)]. Window, h and d come from float64 heuristics: they decide how tight this is, never whether it holds.
"""

import dataclasses
import math
from collections.abc import Sequence

from flint import arb, arb_poly

from accountants.fixed_size.quantity import Integrand
from search_spaces.errors import NumericalError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BallIntegrand:
    """The integrand of section 5 with exact (ball) parameters; fields as in `quantity.Integrand`.

    Attributes:
      coefficients: c_k >= 0.
      heuristic: its float64 twin, which chooses the nodes.
    """

    coefficients: Sequence[arb]
    slope: arb
    beta: arb
    exponent: int
    shift: arb
    rate: arb
    heuristic: Integrand

    def mixture(self, v: arb) -> tuple[arb, arb]:
        """(1−p+pe^{…} at v, its posterior weight w)."""
        second = self.rate * (self.beta * v - self.beta * self.beta / 2 + self.shift).exp()
        total = 1 - self.rate + second
        return total, second / total

    def common_factor(self, v: arb) -> arb:
        """(1−p+pe^{…})^{−n} φ(v)."""
        return (-v * v / 2).exp() / (self.mixture(v)[0] ** self.exponent * (2 * arb.pi()).sqrt())


def enclose(integrand: BallIntegrand, *, relative_error: float) -> tuple[arb, arb]:
    """Exact numbers (lower, upper) around ∫f, about `relative_error` apart relative to it.

    Raises:
      NumericalError: the precision in force was too small for a finite result.
    """
    low, high = integrand.heuristic.window()
    step, width = _step_and_strip(integrand, math.log(relative_error) - 1)
    first, h = arb(low), arb(step)
    count = math.ceil((high - low) / step) + 1
    error = _strip_error(integrand, step=h, width=arb(width))
    polynomial = arb_poly(list(integrand.coefficients))
    total = arb(0)
    for j in range(count):
        v = first + j * h
        total += polynomial((integrand.slope * v).exp()) * integrand.common_factor(v)
    kept = h * total
    tails = _tail(integrand, first + count * h, h, right=True) + _tail(integrand, first - h, h, right=False)
    lower, upper = kept / (1 + error), (kept + tails) / (1 - error)
    if not (lower.is_finite() and upper.is_finite() and error < 1):
        raise NumericalError("The ball-arithmetic quadrature is not finite: its working precision or its node spacing is too small.")
    return lower.lower(), upper.upper()


def _step_and_strip(integrand: BallIntegrand, log_error: float) -> tuple[float, float]:
    """(h, d) in float64 with log ϵ about `log_error` or less: d near its optimum 2π/(hc), kept inside the strip; h shrunk until it fits."""
    heuristic = integrand.heuristic
    step = heuristic.step(log_error)
    while True:
        width = min(2 * math.pi / (step * heuristic.stiffness), 0.9 * math.pi / heuristic.beta)
        log_cosine = math.log(math.cos(heuristic.beta * width / 2))
        if math.log(2) + width**2 / 2 - heuristic.exponent * log_cosine - 2 * math.pi * width / step <= log_error:
            return step, width
        step *= 0.95


def _strip_error(integrand: BallIntegrand, *, step: arb, width: arb) -> arb:
    cosine = (integrand.beta * width / 2).cos()
    return 2 * (width * width / 2).exp() / cosine**integrand.exponent / ((2 * arb.pi() * width / step).exp() - 1)


def _tail(integrand: BallIntegrand, edge: arb, step: arb, *, right: bool) -> arb:
    """Upper bound of h Σ f over the dropped nodes on one side; `edge` is the first of them."""
    common = integrand.common_factor(edge)
    pull = integrand.exponent * integrand.beta * integrand.mixture(edge)[1] + edge
    flat, root = step + (arb.pi() / 2).sqrt(), step + (2 * arb.pi()).sqrt()
    ratio, power, total = (integrand.slope * edge).exp(), arb(1), arb(0)
    for k, coefficient in enumerate(integrand.coefficients):
        slope = k * integrand.slope - pull if right else pull - k * integrand.slope
        # An undecided sign takes the second branch, which bounds both: M(t) there is at least h + √(2π).
        total += coefficient * power * (flat if slope <= 0 else root * (slope * slope / 2).exp())
        power *= ratio
    return common * total
