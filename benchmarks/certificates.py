"""What a certificate costs at the anchor: samples, seconds and memory. Run as `python -m benchmarks.certificates`.

Each case runs in a fresh process, compilation included, one strategy with σ to be found. The rows `published` and `tail_sum` are the
samples these procedures need for one candidate and both directions at thresholds δ/2 and 0.9δ, with seconds extrapolated from the
plain sampling rate measured in the same run; the rows `certified` are measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

CASES = (("min_sep_ra", 128, 0.02, 1e-5), ("nested_ra", 128, 0.05, 1e-5), ("min_sep_ra", 128, 0.02, 1e-8), ("nested_ra", 128, 0.05, 1e-8))
RATE_BLOCKS = 40


def run_case(scheme: str, bandwidth: int, r: float, delta: float, seed: int) -> dict[str, object]:
    """One certificate in this process; what it took, as plain values."""
    started = time.perf_counter()
    from accountants.monte_carlo.pilot import solve_sigma
    from accountants.monte_carlo.simulation import Simulation
    from accountants.monte_carlo.streams import Stream
    from accountants.tail_sum import samples_needed
    from engine.certification import certify
    from search_spaces.schemes import make_scheme
    from search_spaces.strategies import harmonic

    law = make_scheme(scheme, iterations=1024, participations=4, bandwidth=bandwidth)
    strategy = harmonic(iterations=1024, bandwidth=bandwidth, r=r)
    made = certify(scheme=law, strategy=strategy, epsilon=4.0, delta=delta, seed=seed)
    seconds = time.perf_counter() - started
    simulation, stream = Simulation(scheme=law, strategy=strategy), Stream(seed=seed, purpose="estimate")
    timed = time.perf_counter()
    drawn = sum(simulation.draw(stream, block, sigmas=[made.mechanism.sigma]).log_ratio.size for block in range(RATE_BLOCKS))
    rate = drawn / (time.perf_counter() - timed)
    root = solve_sigma(law, strategy, epsilon=4.0, delta=delta, samples=65_536, seed=seed + 1)
    plain = {
        method: 2 * samples_needed(method, delta=delta, threshold=fraction * delta)
        for method, fraction in (("published", 0.5), ("tail_sum", 0.9))
    }
    return {
        "seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "plain": plain,
        "rate": rate, "sigma": made.mechanism.sigma, "root": root.sigma,
        "tests": [
            {"direction": test.direction, "sampler": test.sampler, "alpha": test.alpha, "samples": test.samples, "bound": test.bound}
            for test in made.certificate.chosen.tests
        ],
    }


def show(scheme: str, delta: float, result: dict[str, object]) -> None:
    """The rows of one case."""
    for method, samples in result["plain"].items():
        print(f"{scheme:12} {delta:8.0e} {method:10} {'both':7} {samples:14,d} {samples / result['rate']:12,.0f} s extrapolated")
    for test in result["tests"]:
        sampler = test["sampler"] + (f" α={test['alpha']}" if test["sampler"] == "tilted" else "")
        print(f"{scheme:12} {delta:8.0e} {'certified':10} {test['direction']:7} {test['samples']:14,d}   {sampler}, B={test['bound']:.3g}")
    print(
        f"{scheme:12} {delta:8.0e} {'certified':10} {'in all':7} {result['seconds']:14.1f} s, {result['memory']:.2f} GiB, sigma {result['sigma']:.4f} = "
        f"{result['sigma'] / result['root']:.4f} of the pilot's root"
    )


def main() -> None:
    """Runs the cases one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this case here and print JSON (used by the runner)")
    parser.add_argument("--deltas", type=float, nargs="*", default=[1e-5, 1e-8])
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(json.dumps(run_case(*CASES[arguments.case], arguments.seed)))
        return
    for number, (scheme, _, _, delta) in enumerate(CASES):
        if delta in arguments.deltas:
            command = [sys.executable, "-m", "benchmarks.certificates", "--case", str(number), "--seed", str(arguments.seed)]
            show(scheme, delta, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    main()
