"""Sampled values under tilted proposals, and the numbers they never exceed, for both directions.

remove. With α replicas of exponent θ (order A = αθ) the outputs are y = θ·Σ_i C x^i + σz, projected off v̂ where participations are
fixed, the tuples x^1..x^α drawn by `TiltedLaw.sample`. That is the law ∝ LR_θ^α Q of the residual mechanism, LR_θ the likelihood ratio of
θCx + σz. With M = log E_Q LR_θ^α, L = log LR (both residual) and ξ the Gaussian factor (0 without one),

    X = e^{M + L − α·log LR_θ} · δ_G(ε − L; ξ),    E X = δ_remove,    0 <= X <= B = e^{M + s} · max_l δ_G(ε − l; ξ) e^{−(A−1)l}.

s = αθ(θ−1)(S² − K²κ²)/(2σ²), S = max ‖Cx‖: by Jensen's inequality LR_θ · e^{θ(θ−1)(S²−K²κ²)/(2σ²)} >= LR^θ; at θ = 1 it vanishes
(math/certificates.md, sections 2 and 3).

add. Jensen's inequality gives L >= ν + ξ'u, with u = ⟨d, y⟩/σ the projection on the unit vector d along the (residual part of) C E[x].
Outputs are drawn from Q shifted by −s·d·σ, under which u ~ N(−s, 1), and reweighted:

    X = e^{su + s²/2} · δ_G(ε + L; ξ),    E X = δ_add,    0 <= X <= e^{s²/2} · max_u δ_G(ε + ν + ξ'u; ξ) e^{su}.

Proof: dQ/dH = e^{su + s²/2} for the shifted law H, so E_H X = E_Q δ_G(ε + L; ξ); δ_G falls in its first argument, so X is at most the
value with L replaced by its lower bound, and the maximum over all real u of that is finite because s, ξ' > 0. No clipping, hence no
bias; at the best s the bound is within a few percent of the deterministic bound δ_G(ε + ν; ξ) of a vanishing ξ', where clipping Q's own values needs a level many
times higher: their largest values come with u < 0, which is where H draws from and what e^{su} scales down.
"""

import dataclasses
import math
import sys

import numpy as np
import scipy.optimize

from accountants.estimators import ROUND_UP, AddEnvelope, add_values, remove_values
from accountants.tilted.peak import log_peak
from search_spaces import checks

_STEEPEST = 64.0
_FLATTEST = 1e-6
_LARGEST_EXPONENT = 700.0


def tilted_remove_values(
    log_ratio: np.ndarray, *, epsilon: float, xi: float, alpha: int, log_moment: float, log_tilted_ratio: np.ndarray | None = None,
) -> np.ndarray:
    """X of the module docstring; same shape as `log_ratio`.

    Args:
      log_ratio: L at outputs drawn from the tilted law.
      epsilon: ε >= 0.
      xi: ξ, or 0 without a Gaussian factor.
      alpha: replicas.
      log_moment: M.
      log_tilted_ratio: log LR_θ at the same outputs; None for θ = 1.
    """
    log_ratio = np.asarray(log_ratio, float)
    tilted = log_ratio if log_tilted_ratio is None else np.asarray(log_tilted_ratio, float)
    values = remove_values(log_ratio, epsilon=epsilon, xi=xi)
    with np.errstate(divide="ignore"):
        log_values = np.log(values)
    if xi > 0:
        # Where δ_G underflows, log δ_G <= −x²/2 keeps the value an upper bound.
        x = (epsilon - log_ratio) / xi - xi / 2
        log_values = np.where(values > 0, log_values, -0.5 * np.square(x))
    return np.exp(log_moment + log_ratio - alpha * tilted + log_values)


def log_remove_bound(*, epsilon: float, xi: float, order: float, log_moment: float) -> float:
    """log B of the module docstring, rounded up, with M + s as `log_moment` and A > 1 as `order`; convex in A for convex M + s."""
    return log_moment + log_peak(epsilon=epsilon, xi=xi, rate=order - 1.0) + math.log(ROUND_UP)


def bound_from_log(log_bound: float) -> float:
    """e^log_bound for a bound: never rounded to zero, and the largest exponent of a float64 at most."""
    return max(math.exp(min(log_bound, _LARGEST_EXPONENT)), sys.float_info.min)


def shifted_add_values(log_ratio: np.ndarray, projection: np.ndarray, *, epsilon: float, xi: float, shift: float) -> np.ndarray:
    """X of the add direction; same shape as `log_ratio`.

    Args:
      log_ratio: L at outputs drawn from Q shifted by −shift·σ·d.
      projection: u = ⟨d, y⟩/σ at the same outputs.
      epsilon: ε >= 0.
      xi: ξ, or 0 without a Gaussian factor.
      shift: s >= 0.
    """
    return add_values(np.asarray(log_ratio, float), epsilon=epsilon, xi=xi) * np.exp(shift * np.asarray(projection, float) + shift**2 / 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddShift:
    """A shift of Q for the add direction.

    Attributes:
      shift: s >= 0.
      bound: B, which no shifted value exceeds; rounded up.
    """

    shift: float
    bound: float


def shifted_add_bound(envelope: AddEnvelope, *, shift: float) -> float:
    """B of the add direction, rounded up, for a shift along the envelope's own direction."""
    shift = checks.non_negative(shift=shift)
    if shift == 0:
        return 1.0 if envelope.slope > 0 else min(1.0, ROUND_UP * float(envelope.values(np.zeros(1))[0]))
    if envelope.slope <= _FLATTEST * shift:
        # Only the slope holds back e^{su}.
        return bound_from_log(math.inf)
    return bound_from_log(_log_shifted_bound(envelope, shift))


def _log_shifted_bound(envelope: AddEnvelope, shift: float) -> float:
    peak = log_peak(epsilon=envelope.epsilon + envelope.offset, xi=envelope.xi, rate=shift / envelope.slope)
    return peak + shift**2 / 2 + math.log(ROUND_UP)


def best_add_shift(envelope: AddEnvelope) -> AddShift:
    """The shift with (nearly) the smallest bound; log B is convex in the shift, and every shift is valid.

    The envelope's direction must be the one that outputs are shifted along: d of the scheme itself, not of a thinned law.
    """
    if envelope.slope <= _FLATTEST:
        # Rounding alone makes a slope that should vanish this large; nothing may rest on its size.
        return AddShift(shift=0.0, bound=shifted_add_bound(envelope, shift=0.0))
    epsilon, slope = max(envelope.epsilon + envelope.offset, 0.0), envelope.slope
    steepest = min(epsilon / max(envelope.xi, slope) ** 2 + 4 / max(envelope.xi, slope) + 4, _STEEPEST / slope)
    found = scipy.optimize.minimize_scalar(
        lambda shift: _log_shifted_bound(envelope, shift), bounds=(1e-6 * slope, steepest * slope), method="bounded",
        options={"xatol": 1e-3 * steepest * slope},
    )
    shift, bound = float(found.x), shifted_add_bound(envelope, shift=float(found.x))
    return AddShift(shift=shift, bound=bound) if bound < 1 else AddShift(shift=0.0, bound=1.0)
