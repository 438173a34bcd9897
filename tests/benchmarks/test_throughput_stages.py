"""The stages of a sample add up to the whole, and every program draws what its name says."""

import types

import jax
import numpy as np

from accountants.monte_carlo.simulation import Simulation
from benchmarks.throughput_stages import STAGES, STREAM, print_stages, stage_programs, stage_seconds
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic
from tests import tolerances


def small(name: str) -> Simulation:
    return Simulation(
        scheme=make_scheme(name, iterations=12, participations=3, bandwidth=4), strategy=harmonic(iterations=12, bandwidth=4, r=0.1)
    )


def test_the_programs_are_parts_of_the_draw():
    simulation = small("min_sep_ra")
    with jax.enable_x64(True):
        made = {name: program(0) for name, program in stage_programs(simulation, sigma=0.8).items()}
    np.testing.assert_array_equal(made["noise"], made["products"][1])
    expected = simulation.draw(STREAM, 0, sigmas=[0.8]).log_ratio
    for name in ("draw", "whole"):
        np.testing.assert_allclose(made[name], expected, rtol=0, atol=tolerances.LOG_RATIO)
    # log LR without what is added for the factor, which is no stage.
    constant = simulation.model.removed / (2 * 0.8**2)
    np.testing.assert_allclose(np.asarray(made["recurrence"]) + constant, expected[0, 0], rtol=0, atol=tolerances.LOG_RATIO)


def test_stages_add_up_to_the_whole(monkeypatch):
    clock = iter(float(2**number) for number in range(100))
    monkeypatch.setattr("benchmarks.throughput_stages.time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    programs = dict.fromkeys(("participations", "normals", "noise", "products", "recurrence", "draw", "whole"), lambda block: None)
    seconds = stage_seconds(programs, repetitions=1, blocks=1)
    # After the seven readings of the round that compiles, program number n starts at 2^(7 + 2n) and ends at twice that.
    assert tuple(seconds) == STAGES and sum(seconds.values()) == 2.0 ** (7 + 2 * 6)
    assert seconds["correlate"] == 2.0 ** (7 + 2 * 2) - 2.0 ** (7 + 2 * 1)


def test_every_scheme_has_a_row(capsys):
    print_stages({"balls_in_bins": small("balls_in_bins")}, sigma=0.8, repetitions=1, blocks=1)
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["scheme", *STAGES, "whole"] and row.split()[0] == "balls_in_bins" and row.count("us") == len(STAGES) + 1
