"""A too small σ is refused, a safe one passes, and wrong passes are as rare as promised, on mechanisms whose δ is known exactly."""

import dataclasses
import math

import pytest

from accountants.certificates.conclusion import conclude, guaranteed_delta
from accountants.certificates.records import Candidate, DirectionTest, Plan
from accountants.certificates.sampling import block_size, draw_blocks, outcome
from accountants.estimators import add_envelope
from accountants.evidence import DIRECTIONS
from accountants.tail_sum import pass_probability
from accountants.tilted import best_add_shift, tilted_log_moment, tilted_remove_bound
from tests.accountants.certificates.conftest import EPSILON, fallback, plain_test, tiny_mechanism
from tests.accountants.quadrature import exact_deltas

REPETITIONS = 60
SMALL_BLOCKS = 1


def certify(plan: Plan):
    """The certificate of a plan, drawn in this process."""
    def make_test(index: int, direction: str):
        test = plan.candidates[index].tests[DIRECTIONS.index(direction)]
        return outcome(test, draw_blocks(plan, index, direction, range(test.blocks)))

    return conclude(plan, make_test)


def plan_of(mechanism, *, fraction: float, seed: int, delta: float = 0.5) -> Plan:
    """One candidate whose thresholds are this fraction of its true δ."""
    exact = exact_deltas(mechanism, epsilon=EPSILON)
    tests = tuple(
        plain_test(mechanism, direction, threshold=fraction * value, blocks=SMALL_BLOCKS) for direction, value in zip(DIRECTIONS, exact)
    )
    return Plan(
        method="tail_sum", epsilon=EPSILON, delta=delta, seed=seed, fallback=fallback(0.01),
        candidates=(Candidate(mechanism=mechanism, tests=tests),),
    )


def test_a_too_small_sigma_is_refused_and_a_safe_one_passes():
    mechanism = tiny_mechanism(0.8)
    assert certify(plan_of(mechanism, fraction=0.8, seed=1)).selected == -1
    assert certify(plan_of(mechanism, fraction=1.2, seed=1)).selected == 0


def tilted_tests(mechanism, alpha: int, exact: tuple[float, float]) -> tuple[DirectionTest, DirectionTest]:
    """Tests at 0.998 of the true δ whose values are drawn from a tilted and a shifted law, which spread less than plain ones."""
    moment, shifted = tilted_log_moment(mechanism, alpha=alpha), best_add_shift(add_envelope(mechanism, epsilon=EPSILON))
    one_block = {"blocks": 1, "samples": block_size(mechanism)}
    return (
        DirectionTest(
            direction="remove", sampler="tilted", alpha=alpha, log_moment=moment, threshold=0.998 * exact[0], **one_block,
            bound=tilted_remove_bound(mechanism, epsilon=EPSILON, alpha=alpha, log_moment=moment),
        ),
        DirectionTest(
            direction="add", sampler="shifted", shift=shifted.shift, bound=shifted.bound, threshold=0.998 * exact[1], **one_block,
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "alpha"), [(0, 1), (0, 2), (0, 3), (1, 2)], ids=["plain", "alpha 2", "alpha 3", "shifted"])
def test_wrong_passes_are_no_more_frequent_than_their_bound(direction, alpha):
    mechanism = tiny_mechanism(0.8)
    plan = plan_of(mechanism, fraction=0.99, seed=0)
    deltas = exact_deltas(mechanism, epsilon=EPSILON)
    if alpha > 1:
        plan = dataclasses.replace(plan, candidates=(Candidate(mechanism=mechanism, tests=tilted_tests(mechanism, alpha, deltas)),))
    test, exact = plan.candidates[0].tests[direction], deltas[direction]
    bound = float(pass_probability(exact, threshold=test.threshold, samples=test.samples, bound=test.bound))
    passes = sum(
        outcome(test, draw_blocks(dataclasses.replace(plan, seed=seed), 0, test.direction, range(test.blocks))).passed
        for seed in range(REPETITIONS)
    )
    # A rate above the bound by five standard deviations of a binomial has probability below 1e-6.
    assert passes <= REPETITIONS * bound + 5 * math.sqrt(REPETITIONS * bound * (1 - bound)) + 1
    assert 0 < passes < REPETITIONS, "the test decides by its samples"


@pytest.mark.slow
def test_the_average_true_delta_of_what_is_selected_stays_below_the_guarantee():
    sigmas = (0.75, 0.8, 0.85)
    exact = {sigma: exact_deltas(tiny_mechanism(sigma), epsilon=EPSILON) for sigma in sigmas}
    # The middle candidate sits on its threshold: it passes about every other time.
    threshold = exact[0.8]
    candidates = tuple(
        Candidate(mechanism=tiny_mechanism(sigma), tests=tuple(
            plain_test(tiny_mechanism(sigma), direction, threshold=value, blocks=SMALL_BLOCKS) for direction, value in zip(DIRECTIONS, threshold)
        ))
        for sigma in sigmas
    )
    plan = Plan(method="tail_sum", epsilon=EPSILON, delta=0.9, seed=0, candidates=candidates, fallback=fallback(0.01))
    selected = [certify(dataclasses.replace(plan, seed=seed)).selected for seed in range(REPETITIONS)]
    assert len(set(selected)) > 1
    for index, direction in enumerate(DIRECTIONS):
        deltas = [0.01 if choice < 0 else exact[sigmas[choice]][index] for choice in selected]
        assert sum(deltas) / REPETITIONS <= guaranteed_delta(plan, direction)
