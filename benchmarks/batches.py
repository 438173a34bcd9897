"""Drawing all batches of a run: time and memory per scheme, next to JAX-Privacy's samplers. Run as `python -m benchmarks.batches`."""

import argparse
import importlib.util
import time
import tracemalloc
from collections.abc import Iterable, Iterator

from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, make_scheme

ITERATIONS, PARTICIPATIONS, BANDWIDTH = 1024, 4, 128
FEWER = 100
"""JAX-Privacy's b-min-sep sampler compares every batch with the b−1 before it; it gets this part of the examples."""


def samplers(num_examples: int) -> Iterator[tuple[str, Iterable]]:
    """(name, batches) of every scheme at the anchor, then of JAX-Privacy where it is installed."""
    problem = Problem(iterations=ITERATIONS, participations=PARTICIPATIONS, epsilon=1, delta=1e-5)
    for name, scheme in SCHEMES.items():
        bandwidth = max(b for b in scheme.bandwidths(problem) if b <= BANDWIDTH)
        made = make_scheme(name, iterations=ITERATIONS, participations=PARTICIPATIONS, bandwidth=bandwidth)
        yield name, made.batch_iterator(num_examples, 0)
    if importlib.util.find_spec("jax_privacy") is None:
        return
    from jax_privacy import batch_selection as peer

    rate = PARTICIPATIONS / ITERATIONS
    yield "jax-privacy: Poisson", peer.CyclicPoissonSampling(rate, ITERATIONS).batch_iterator(num_examples, 0)
    yield "jax-privacy: cyclic Poisson", peer.CyclicPoissonSampling(
        rate * BANDWIDTH, ITERATIONS, cycle_length=BANDWIDTH, partition_type=peer.PartitionType.INDEPENDENT,
    ).batch_iterator(num_examples, 0)
    yield "jax-privacy: balls in bins", peer.BallsInBinsSampling(ITERATIONS, ITERATIONS // PARTICIPATIONS).batch_iterator(num_examples, 0)
    yield f"jax-privacy: b-min-sep, 1/{FEWER}", peer.BMinSepSampling(
        1 / (1 / rate - BANDWIDTH + 1), ITERATIONS, BANDWIDTH, warm_start=False,
    ).batch_iterator(num_examples // FEWER, 0)


def main() -> None:
    """Prints one line per sampler; memory is that of NumPy's arrays, measured in a second run with half the examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000_000)
    examples = parser.parse_args().examples
    print(f"{examples} examples, T={ITERATIONS}, K={PARTICIPATIONS}, b={BANDWIDTH} where the scheme has one")
    for (name, batches), (_, again) in zip(samplers(examples), samplers(examples // 2)):
        started, cpu = time.perf_counter(), time.process_time()
        largest = max(batch.size for batch in batches)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        tracemalloc.start()
        for _ in again:
            pass
        peak = tracemalloc.get_traced_memory()[1] / (examples // 2)
        tracemalloc.stop()
        print(f"{name:<28}{seconds:>8.1f} s ({cpu:.1f} s CPU)  {peak:>5.1f} bytes/example  largest batch {largest}", flush=True)


if __name__ == "__main__":
    main()
