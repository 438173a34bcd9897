"""Realisable triples: the exact one-step Rényi divergence when the three gradients lie in one ball (geometry `ball`).

A clipped gradient lies in a ball of radius 1/σ (in noise standard deviations). Condition on the rest of the batch and on the displaced
example: with x₀ the displaced gradient and x₁, x₂ those of the differing example in the two data sets, the step is the pair
P = (1−p)N(x₀) + pN(x₁), Q = (1−p)N(x₀) + pN(x₂), and ∫P^αQ^{1−α} is jointly convex, so the worst triple bounds the step. The pairwise
geometry only keeps ‖xᵢ − xⱼ‖ <= Δ = 2/σ, which an equilateral triple of side Δ meets and no ball of radius 1/σ holds.

Theorem (proof: realisable_triples.md, beside this file). For real α >= 2 and all p, the largest D_α(P‖Q) over x₀, x₁, x₂ in a ball of
diameter Δ is attained at x₂ = x₀ with x₁ opposite, i.e. it is D_α((1−p)N(0,1) + pN(Δ,1) ‖ N(0,1)), for integer α

    ρ(α) = log(Σ_k C(α,k) (1−p)^{α−k} p^k e^{k(k−1)Δ²/2}) / (α−1).

It is attained by data sets whose other examples all have the gradient x₀, so no smaller one-step bound holds. The hockey-stick pair of the
lossless accountant consists of two realisable triples as well; that accountant is the same in both geometries.
"""

import fractions

from flint import arb

from accountants.fixed_size import balls
from accountants.fixed_size.branch_and_bound import CertifiedOrder
from accountants.fixed_size.one_step import OneStep

_BITS = 160


def certify(*, order: int, rate: fractions.Fraction, squared_shift: fractions.Fraction) -> CertifiedOrder:
    """ρ(α) of the ball geometry, a sum of α+1 positive terms enclosed in ball arithmetic; nothing to search.

    Args:
      order: α >= 2.
      rate: p in (0, 1].
      squared_shift: Δ² > 0.
    """
    with balls.precision(_BITS):
        if rate == 1:
            rho = order * balls.exact(squared_shift) / 2
        else:
            step = OneStep(order=order, rate=rate, squared_shift=squared_shift, relative_error=0.5)
            rho = sum(step.weights, arb(0)).log() / (order - 1)
        return CertifiedOrder(order=order, lower=max(0.0, balls.round_down(rho)), upper=balls.round_up(rho), maximiser=0.0, nodes=1)
