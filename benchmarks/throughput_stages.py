"""Where the time of a Monte Carlo sample goes, stage by stage; printed by `python -m benchmarks.throughput --stages`.

Programs that end after the first, second, … stage are timed in turns, and a stage is what its program takes longer than the one before; the
recurrence is timed by itself. So the stages and the rest (calls, copies, what the compiler fuses: it can be negative) add up to the whole.
"""

import functools
import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from accountants.monte_carlo import sweep
from accountants.monte_carlo.products import noise_products, simulate_products, standard_normals
from accountants.monte_carlo.simulation import P, Simulation, device_arrays
from accountants.monte_carlo.streams import Stream

STREAM = Stream(seed=0, purpose="estimate")
STAGES = ("participations", "normals", "correlate", "overlaps", "recurrence", "rest", "projection")


def stage_programs(simulation: Simulation, *, sigma: float) -> dict[str, Callable[[int], object]]:
    """Programs that take a block number, by name; each draws a block as far as its name says."""
    tables, law, energies, _, _, iterations, participations = device_arrays(simulation.scheme, simulation.strategy, simulation.boost)
    size, model = simulation.block_size, simulation.model
    normals = jax.jit(functools.partial(standard_normals, samples=size))
    noise = jax.jit(functools.partial(noise_products, samples=size))
    products = jax.jit(simulate_products)
    positions = lambda block: simulation.positions(STREAM.positions(block), (P,), None)
    fixed = jnp.asarray(positions(0), jnp.int32)
    chosen = law | {"fire_probability": law["fire_probability"][0]}

    @jax.jit
    def recurrence(signal, noise):
        log_terms = (signal + sigma * noise - energies[:, None]) / sigma**2
        return sweep.log_likelihood_ratio(log_terms, chosen, window=model.window, counted=model.recurrence.counted, plain=True)

    drawn = products(STREAM.normals(0), fixed, tables, iterations, participations)
    return {
        "participations": positions,
        "normals": lambda block: normals(STREAM.normals(block), tables),
        "noise": lambda block: noise(STREAM.normals(block), tables, iterations),
        "products": lambda block: products(STREAM.normals(block), fixed, tables, iterations, participations),
        "recurrence": lambda block: recurrence(*drawn),
        "draw": lambda block: simulation.draw(STREAM, block, sigmas=[sigma], project=False).log_ratio,
        "whole": lambda block: simulation.draw(STREAM, block, sigmas=[sigma]).log_ratio,
    }


def stage_seconds(programs: Mapping[str, Callable[[int], object]], *, repetitions: int, blocks: int) -> dict[str, float]:
    """Seconds of a block by stage, in the order of `STAGES`, from the fastest block of every program: other work on the machine only adds."""
    best = dict.fromkeys(programs, float("inf"))
    # The first round compiles.
    for repetition in range(repetitions + 1):
        for name, program in programs.items():
            for block in range(blocks):
                started = time.perf_counter()
                jax.block_until_ready(program(block))
                if repetition:
                    best[name] = min(best[name], time.perf_counter() - started)
    apart = {
        "participations": best["participations"], "normals": best["normals"], "correlate": best["noise"] - best["normals"],
        "overlaps": best["products"] - best["noise"], "recurrence": best["recurrence"],
        "rest": best["draw"] - best["participations"] - best["products"] - best["recurrence"],
        "projection": best["whole"] - best["draw"],
    }
    return {stage: apart[stage] for stage in STAGES}


def print_stages(simulations: Mapping[str, Simulation], *, sigma: float, repetitions: int, blocks: int) -> None:
    """One row per scheme: microseconds per sample and share of the whole, by stage."""
    print(f"{'scheme':18}" + "".join(f"{stage:>16}" for stage in STAGES) + f"{'whole':>10}")
    for name, simulation in simulations.items():
        with jax.enable_x64(True):
            seconds = stage_seconds(stage_programs(simulation, sigma=sigma), repetitions=repetitions, blocks=blocks)
        whole = sum(seconds.values())
        cells = [f"{value / simulation.block_size * 1e6:8.2f} us {value / whole:4.0%}" for value in seconds.values()]
        print(f"{name:18}" + "".join(f"{cell:>16}" for cell in cells) + f"{whole / simulation.block_size * 1e6:7.2f} us")
