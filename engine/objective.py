"""The objective of the search: the RMSE of one configuration at the σ its accountant asks for. A pure function; nothing here knows of Ray.

σ is a deterministic bound where the scheme has such an accountant, else the pilot's estimate. An estimate is good enough to rank by and
no guarantee: the certification stage decides.
"""

import functools
import time
from collections.abc import Sequence

from accountants.calibration import calibrate
from accountants.gaussian import rmse_lower_limit
from accountants.monte_carlo.pilot import solve_sigma
from engine.configuration import NORM_ONLY
from engine.outcome import Outcome
from search_spaces import checks
from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic, identity


SAME_AT_BANDWIDTH_ONE = {"min_sep_ra": "random_allocation", "nested_ra": "random_allocation", "min_sep_poisson": "poisson"}
"""At b = 1 the same law as a scheme with an exact accountant (math/batch-schemes.md, "Checks that must hold")."""


def evaluate(
    problem: Problem, *, scheme: str, bandwidth: int, r: float | None = None, coefficients: Sequence[float] | None = None,
    samples: int, seed: int,
) -> Outcome:
    """σ and RMSE of one configuration.

    Args:
      problem: T, K and the target.
      scheme: name of the scheme.
      bandwidth: b; with `coefficients` their number.
      r: of the harmonic family; or
      coefficients: the first column of C, used as given.
      samples: sampled outputs for an estimate; without effect on a bound.
      seed: of the samples.

    Raises:
      InputError: a value out of range, both or neither of `r` and `coefficients`, or their number is not `bandwidth`.
      CalibrationError: no σ in the searched range meets the target.
      NumericalError: a value that cannot be trusted.
    """
    started = time.perf_counter()
    strategy = make_strategy(problem, bandwidth=bandwidth, r=r, coefficients=coefficients)
    law = SAME_AT_BANDWIDTH_ONE.get(scheme, scheme) if bandwidth == 1 else scheme
    sigma, error, how = (_bound if law in NORM_ONLY else _estimate)(
        problem, scheme=law, strategy=strategy, samples=checks.integer(samples=samples), seed=checks.integer(at_least=0, seed=seed),
    )
    rmse = strategy.rmse(sigma=sigma, participations=problem.participations)
    return Outcome(
        sigma=sigma, sigma_standard_error=error, rmse=rmse, rmse_standard_error=None if error is None else rmse * error / sigma,
        multiple_of_limit=rmse / rmse_lower_limit(iterations=problem.iterations, epsilon=problem.epsilon, delta=problem.delta),
        seconds=time.perf_counter() - started, **how,
    )


def make_strategy(
    problem: Problem, *, bandwidth: int, r: float | None = None, coefficients: Sequence[float] | None = None
) -> ToeplitzStrategy:
    """The strategy that a bandwidth and either `r` or `coefficients` describe.

    Raises:
      InputError: both or neither are given, they do not fit the bandwidth, or a value is out of range.
    """
    if (r is None) == (coefficients is None):
        raise InputError(f"Expected exactly one of r={r!r} and coefficients={coefficients!r} to be given.")
    bandwidth = problem.check_bandwidth(bandwidth)
    if coefficients is not None:
        strategy = ToeplitzStrategy(iterations=problem.iterations, coefficients=tuple(coefficients))
        if strategy.bandwidth != bandwidth:
            raise InputError(f"Expected bandwidth={bandwidth} to be the number of coefficients, {strategy.bandwidth}.")
        return strategy
    return harmonic(iterations=problem.iterations, bandwidth=bandwidth, r=r)


def _bound(problem: Problem, *, scheme: str, strategy: ToeplitzStrategy, samples: int, seed: int) -> tuple[float, None, dict[str, object]]:
    # The accountant asks for a separation of b only, and any b has the same σ for the deterministic scheme; its separation is T/K.
    bandwidth = 1 if scheme == "deterministic" else strategy.bandwidth
    sigma, accountant = _unit_sigma(problem, scheme, bandwidth)
    return sigma * strategy.column_norm, None, {
        "kind": "bound", "accountant": accountant, "samples": 0, "resolved": True, "device": "cpu",
    }


@functools.lru_cache(maxsize=1024)
def _unit_sigma(problem: Problem, scheme: str, bandwidth: int) -> tuple[float, str]:
    """σ at ‖c‖ = 1 and the accountant's name; for these schemes σ is proportional to ‖c‖ and depends on nothing else of C."""
    law = make_scheme(scheme, iterations=problem.iterations, participations=problem.participations, bandwidth=bandwidth)
    accountant = "pld" if law.amplified else "gaussian"
    found = calibrate(law, identity(iterations=problem.iterations), epsilon=problem.epsilon, delta=problem.delta, accountant=accountant)
    return found.sigma, found.accountant


def _estimate(problem: Problem, *, scheme: str, strategy: ToeplitzStrategy, samples: int, seed: int) -> tuple[float, float, dict[str, object]]:
    law = make_scheme(
        scheme, iterations=problem.iterations, participations=problem.participations, bandwidth=strategy.bandwidth,
    )
    pilot = solve_sigma(law, strategy, epsilon=problem.epsilon, delta=problem.delta, samples=samples, seed=seed)
    return pilot.sigma, pilot.sigma_standard_error, {
        "kind": "estimate", "accountant": "monte_carlo", "samples": pilot.samples, "resolved": pilot.resolved, "device": _device(),
    }


def _device() -> str:
    import jax

    return jax.default_backend()
