"""The accountant `jensen`: a closed-form bound for "add" that uses amplification, for every scheme.

Jensen's inequality over the schedules x gives LR >= exp(ν + ξ Z), ν = −E‖Cx‖²/(2σ²), ξ = ‖C E[x]‖/σ, with Z ~ N(0, 1) under Q, and
δ_add = E_Q (1 − e^ε LR)_+ decreases in LR, so δ_add <= δ_G(ε + ν + ξ²/2; ξ) (math/certificates.md, section 3). For fixed participations
this is not the δ_G(ε + ν_⊥; ξ) of "The Gaussian factor" there, which is no bound: the residual keeps a linear term unless C E[x] is parallel
to v = C^{−T}1. Where participations are not fixed a thinned law gives more; see accountants/estimators.py.
"""

import functools
import math
import time

from accountants.base import Accountant, overlap
from accountants.estimators import ROUND_UP, AddEnvelope, add_envelope
from accountants.evidence import Evidence
from accountants.gaussian import GaussianAccountant, gaussian_delta_bounds, gaussian_epsilon
from search_spaces.mechanism import Mechanism


class JensenAccountant(Accountant):
    """Jensen's bound for `add`, never above the unamplified Gaussian's; `remove` is the unamplified Gaussian's."""

    name = "jensen"
    kind = "bound"

    def unsupported(self, mechanism: Mechanism) -> str | None:
        return overlap(mechanism)

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        remove, add = GaussianAccountant().delta(mechanism, epsilon=epsilon)
        mu, shift = _shifted_gaussian(add_envelope(mechanism, epsilon=add.epsilon))
        delta = min(1.0, ROUND_UP * float(gaussian_delta_bounds(epsilon=add.epsilon + shift, mu=mu)[1]))
        return self._pair(remove, add, epsilon=add.epsilon, delta=delta, start=start)

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        start = time.perf_counter()
        remove, add = GaussianAccountant().epsilon(mechanism, delta=delta)
        epsilon, previous = add.epsilon, math.inf
        # Every envelope holds at every ε; the next one is the best at the ε that the last one gave.
        while epsilon < previous:
            mu, shift = _shifted_gaussian(add_envelope(mechanism, epsilon=epsilon))
            previous, epsilon = epsilon, min(epsilon, max(0.0, gaussian_epsilon(delta=add.delta / ROUND_UP, mu=mu) - shift))
        return self._pair(remove, add, epsilon=epsilon, delta=add.delta, start=start)

    def _pair(self, remove: Evidence, add: Evidence, *, epsilon: float, delta: float, start: float) -> tuple[Evidence, Evidence]:
        statement = functools.partial(
            Evidence, accountant=self.name, kind=self.kind, adjacency=add.adjacency, seconds=time.perf_counter() - start
        )
        details = {"of": add.details["of"], "method": "Gaussian mechanism", "reason": "unamplified: Jensen's inequality bounds add only"}
        if (epsilon, delta) < (add.epsilon, add.delta):
            add_details = {"of": add.details["of"], "method": "Jensen's inequality"}
        else:
            epsilon, delta = add.epsilon, add.delta
            add_details = details | {"reason": "unamplified: not above Jensen's bound here"}
        return (
            statement(direction="remove", epsilon=remove.epsilon, delta=remove.delta, details=details),
            statement(direction="add", epsilon=epsilon, delta=delta, details=add_details),
        )


def _shifted_gaussian(envelope: AddEnvelope) -> tuple[float, float]:
    """μ and s with δ_add(ε) <= E δ_G(ε + ν + ξ'Z; ξ) = δ_G(ε + s; μ)."""
    return math.hypot(envelope.xi, envelope.slope), envelope.offset + envelope.slope**2 / 2
