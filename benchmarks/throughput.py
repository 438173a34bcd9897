"""Monte Carlo samples per second at the anchor problem, beside jax-privacy's own samplers. Run as `python -m benchmarks.throughput`.

Both sides draw privacy losses under P in float64, in the same process and in turns, so that the machine's mood is shared; the ratio is
of the medians. Without jax-privacy installed only our rates are printed. With `--stages` it is the share of each stage that is printed.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from accountants.monte_carlo.simulation import Simulation
from accountants.monte_carlo.streams import Stream
from benchmarks.throughput_stages import print_stages
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

ITERATIONS, PARTICIPATIONS, BANDWIDTH, SIGMA = 1024, 4, 128, 0.8
OURS = ("min_sep_poisson", "balls_in_bins", "nested_ra", "min_sep_ra")
PEER_OF = {"min_sep_poisson": "min_sep_poisson", "balls_in_bins": "balls_in_bins", "min_sep_ra": "min_sep_poisson", "nested_ra": "min_sep_poisson"}
PEER_SAMPLES = {"min_sep_poisson": 4096, "balls_in_bins": 256}


def anchor_simulation(name: str) -> Simulation:
    """A scheme at the anchor problem."""
    return Simulation(
        scheme=make_scheme(name, iterations=ITERATIONS, participations=PARTICIPATIONS, bandwidth=BANDWIDTH),
        strategy=harmonic(iterations=ITERATIONS, bandwidth=BANDWIDTH, r=0.02),
    )


def our_sampler(name: str, blocks: int) -> Callable[[], int]:
    """Draws some blocks of losses; returns their number."""
    simulation = anchor_simulation(name)
    stream = Stream(seed=0, purpose="estimate")

    def draw() -> int:
        return sum(simulation.draw(stream, block, sigmas=[SIGMA], project=False).log_ratio.size for block in range(blocks))

    return draw


def peer_samplers() -> dict[str, Callable[[], int]]:
    """jax-privacy's samplers of the same laws; empty if it is not installed."""
    try:
        from jax_privacy import batch_selection
        from jax_privacy.experimental.monte_carlo import sample_generation
    except ImportError:
        return {}
    gap = ITERATIONS // PARTICIPATIONS
    strategies = {
        "min_sep_poisson": batch_selection.BMinSepSampling(
            sampling_prob=1 / (gap - BANDWIDTH + 1), iterations=ITERATIONS, min_sep=BANDWIDTH,
        ),
        "balls_in_bins": batch_selection.BallsInBinsSampling(iterations=ITERATIONS, cycle_length=gap),
    }
    column = np.array(harmonic(iterations=ITERATIONS, bandwidth=BANDWIDTH, r=0.02).coefficients)

    def sampler(name: str) -> Callable[[], int]:
        return lambda: np.size(sample_generation.get_privacy_loss_sample(
            strategies[name], SIGMA, column, seed=0, num_samples=PEER_SAMPLES[name],
        )[0])

    return {name: sampler(name) for name in strategies}


def rate(draw: Callable[[], int]) -> float:
    """Samples per second of one call."""
    started = time.perf_counter()
    number = draw()
    return number / (time.perf_counter() - started)


def main() -> None:
    """Prints one row per scheme: our rate, the peer's, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--blocks", type=int, default=16, help="blocks of our samples per repetition")
    parser.add_argument("--stages", action="store_true", help="what each stage of our samples takes, instead of the comparison")
    arguments = parser.parse_args()
    if arguments.stages:
        simulations = {name: anchor_simulation(name) for name in OURS}
        print_stages(simulations, sigma=SIGMA, repetitions=arguments.repetitions, blocks=arguments.blocks)
        return
    draws = {("ours", name): our_sampler(name, arguments.blocks) for name in OURS}
    draws |= {("jax-privacy", name): draw for name, draw in peer_samplers().items()}
    for draw in draws.values():
        draw()
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in draws}
    for _ in range(arguments.repetitions):
        for key, draw in draws.items():
            rates[key].append(rate(draw))
    median = {key: statistics.median(values) for key, values in rates.items()}
    print(f"{'scheme':18} {'ours/s':>10} {'peer/s':>10} {'ratio':>8}  peer")
    for name in OURS:
        peer = median.get(("jax-privacy", PEER_OF[name]))
        ours = median["ours", name]
        shown = f"{peer:10.0f} {ours / peer:8.2f}  jax-privacy {PEER_OF[name]}" if peer else f"{'-':>10} {'-':>8}  not installed"
        print(f"{name:18} {ours:10.0f} {shown}")


if __name__ == "__main__":
    main()
