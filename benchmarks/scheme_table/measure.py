"""The measurements, each a function of plain values that returns plain values: a row, a point, a curve and a count of samples."""

import functools
import time
from collections.abc import Sequence

from accountants.certificates.records import DirectionTest
from accountants.estimators import add_envelope
from accountants.monte_carlo.accountant import MonteCarloAccountant
from accountants.monte_carlo.pilot import solve_sigma
from accountants.registry import supported
from accountants.tail_sum import samples_needed
from accountants.tilted import LARGEST_MEMORY, best_add_shift, tilted_log_moment, tilted_remove_bound, tilted_unsupported
from benchmarks.scheme_table.grid import STANDARD, TAKEN_FROM
from engine.certification import CertifiedStrategy, certified_evidence, certify_best, draw_test
from engine.compare import ComparisonRow, best_of_scheme
from engine.configuration import NORM_ONLY
from engine.objective import SAME_AT_BANDWIDTH_ONE, evaluate
from search_spaces.errors import CalibrationError, UnresolvedError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.space import SchemeSpace
from search_spaces.strategies import harmonic

MOST_SAMPLES = (None, 4_000_000)
"""Limits of one certifying test that are tried in turn; None is the certificate's own."""

TAIL_SUM_FRACTION = 0.9
PUBLISHED_FRACTION = 0.5
"""Thresholds over δ at which samples are counted."""


def row(*, problem: Problem, scheme: str, variant: str, samples: int, seed: int, bandwidths: Sequence[int] | None) -> dict[str, object]:
    """The best (b, r) of the variant and its certified σ.

    Raises:
      CalibrationError: no configuration could be ranked.
    """
    started = time.perf_counter()
    best = _best(problem, TAKEN_FROM.get(scheme, scheme) if variant == STANDARD else scheme, samples, seed, bandwidths)
    chosen = {"bandwidth": best.bandwidth, "r": best.r}
    searched = time.perf_counter() - started
    strategy = harmonic(iterations=problem.iterations, **chosen)
    law = _law(problem, scheme, best.bandwidth)
    started = time.perf_counter()
    try:
        found = _certified_values(_certify(problem, (law, strategy), seed))
    except CalibrationError as error:
        outcome = evaluate(problem, scheme=scheme, **chosen, samples=samples, seed=seed)
        found = {"sigma": outcome.sigma, "rmse": outcome.rmse, "kind": outcome.kind, "deltas": None, "tests": [], "note": str(error)}
    return chosen | {"note": best.note} | found | {"search_seconds": searched, "certify_seconds": time.perf_counter() - started}


def point(*, problem: Problem, scheme: str, bandwidth: int, samples: int, seed: int) -> dict[str, object]:
    """The best r at one bandwidth, with the RMSE of the search: an estimate where the scheme needs samples."""
    best = _best(problem, scheme, samples, seed, (bandwidth,))
    return {"r": best.r, "rmse": best.rmse, "kind": best.kind}


def curve(
    *, problem: Problem, scheme: str, variant: str, bandwidth: int, r: float, rmse: float, epsilons: Sequence[float], samples: int,
    seed: int,
) -> dict[str, object]:
    """δ(ε) of a row's scheme and strategy at the σ that gives an RMSE, in the worse direction; None where an estimate is not resolved.

    `variant` only names the row.
    """
    strategy = harmonic(iterations=problem.iterations, bandwidth=bandwidth, r=r)
    sigma = rmse / strategy.rmse(sigma=1.0, participations=problem.participations)
    law = _law(problem, scheme, bandwidth)
    mechanism = Mechanism(scheme=law, strategy=strategy, sigma=sigma)
    accountant = ("pld" if law.amplified else "gaussian") if law.name in NORM_ONLY else MonteCarloAccountant(samples=samples, seed=seed)
    deltas = []
    for epsilon in epsilons:
        try:
            deltas.append(max(e.delta for e in supported(accountant, mechanism).delta(mechanism, epsilon=epsilon)))
        except UnresolvedError:
            deltas.append(None)
    return {"sigma": sigma, "epsilons": list(epsilons), "deltas": deltas}


