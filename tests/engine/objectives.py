"""Objectives of a few milliseconds that stand in for the pilot; named by import path, as workers load them."""

import math
import os
import signal
import time

from engine.outcome import Outcome


def smooth(problem, *, scheme, bandwidth, r, samples, seed):
    """A bowl around b = 64, r·b = 2, a little noise that shrinks with the samples, and a different floor per scheme."""
    floor = {"min_sep_ra": 0.9, "nested_ra": 1.0, "cyclic_ra": 1.3, "cyclic_poisson": 1.45}.get(scheme, 1.2)
    bowl = 0.05 * (math.log2(bandwidth / 64)) ** 2 + 0.05 * (math.log1p(bandwidth * r) - math.log(3)) ** 2
    bound = scheme.startswith("cyclic")
    rmse = floor + bowl + (0.0 if bound else 0.1 / samples)
    return Outcome(
        sigma=rmse, sigma_standard_error=None if bound else 0.01, rmse=rmse, rmse_standard_error=None if bound else 0.01,
        multiple_of_limit=rmse / 0.765, kind="bound" if bound else "estimate", accountant="fake", samples=0 if bound else samples,
        resolved=True, seconds=0.0, device="cpu",
    )


def slow(problem, **configuration):
    """`smooth` after 50 ms."""
    time.sleep(0.05)
    return smooth(problem, **configuration)


def empty(problem, **configuration):
    """The least there can be: one number."""
    return {"rmse": 1.0}


def troubled(problem, *, bandwidth, **configuration):
    """A different failure at every small bandwidth."""
    if bandwidth == 1:
        return {"rmse": float("nan")}
    if bandwidth == 2:
        raise ValueError("no such luck\nat all")
    if bandwidth == 4:
        return {"sigma": 1.0}
    if bandwidth == 8:
        return {"rmse": float("inf")}
    if bandwidth == 16:
        return {"rmse": 0.5, "resolved": False}
    if bandwidth == 32:
        raise MemoryError
    return smooth(problem, bandwidth=bandwidth, **configuration)


def lethal(problem, *, bandwidth, **configuration):
    """Kills its worker at b = 1, as the kernel would."""
    if bandwidth == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return smooth(problem, bandwidth=bandwidth, **configuration)


def greedy(problem, *, bandwidth, **configuration):
    """Takes more memory at b = 1 than the machine is said to have, piece by piece."""
    if bandwidth == 1:
        held = []
        for _ in range(int(os.environ["GREEDY_MIB"]) // 64):
            held.append(b"x" * (64 * 2**20))
            time.sleep(0.01)
        time.sleep(10)
    return smooth(problem, bandwidth=bandwidth, **configuration)
