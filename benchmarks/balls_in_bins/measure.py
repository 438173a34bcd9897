"""The measurements, each a function of plain values that returns plain values: ε, run times, divergences and truncations."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from accountants.balls_in_bins import renyi_truncations as truncations
from accountants.balls_in_bins.conditional_composition import conditional_epsilon
from accountants.balls_in_bins.conversion import epsilon_from_moments
from accountants.balls_in_bins.gram import cyclic_bandwidth
from accountants.balls_in_bins.gram_majorant import pld_epsilon
from accountants.balls_in_bins.prefix_statistics import TEMPERATURES, strategy_statistics
from accountants.balls_in_bins.renyi_add import add_log_moments, published_add_epsilon
from accountants.balls_in_bins.renyi_choice import renyi_bounds
from accountants.balls_in_bins.renyi_dp import moments
from accountants.evidence import DIRECTIONS
from benchmarks.balls_in_bins import exact, peers
from benchmarks.balls_in_bins.cases import Case
from benchmarks.balls_in_bins.monte_carlo import monte_carlo_epsilon
from search_spaces.errors import InputError

PUBLISHED_GRID = {2: 25, 4: 7, 8: 4}
"""Bandwidth → largest α of the published Rényi procedure; 1 → 40 for DP-SGD."""

PUBLISHED_ORDER = 8
"""α of the published run times."""

SAMPLES_TIMES_DELTA = 20
"""Samples over 1/δ that the published Monte Carlo procedure needs for a test with failure probability 0.01."""

MOST_TIMED_SAMPLES = 40_000
"""More samples than this are not drawn to time them: their time is proportional to their number."""

TARGETS = {
    "renyi sum, DP-SGD b=1000, α=32": 1.0, "renyi sum, BSR p=4 b=100 T=1000, α=8": 10.0, "cc, BSR p=4 b=100 T=1000": 30.0,
    "cc, the same, next σ": 5.0, "majorant, the same": 2.0,
}
"""Seconds on two cores that this project set itself as targets."""


def monte_carlo(case: Case, *, sigma: float, delta: float) -> float:
    """An estimate, no guarantee."""
    return monte_carlo_epsilon(case.gram, sigma=sigma, delta=delta, samples=40_000)


def published_renyi(case: Case, *, sigma: float, delta: float) -> float:
    """The published procedure: its truncation on its grid of (bandwidth, α), add by the AM–GM bound, the larger of the two."""
    gram, grid = case.gram, ({1: 40} if case.family == "DP-SGD" else PUBLISHED_GRID)
    remove = []
    for bandwidth, order in grid.items():
        logs = truncations.published(gram, bandwidth=bandwidth).moments(sigma=sigma, order=order).upper_logs()
        remove.append(epsilon_from_moments(logs, delta=delta)[0])
    return max(min(remove), published_add_epsilon(gram, sigma=sigma, delta=delta, order=max(grid.values()))[0])


def renyi(case: Case, *, sigma: float, delta: float) -> float:
    """Ours: truncation, order and conversion chosen for the smallest bound."""
    return max(bound.value for bound in renyi_bounds(case.gram, sigma=sigma, delta=delta))


def composition(case: Case, *, sigma: float, delta: float, temperatures: Sequence[float] = TEMPERATURES, **settings: object) -> float:
    """Conditional composition; `settings` as `conditional_epsilon` takes them."""
    statistics = strategy_statistics(case.strategy, case.bins, tuple(temperatures))
    return max(conditional_epsilon(statistics, sigma=sigma, direction=direction, delta=delta, **settings).value for direction in DIRECTIONS)


def published_composition(case: Case, *, sigma: float, delta: float) -> float:
    """Conditional composition with AM–GM bounds alone and the published split of δ_E."""
    return composition(case, sigma=sigma, delta=delta, temperatures=(), split="even")


def majorant(case: Case, *, sigma: float, delta: float) -> float:
    """Random allocation above the Gram matrix."""
    return max(pld_epsilon(case.gram, sigma=sigma, direction=direction, delta=delta).value for direction in DIRECTIONS)


ACCOUNTANTS: Mapping[str, Callable[..., float]] = {
    "monte carlo": monte_carlo, "published renyi": published_renyi, "renyi": renyi, "published cc": published_composition,
    "cc": composition, "majorant": majorant,
}
"""(case, σ, δ) → ε of the larger direction; all but the first are bounds."""

BOUNDS = ("renyi", "cc", "majorant")
"""Those of this project."""


def epsilon(case: Case, *, accountant: str, multiplier: float, delta: float) -> dict[str, object]:
    """ε at σ = multiplier·‖longest mean‖, by one of `ACCOUNTANTS` or of the peers; None where it is infinite."""
    functions = {**ACCOUNTANTS, **peers.ACCOUNTANTS}
    start = time.process_time()
    found = functions[accountant](case, sigma=multiplier * case.norm, delta=delta)
    return {"epsilon": found if math.isfinite(found) else None, "cpu_seconds": time.process_time() - start}


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of this process: other load on the machine counts little."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run_times(case: Case, *, sigma: float, delta: float) -> dict[str, object]:
    """CPU seconds of one ε at δ by every accountant; the Gram matrix is there already."""
    gram, target = case.gram, {"sigma": sigma, "delta": delta}
    samples = int(min(SAMPLES_TIMES_DELTA / delta, MOST_TIMED_SAMPLES))
    sampled = cpu_seconds(lambda: monte_carlo_epsilon(gram, **target, samples=samples))
    strategy_statistics.cache_clear()
    return {
        "monte carlo": sampled * SAMPLES_TIMES_DELTA / delta / samples,
        "renyi sum": cpu_seconds(lambda: moments(gram, sigma=sigma, order=PUBLISHED_ORDER, bandwidth=cyclic_bandwidth(gram))),
        "renyi": cpu_seconds(lambda: renyi(case, **target)),
        "cc": cpu_seconds(lambda: composition(case, **target, temperatures=())),
        "cc, next σ": cpu_seconds(lambda: composition(case, sigma=1.1 * sigma, delta=delta, temperatures=())),
        "majorant": cpu_seconds(lambda: majorant(case, **target)),
    }


def targets() -> dict[str, object]:
    """CPU seconds of everything in `TARGETS`."""
    sgd, bsr = (Case(family="BSR", bandwidth=p, bins=b, epochs=k) for p, b, k in ((1, 1000, 1), (4, 100, 10)))
    gram = bsr.gram
    composed = lambda sigma: composition(bsr, sigma=sigma, delta=1e-5, temperatures=())
    strategy_statistics.cache_clear()
    work = (
        lambda: moments(sgd.gram, sigma=1.0, order=32, bandwidth=1), lambda: moments(gram, sigma=8.0, order=8, bandwidth=4),
        lambda: composed(8.0), lambda: composed(9.0), lambda: majorant(bsr, sigma=8.0, delta=1e-5),
    )
    return {name: cpu_seconds(one) for name, one in zip(TARGETS, work, strict=True)}


def divergences(case: Case, *, multiplier: float, orders: Sequence[int]) -> dict[str, object]:
    """R_α of remove (exact), of add (exact where a quadrature serves, else None) and the published bound on add, per order."""
    gram, sigma = case.gram, multiplier * case.norm
    logs = moments(gram, sigma=sigma, order=max(orders), bandwidth=cyclic_bandwidth(gram)).upper_logs()
    bounds = add_log_moments(gram, sigma=sigma, orders=np.array(orders))
    truths = [exact.add_log_moment(gram, sigma=sigma, order=order) for order in orders]
    return {
        "remove": [float(logs[order] / (order - 1)) for order in orders],
        "published_add": [float(bound / (order - 1)) for bound, order in zip(bounds, orders)],
        "add": [None if truth is None else truth / (order - 1) for truth, order in zip(truths, orders)],
    }


def directions(case: Case, *, multiplier: float, delta: float) -> dict[str, object]:
    """ε of remove and of add by our Rényi accountant, and of add by the published bound."""
    gram, sigma = case.gram, multiplier * case.norm
    remove, add = (bound.value for bound in renyi_bounds(gram, sigma=sigma, delta=delta))
    return {"remove": remove, "add": add, "published_add": published_add_epsilon(gram, sigma=sigma, delta=delta, order=40)[0]}


def truncated(case: Case, *, multiplier: float, order: int, truncated_to: int) -> dict[str, object]:
    """R_α by every truncation to a band, over the exact R_α."""
    gram, sigma = case.gram, multiplier * case.norm
    logs = {
        "published": truncations.published(gram, bandwidth=truncated_to).moments(sigma=sigma, order=order).upper_logs()[order],
        "shifted": truncations.shifted(gram, bandwidth=truncated_to).moments(sigma=sigma, order=order).upper_logs()[order],
        "row-wise": truncations.row_wise_log_moment(gram, sigma=sigma, order=order, bandwidth=truncated_to),
        "thinned": min(
            truncations.thinned(gram, stride=stride, bandwidth=min(truncated_to, len(gram) // stride)).moments(
                sigma=sigma, order=order).upper_logs()[order]
            for stride in truncations.strides(len(gram)) if stride > 1
        ),
    }
    truth = exact.remove_log_moment(gram, sigma=sigma, order=order)
    return {name: float(log / truth) for name, log in logs.items()} | {"exact": truth / (order - 1)}


def peer_seconds(*, bins: int, order: int, of: str) -> dict[str, object]:
    """CPU seconds of R_α of DP-SGD at σ = 1, ours or the peer's sum over integer partitions.

    Raises:
      InputError: unknown peer.
    """
    if of == "ours":
        gram = np.eye(bins)
        found: list[float] = []
        seconds = cpu_seconds(lambda: found.append(moments(gram, sigma=1.0, order=order, bandwidth=1).upper_logs()[order] / (order - 1)))
    elif of == "random_allocation":
        # The first call compiles, for every length of a partition.
        found = [peers.partition_renyi(bins=bins, order=order, sigma=1.0)]
        seconds = cpu_seconds(lambda: peers.partition_renyi(bins=bins, order=order, sigma=1.0))
    else:
        raise InputError(f"Expected of={of!r} to be ours or random_allocation.")
    return {"cpu_seconds": seconds, "value": float(found[0])}
