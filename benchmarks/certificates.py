"""What a certificate costs at the anchor: samples, seconds and memory. Run as `python -m benchmarks.certificates`.

Each case runs in a fresh process, compilation included, one strategy with σ to be found. The rows `published` and `tail_sum` are the
samples these procedures need for one candidate and both directions at thresholds δ/2 and 0.9δ, with seconds extrapolated from the
plain sampling rate measured in the same run; the rows `certified` are measured, of each direction the drawing alone (with the remove test's
table), beside the whole of the case (pilot, trials, tables, tests, compilation). With `--alphas 2 3` there is a row `tilted` for each of
these numbers of replicas: the remove test alone at the certified σ and threshold 0.9δ, its table and its sampling rate measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.certification import DrawTest
    from search_spaces.mechanism import Mechanism

CASES = (("min_sep_ra", 128, 0.02, 1e-5), ("nested_ra", 128, 0.05, 1e-5), ("min_sep_ra", 128, 0.02, 1e-8), ("nested_ra", 128, 0.05, 1e-8))
RATE_BLOCKS = 40
TILTED_RATE_BLOCKS = 4
TABLE_LIMIT = 4 * 2**30
"""Bytes of the tables of the rows `tilted`; a certificate's own may hold less, since every worker has one."""

EPSILON = 4.0
THRESHOLD = 0.9
"""Threshold over δ of the predicted tail-sum tests."""


def run_case(scheme: str, bandwidth: int, r: float, delta: float, seed: int, alphas: Sequence[int]) -> dict[str, object]:
    """One certificate in this process; what it took, as plain values."""
    started = time.perf_counter()
    from accountants.monte_carlo.pilot import solve_sigma
    from accountants.monte_carlo.simulation import Simulation
    from accountants.monte_carlo.streams import Stream
    from accountants.tail_sum import samples_needed
    from engine.certification import certify_best
    from search_spaces.problem import Problem
    from search_spaces.schemes import make_scheme
    from search_spaces.strategies import harmonic

    law = make_scheme(scheme, iterations=1024, participations=4, bandwidth=bandwidth)
    strategy = harmonic(iterations=1024, bandwidth=bandwidth, r=r)
    drawing: dict[str, float] = {}
    problem = Problem(iterations=law.iterations, participations=law.participations, epsilon=EPSILON, delta=delta)
    made = certify_best(problem, [(law, strategy)], certificate="tilted", seed=seed, draw=timed(drawing))
    seconds = time.perf_counter() - started
    simulation, stream = Simulation(scheme=law, strategy=strategy), Stream(seed=seed, purpose="estimate")
    started = time.perf_counter()
    drawn = sum(simulation.draw(stream, block, sigmas=[made.mechanism.sigma]).log_ratio.size for block in range(RATE_BLOCKS))
    rate = drawn / (time.perf_counter() - started)
    root = solve_sigma(law, strategy, epsilon=EPSILON, delta=delta, samples=65_536, seed=seed + 1)
    plain = {
        method: 2 * samples_needed(method, delta=delta, threshold=fraction * delta)
        for method, fraction in (("published", 0.5), ("tail_sum", THRESHOLD))
    }
    return {
        "seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "plain": plain,
        "rate": rate, "sigma": made.mechanism.sigma, "root": root.sigma,
        "tests": [
            {
                "direction": test.direction, "sampler": test.sampler, "alpha": test.alpha, "samples": test.samples, "bound": test.bound,
                "seconds": drawing.get(test.direction, 0.0),
            }
            for test in made.certificate.chosen.tests
        ],
        "tilted": [tilted(made.mechanism, alpha=alpha, delta=delta, seed=seed) for alpha in alphas],
    }


def timed(seconds: dict[str, float]) -> "DrawTest":
    """`draw_test` that adds the seconds it takes to those of its direction."""
    from engine.certification import draw_test

    def draw(plan, candidate, direction, blocks, on_wait):
        started = time.perf_counter()
        for sums in draw_test(plan, candidate, direction, blocks, on_wait):
            seconds[direction] = seconds.get(direction, 0.0) + time.perf_counter() - started
            yield sums
            started = time.perf_counter()

    return draw


