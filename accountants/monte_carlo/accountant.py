"""The accountant `monte_carlo`: estimates of δ and ε with standard errors, both directions. An estimate is no guarantee."""

import math
import time
from collections.abc import Callable

import jax
import scipy.optimize

from accountants.base import Accountant, PartlyUnresolvedError, overlap
from accountants.evidence import DIRECTIONS, Evidence
from accountants.monte_carlo.mixture import FEWEST_EFFECTIVE_SAMPLES, WeightedSample, draw_weighted_sample
from accountants.monte_carlo.streams import Stream
from search_spaces import checks
from search_spaces.errors import UnresolvedError
from search_spaces.mechanism import Mechanism

_REFERENCE_EPSILON = 1.0
_LARGEST_EPSILON = 1e3


class MonteCarloAccountant(Accountant):
    """Importance-sampled estimates from a fixed number of samples.

    Attributes:
      samples: sampled outputs, rounded up to whole blocks.
      seed: of the samples; the same seed gives the same statements.
    """

    name = "monte_carlo"
    kind = "estimate"

    def __init__(self, *, samples: int = 65_536, seed: int = 0) -> None:
        self.samples = checks.integer(samples=samples)
        self.seed = checks.integer(at_least=0, seed=seed)

    def unsupported(self, mechanism: Mechanism) -> str | None:
        if not mechanism.scheme.amplified:
            return f"{mechanism.scheme.name} draws nothing at random, so there is nothing to sample."
        return overlap(mechanism)

    def delta(self, mechanism: Mechanism, *, epsilon: float) -> tuple[Evidence, Evidence]:
        started = time.perf_counter()
        epsilon = checks.non_negative(epsilon=epsilon)
        drawn = self._draw(mechanism, epsilon)
        unknown = {"epsilon": epsilon, "delta": 1.0, "standard_error": 1.0}
        return self._both(mechanism, lambda i: self._delta(mechanism, drawn, i, epsilon, started), of="delta", unknown=unknown)

    def epsilon(self, mechanism: Mechanism, *, delta: float) -> tuple[Evidence, Evidence]:
        started = time.perf_counter()
        delta = checks.between(0, 1, delta=delta)
        drawn = self._draw(mechanism, _REFERENCE_EPSILON)
        unknown = {"epsilon": math.inf, "delta": delta, "standard_error": math.inf}
        return self._both(mechanism, lambda i: self._epsilon(mechanism, drawn, i, delta, started), of="epsilon", unknown=unknown)

    def _both(
        self, mechanism: Mechanism, state: Callable[[int], Evidence], *, of: str, unknown: dict[str, float],
    ) -> tuple[Evidence, Evidence]:
        """What `state` says of each direction; where it is unresolved in one, `unknown` is what always holds there."""
        statements, failures = [], []
        for i, direction in enumerate(DIRECTIONS):
            try:
                statements.append(state(i))
            except UnresolvedError as error:
                failures.append(error)
                statements.append(Evidence(
                    accountant=self.name, direction=direction, kind=self.kind, adjacency=mechanism.scheme.adjacency, **unknown,
                    details={"of": of, "resolved": False, "reason": str(error)},
                ))
        if len(failures) == 1:
            raise PartlyUnresolvedError(str(failures[0]), tuple(statements))
        if failures:
            raise failures[0]
        return tuple(statements)

    def _draw(self, mechanism: Mechanism, epsilon: float) -> WeightedSample:
        self.require_support(mechanism)
        stream = Stream(seed=self.seed, purpose="estimate")
        return draw_weighted_sample(mechanism, epsilon=epsilon, stream=stream, samples=self.samples)

    def _delta(self, mechanism: Mechanism, drawn: WeightedSample, direction: int, epsilon: float, started: float) -> Evidence:
        mean, error, effective = _estimate(drawn, epsilon, direction)
        return self._evidence(mechanism, direction, epsilon=epsilon, delta=mean, error=error, effective=effective, of="delta", started=started)

    def _epsilon(self, mechanism: Mechanism, drawn: WeightedSample, direction: int, delta: float, started: float) -> Evidence:
        excess = lambda epsilon: _estimate(drawn, epsilon, direction)[0] - delta
        if excess(0.0) <= 0:
            epsilon, slope = 0.0, math.inf
        else:
            high = 1.0
            while excess(high) > 0 and high < _LARGEST_EPSILON:
                high *= 2
            if excess(high) > 0:
                raise UnresolvedError(f"monte_carlo finds no epsilon up to {high:g} with delta={delta:g} for {mechanism.scheme.name}.")
            epsilon = float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-9))
            step = 1e-3 * max(epsilon, 1e-3)
            slope = (excess(max(epsilon - step, 0.0)) - excess(epsilon + step)) / (step + min(step, epsilon))
        mean, error, effective = _estimate(drawn, epsilon, direction)
        return self._evidence(
            mechanism, direction, epsilon=epsilon, delta=delta, error=error / slope if slope > 0 else math.inf, effective=effective,
            of="epsilon", started=started,
        )

    def _evidence(self, mechanism, direction, *, epsilon, delta, error, effective, of, started) -> Evidence:
        if effective < FEWEST_EFFECTIVE_SAMPLES or not math.isfinite(error):
            raise UnresolvedError(
                f"monte_carlo has {effective:.1f} effective samples of {self.samples} for {DIRECTIONS[direction]} of "
                f"{mechanism.scheme.name} at epsilon={epsilon:.6g}, fewer than {FEWEST_EFFECTIVE_SAMPLES:g}: unresolved, ask for more samples."
            )
        return Evidence(
            accountant=self.name, direction=DIRECTIONS[direction], kind=self.kind, epsilon=epsilon, delta=min(delta, 1.0),
            adjacency=mechanism.scheme.adjacency, standard_error=error, seconds=time.perf_counter() - started,
            details={
                "of": of, "samples": self.samples, "effective_samples": effective, "seed": self.seed, "dtype": "float64",
                "device": jax.default_backend(), "method": "mixture importance sampling", "confidence": "one standard error",
            },
        )


def _estimate(drawn: WeightedSample, epsilon: float, direction: int) -> tuple[float, float, float]:
    """δ, its standard error and the effective samples, of one direction."""
    one = drawn.estimates(epsilon)[DIRECTIONS[direction]]
    return float(one.delta[0]), float(one.standard_error[0]), float(one.effective_samples[0])