def counts(*, problem: Problem, scheme: str, bandwidth: int, r: float, samples: int, seed: int) -> dict[str, object]:
    """Samples of one test at the problem's δ, by certificate; σ is the pilot's."""
    strategy, law = harmonic(iterations=problem.iterations, bandwidth=bandwidth, r=r), _law(problem, scheme, bandwidth)
    target = {"epsilon": problem.epsilon, "delta": problem.delta}
    pilot = solve_sigma(law, strategy, **target, samples=samples, seed=seed)
    mechanism = Mechanism(scheme=law, strategy=strategy, sigma=pilot.sigma)
    bounds = {"tail sum, plain": 1.0}
    for alpha in (2, 3):
        if tilted_unsupported(mechanism, alpha=alpha, memory_limit=LARGEST_MEMORY) is None:
            moment = tilted_log_moment(mechanism, alpha=alpha, memory_limit=LARGEST_MEMORY)
            bounds[f"tilted α={alpha}"] = tilted_remove_bound(mechanism, epsilon=problem.epsilon, alpha=alpha, log_moment=moment)
    if law.fixed_participations:
        bounds["add, shifted"] = best_add_shift(add_envelope(mechanism, epsilon=problem.epsilon)).bound
    needed = {"published": samples_needed("published", delta=problem.delta, threshold=PUBLISHED_FRACTION * problem.delta)}
    for name, bound in bounds.items():
        needed[name] = samples_needed("tail_sum", delta=problem.delta, threshold=TAIL_SUM_FRACTION * problem.delta, bound=bound)
    return {"sigma": pilot.sigma, "needed": needed}


@functools.lru_cache(maxsize=256)
def _best(problem: Problem, scheme: str, samples: int, seed: int, bandwidths: tuple[int, ...] | None) -> ComparisonRow:
    """The scheme's best (b, r) among the bandwidths it admits; that of `deterministic` has the largest b."""
    admitted = SCHEMES[scheme].bandwidths(problem)
    kept = tuple(b for b in admitted if bandwidths is None or b in bandwidths)
    part = SchemeSpace(scheme=scheme, bandwidths=kept[-1:] if scheme == "deterministic" else kept)
    best = best_of_scheme(problem, part, samples=samples, seed=seed)
    if best.rmse is None:
        raise CalibrationError(best.note)
    return best


def _law(problem: Problem, scheme: str, bandwidth: int) -> BatchScheme:
    name = SAME_AT_BANDWIDTH_ONE.get(scheme, scheme) if bandwidth == 1 else scheme
    return make_scheme(name, iterations=problem.iterations, participations=problem.participations, bandwidth=bandwidth)


def _certify(problem: Problem, choice: tuple, seed: int) -> CertifiedStrategy:
    settings = {"certificate": "tilted", "seed": seed, "draw": draw_test, "others": False}
    for limit in MOST_SAMPLES[:-1]:
        try:
            return certify_best(problem, [choice], max_samples=limit, **settings)
        except CalibrationError:
            pass
    return certify_best(problem, [choice], max_samples=MOST_SAMPLES[-1], **settings)


def _certified_values(made: CertifiedStrategy) -> dict[str, object]:
    tests = made.certificate.chosen.tests
    # The mean of the values estimates δ itself; a deterministic test has its bound.
    deltas = {e.direction: e.details.get("mean", e.delta) for e in certified_evidence(made.certificate)}
    return {
        "sigma": made.mechanism.sigma, "rmse": made.mechanism.rmse, "deltas": deltas, "tests": [_test_values(test) for test in tests],
        "kind": "bound" if all(test.sampler == "bound" for test in tests) else "certified",
    }


def _test_values(test: DirectionTest) -> dict[str, object]:
    return {"direction": test.direction, "sampler": test.sampler, "alpha": test.alpha, "samples": test.samples, "bound": test.bound}