def tilted(mechanism: "Mechanism", *, alpha: int, delta: float, seed: int) -> dict[str, object]:
    """What the remove test of a mechanism takes with so many replicas, as plain values; `reason` says why it cannot be had."""
    from accountants.monte_carlo.simulation import Simulation
    from accountants.monte_carlo.streams import Stream
    from accountants.tail_sum import samples_needed
    from accountants.tilted import tilted_law, tilted_remove_bound, tilted_remove_values, tilted_unsupported

    if reason := tilted_unsupported(mechanism, alpha=alpha, memory_limit=TABLE_LIMIT):
        return {"alpha": alpha, "reason": reason}
    law = tilted_law(mechanism, alpha=alpha, memory_limit=TABLE_LIMIT)
    bound = tilted_remove_bound(mechanism, epsilon=EPSILON, alpha=alpha, log_moment=law.log_residual_moment)
    samples = samples_needed("tail_sum", delta=delta, threshold=THRESHOLD * delta, bound=bound)
    simulation = Simulation(scheme=mechanism.scheme, strategy=mechanism.strategy)
    stream = Stream(seed=seed, purpose="estimate", path=(alpha,))
    values = lambda block: tilted_remove_values(
        simulation.draw(stream, block, sigmas=[mechanism.sigma], sampler=law.sample).log_ratio[0, 0],
        epsilon=EPSILON, xi=mechanism.gaussian_factor, alpha=alpha, log_moment=law.log_residual_moment,
    )
    # The first block compiles.
    values(0)
    started = time.perf_counter()
    drawn = sum(values(block).size for block in range(1, 1 + TILTED_RATE_BLOCKS))
    rate = drawn / (time.perf_counter() - started)
    return {
        "alpha": alpha, "samples": samples, "bound": bound, "table": law.seconds, "bytes": law.bytes, "seconds": law.seconds + samples / rate,
    }


def show(scheme: str, delta: float, result: dict[str, object]) -> None:
    """The rows of one case."""
    for method, samples in result["plain"].items():
        print(f"{scheme:12} {delta:8.0e} {method:10} {'both':7} {samples:14,d} {samples / result['rate']:12,.0f} s extrapolated")
    for test in result["tests"]:
        sampler = test["sampler"] + (f" α={test['alpha']}" if test["sampler"] == "tilted" else "")
        start = f"{scheme:12} {delta:8.0e} {'certified':10} {test['direction']:7}"
        print(f"{start} {test['samples']:14,d} {test['seconds']:12,.1f} s {sampler}, B={test['bound']:.3g}")
    for row in result["tilted"]:
        start = f"{scheme:12} {delta:8.0e} {'tilted α=' + str(row['alpha']):10} {'remove':7}"
        if "reason" in row:
            print(f"{start} {row['reason']}")
            continue
        print(
            f"{start} {row['samples']:14,d} {row['seconds']:12,.1f} s predicted, of which {row['table']:.1f} s the table, "
            f"{row['bytes'] / 2**30:.2f} GiB, B={row['bound']:.3g}"
        )
    print(
        f"{scheme:12} {delta:8.0e} {'certified':10} {'in all':7} {result['seconds']:14.1f} s, {result['memory']:.2f} GiB, "
        f"sigma {result['sigma']:.4f} = "
        f"{result['sigma'] / result['root']:.4f} of the pilot's root"
    )


def main() -> None:
    """Runs the cases one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this case here and print JSON (used by the runner)")
    parser.add_argument("--deltas", type=float, nargs="*", default=[1e-5, 1e-8])
    parser.add_argument("--alphas", type=int, nargs="*", default=[], help="rows of tilted tests with these numbers of replicas, 2 or 3")
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(json.dumps(run_case(*CASES[arguments.case], arguments.seed, arguments.alphas)))
        return
    for number, (scheme, _, _, delta) in enumerate(CASES):
        if delta in arguments.deltas:
            command = [sys.executable, "-m", "benchmarks.certificates", "--case", str(number), "--seed", str(arguments.seed)]
            command += ["--alphas", *map(str, arguments.alphas)]
            show(scheme, delta, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    main()
