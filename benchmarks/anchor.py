"""The anchor problem (T=1024, K=4, ε=4, δ=1e-5): every scheme's best RMSE, and the certified two. Run as `python -m benchmarks.anchor`."""

import argparse
import os
import time

from engine.certification import certify_best, draw_test
from engine.compare import compare
from engine.configuration import Configuration
from launch.progress import progress
from search_spaces.problem import Problem

ANCHOR = Problem(iterations=1024, participations=4, epsilon=4.0, delta=1e-5)
TARGETS = {"cyclic_poisson": 1.443, "cyclic_ra": 1.297, "nested_ra": 0.985, "min_sep_ra": 0.90}
"""Largest RMSE wanted: a bound for the cyclic schemes, certified for the others."""

CERTIFIED = ("nested_ra", "min_sep_ra")


def main() -> None:
    """Prints the comparison, then the certified RMSE of the schemes that are certified by sampling, each beside its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    started = time.perf_counter()
    with progress() as tell:
        rows = {row.scheme: row for row in compare(ANCHOR, seed=arguments.seed, workers=arguments.workers, progress=tell)}
    print(f"{'scheme':18} {'b':>5} {'r':>8} {'sigma':>8} {'RMSE':>8} {'kind':>9} {'target':>8} {'seconds':>8}")
    for row in rows.values():
        if row.rmse is None:
            print(f"{row.scheme:18} {row.note}")
            continue
        target = f"{TARGETS[row.scheme]:8.3f}" if row.scheme in TARGETS and row.scheme not in CERTIFIED else f"{'':8}"
        print(f"{row.scheme:18} {row.bandwidth:5d} {row.r:8.4f} {row.sigma:8.4f} {row.rmse:8.4f} {row.kind:>9} {target} {row.seconds:8.1f}")
    for name in CERTIFIED:
        best = Configuration(scheme=name, bandwidth=rows[name].bandwidth, r=rows[name].r)
        with progress() as tell:
            made = certify_best(
                ANCHOR, [(best.batch_scheme(ANCHOR), best.strategy(ANCHOR))], certificate="tilted", seed=arguments.seed, draw=draw_test,
                progress=tell,
            )
        mechanism = made.mechanism
        print(
            f"{name:18} {best.bandwidth:5d} {best.r:8.4f} {mechanism.sigma:8.4f} {mechanism.rmse:8.4f} {'certified':>9} "
            f"{TARGETS[name]:8.3f} {made.seconds:8.1f}"
        )
    print(f"{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
