"""The values that tests draw: their means, their ranges, and that nothing depends on how the blocks are split."""

import dataclasses
import math
import random

import numpy as np
import pytest

from accountants.certificates.profiles import profile
from accountants.certificates.records import Candidate, Plan
from accountants.certificates.sampling import BlockSums, draw_blocks, draw_values, outcome
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.pilot import solve_sigma
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import CertificateError, NumericalError
from tests import tolerances
from tests.accountants.certificates.conftest import EPSILON, candidate, plain_test, tiny_mechanism
from tests.accountants.quadrature import exact_deltas

BLOCKS = 12
SCHEMES = ("min_sep_ra", "nested_ra", "balls_in_bins", "min_sep_poisson")


@pytest.fixture(params=SCHEMES)
def mechanism(request):
    return tiny_mechanism(0.8, request.param)


def shapes(mechanism, *, tilt: bool):
    """The tests of both directions as the planner makes them."""
    pilot = solve_sigma(mechanism.scheme, mechanism.strategy, epsilon=EPSILON, delta=0.05, samples=4096, seed=0)
    return [
        profile(mechanism, pilot, direction, epsilon=EPSILON, delta=0.05, seed=0, tilt=tilt).shape for direction in DIRECTIONS
    ]


@pytest.mark.parametrize("tilt", [False, True])
def test_the_mean_of_the_values_is_delta(mechanism, tilt):
    for test, exact in zip(shapes(mechanism, tilt=tilt), exact_deltas(mechanism, epsilon=EPSILON)):
        if test.sampler == "bound":
            assert exact <= test.threshold * (1 + tolerances.QUADRATURE)
            continue
        stream = Stream(seed=3, purpose="certify", path=(0, DIRECTIONS.index(test.direction)))
        values = np.concatenate([draw_values(mechanism, test, EPSILON, stream, block) for block in range(BLOCKS)])
        assert values.min() >= 0 and values.max() <= test.bound * (1 + 1e-9)
        error = tolerances.STANDARD_DEVIATIONS * values.std() / math.sqrt(values.size) + tolerances.QUADRATURE * exact
        # Clipping can only lower the mean, by at most the bias.
        assert exact - test.bias - error <= values.mean() <= exact + error


def test_the_planner_tilts_and_shifts_where_it_may():
    remove, add = shapes(tiny_mechanism(0.8), tilt=True)
    assert (remove.sampler, add.sampler) == ("tilted", "shifted")
    assert remove.bound < 1 and add.bound < 1 and add.bias == 0
    remove, add = shapes(tiny_mechanism(0.8), tilt=False)
    assert (remove.sampler, add.sampler) == ("plain", "plain") and remove.bound == 1


@pytest.fixture
def drawn() -> tuple[Plan, list[BlockSums]]:
    plan = Plan(method="tail_sum", epsilon=EPSILON, delta=0.5, seed=5, candidates=(candidate(0.8, threshold=0.2, blocks=7),))
    return plan, draw_blocks(plan, 0, "remove", range(7))


def test_the_outcome_does_not_depend_on_chunks_or_their_order(drawn):
    plan, sums = drawn
    test = plan.candidates[0].tests[0]
    whole = outcome(test, sums)
    for chunks in ([range(7)], [range(4, 7), range(4)], [[6], [0], [3], [5], [1], [2], [4]]):
        assert outcome(test, [one for chunk in chunks for one in draw_blocks(plan, 0, "remove", chunk)]) == whole
    shuffled = random.Random(1).sample(sums, len(sums))
    assert outcome(test, shuffled) == whole


def test_a_block_counts_once(drawn):
    plan, sums = drawn
    test = plan.candidates[0].tests[0]
    for wrong in (sums[:-1], [*sums, sums[0]], [*sums[:-1], sums[0]]):
        with pytest.raises(CertificateError, match="7 blocks, each to be counted once"):
            outcome(test, wrong)
    with pytest.raises(CertificateError, match="samples"):
        outcome(test, [dataclasses.replace(sums[0], samples=1), *sums[1:]])


def test_streams_are_those_of_the_seed_the_purpose_the_candidate_and_the_direction(drawn):
    plan, (first, *_) = drawn
    others = [
        draw_blocks(dataclasses.replace(plan, seed=6), 0, "remove", [0]), draw_blocks(dataclasses.replace(plan, purpose="verify"), 0, "remove", [0]),
        draw_blocks(dataclasses.replace(plan, candidates=plan.candidates * 2), 1, "remove", [0]), draw_blocks(plan, 0, "add", [0]),
        draw_blocks(plan, 0, "remove", [1]),
    ]
    totals = {first.total, *(one.total for (one,) in others)}
    assert len(totals) == 6


def test_a_value_beyond_its_bound_is_an_error():
    mechanism = tiny_mechanism(0.8)
    remove, add = shapes(mechanism, tilt=True)
    too_tight = dataclasses.replace(remove, bound=0.5 * remove.bound, threshold=1e-9)
    plan = Plan(
        method="tail_sum", epsilon=EPSILON, delta=0.5, seed=5,
        candidates=(Candidate(mechanism=mechanism, tests=(too_tight, plain_test(mechanism, "add", threshold=0.1))),),
    )
    with pytest.raises(NumericalError, match="outside"):
        draw_blocks(plan, 0, "remove", range(BLOCKS))
