"""Batches: the contract, how schemes relate, empty batches, and the fixed-shape form."""

import numpy as np
import pytest

from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.recurrences import Recurrence
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.schemes.batches import NextParticipation, draw_batches, physical_batches
from tests import tolerances
from tests.contracts.batches_contract import BatchesContract, anchor, batch_schedules, joined
from tests.contracts.scheme_contract import build, law_p_value


class TestContract(BatchesContract):
    """Every scheme in `SCHEMES`."""


@pytest.mark.parametrize(("public", "secret"), [("cyclic_ra", "nested_ra"), ("deterministic", "balls_in_bins")])
def test_a_public_position_is_drawn_like_a_secret_one(public, secret):
    size = (12, 3, 4)
    rows = joined(list(build(public, size).batch_iterator(20_000, 41)), 20_000)
    assert law_p_value(*batch_schedules(build(secret, size)), rows) > tolerances.CHI_SQUARED_P


@pytest.mark.parametrize(
    ("drawn", "claimed"),
    [("nested_ra", "min_sep_ra"), ("min_sep_ra", "cyclic_ra"), ("cyclic_poisson", "min_sep_poisson"), ("balls_in_bins", "cyclic_ra")],
)
def test_the_law_test_refuses_another_schemes_batches(drawn, claimed):
    rows = joined(list(build(drawn, (12, 3, 2)).batch_iterator(20_000, 42)), 20_000)
    assert law_p_value(*batch_schedules(build(claimed, (12, 3, 2))), rows) < tolerances.CHI_SQUARED_P


def test_empty_batches_are_yielded_and_never_skipped():
    """Half an example a step on average: most batches are empty, and all T of them arrive."""
    scheme = make_scheme("poisson", iterations=2000, participations=10, bandwidth=1)
    batches = list(scheme.batch_iterator(100, 43))
    empty = np.mean([batch.size == 0 for batch in batches])
    exact = (1 - 10 / 2000) ** 100
    assert len(batches) == 2000
    assert abs(empty - exact) < tolerances.STANDARD_DEVIATIONS * np.sqrt(exact * (1 - exact) / 2000)


def test_there_are_as_many_batches_as_the_problem_has_steps():
    """A last short batch of an epoch is not dropped: 103 examples in batches of 10 are 11 steps an epoch."""
    problem = Problem.from_training(dataset_size=103, batch_size=10, epochs=3, epsilon=1, delta=1e-5)
    scheme = make_scheme("min_sep_ra", iterations=problem.iterations, participations=problem.participations, bandwidth=4)
    batches = list(scheme.batch_iterator(103, 44))
    assert len(batches) == problem.iterations == 33
    assert sum(batch.size for batch in batches) == 3 * 103


def test_sizes_are_uneven_where_the_law_says_so():
    even = 10_000 * 4 / 1024
    for name in SCHEMES:
        sizes = anchor(name).expected_batch_sizes(10_000)
        uniform = np.allclose(sizes, even, rtol=1e-9)
        assert uniform == (name not in ("min_sep_ra", "min_sep_poisson")), name
    assert anchor("min_sep_ra").expected_batch_sizes(10_000)[0] > 1.4 * even


def test_steps_beyond_equal_gaps_are_empty_without_amplification():
    sizes = build("deterministic", (11, 3, 2)).expected_batch_sizes(30)
    np.testing.assert_allclose(sizes, [10.0] * 9 + [0.0] * 2)


def test_coverage_of_the_first_epoch():
    """Poisson reaches 1 − (1 − q)^(T/K) of the examples in an epoch, balls-in-bins all of them."""
    poisson = make_scheme("poisson", iterations=400, participations=4, bandwidth=1)
    bins = make_scheme("balls_in_bins", iterations=400, participations=4, bandwidth=1)
    assert abs(poisson.coverage()[99] - (1 - (1 - 0.01) ** 100)) < 1e-12
    assert abs(bins.coverage()[99] - 1) < 1e-12
    for scheme in (poisson, bins, make_scheme("min_sep_ra", iterations=400, participations=4, bandwidth=50)):
        seen = joined(list(scheme.batch_iterator(5000, 45)), 5000)[:, :100].any(axis=1).mean()
        exact = scheme.coverage()[99]
        assert abs(seen - exact) <= tolerances.STANDARD_DEVIATIONS * np.sqrt(max(0, exact * (1 - exact)) / 5000) + 1e-12


@pytest.mark.parametrize("stride", [1, 3])
def test_next_participation_has_the_conditional_probabilities(stride):
    """A law with zeros, ones and probabilities that differ within a block, from every first free step."""
    probability = np.array([
        [0.2, 0.0, 0.5, 0.9, 0.0, 1.0, 0.3, 0.1, 0.0, 1.0, 0.4],
        [0.5, 0.1, 0.0, 0.0, 0.7, 0.0, 0.0, 0.3, 1.0, 0.2, 0.0],
    ])
    law = Recurrence(fire_probability=probability, after_fire=3, after_skip=stride)
    draw = NextParticipation(law)
    size = 20_000
    for left in (1, 2):
        for free in range(13):
            exact, survival = np.zeros(12), 1.0
            for t in range(free, 11, stride):
                exact[t] = survival * probability[left - 1, t]
                survival *= 1 - probability[left - 1, t]
            exact[11] = survival
            steps = draw(np.random.default_rng(46 + free), np.full(size, left), np.full(size, free))
            counts = np.bincount(steps, minlength=12)
            deviation = np.sqrt(np.clip(exact * (1 - exact), 0, None) / size)
            assert np.all(np.abs(counts / size - exact) <= tolerances.STANDARD_DEVIATIONS * deviation + 1e-12)
    assert np.all(draw(np.random.default_rng(0), np.zeros(5, dtype=int), np.arange(5)) == 11), "nothing left, no participation"


def test_long_and_short_waits_are_both_exact():
    """Probabilities near 0 and near 1 over many steps: sums of logarithms from 1e-9 to 4e4."""
    probability = np.concatenate([np.full(2000, 1e-9), np.full(2000, 1 - 1e-9), np.full(2000, 1e-3)])[None, :]
    law = Recurrence(fire_probability=probability, after_fire=1, after_skip=1, counted=False)
    draw = NextParticipation(law)
    assert np.all(draw(np.random.default_rng(47), None, np.full(1000, 100)) >= 100)
    assert np.all(draw(np.random.default_rng(47), None, np.full(10_000, 3000)) == 3000)
    late = draw(np.random.default_rng(48), None, np.full(20_000, 4000))
    exact = 1 - (1 - 1e-3) ** 500
    assert abs(np.mean(late < 4500) - exact) < tolerances.STANDARD_DEVIATIONS * np.sqrt(exact * (1 - exact) / 20_000)


def test_batches_are_drawn_as_they_are_asked_for():
    rng = np.random.default_rng(49)
    batches = draw_batches(build("min_sep_ra", (12, 3, 2)).batch_law(), num_examples=5, rng=rng)
    assert rng.random() == np.random.default_rng(49).random(), "nothing is drawn before the first batch"
    next(batches)


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_physical_batches_hold_exactly_the_examples(size):
    scheme = build("poisson", (40, 4, 1))
    batches = list(scheme.batch_iterator(60, 50))
    parts = list(physical_batches(batches, size=size))
    for part in parts:
        assert part.indices.shape == part.mask.shape == (size,) and part.mask.dtype == bool
        assert np.all(part.indices[~part.mask] == 0)
    assert [part.step for part in parts if part.ends_step] == list(range(40))
    for step, batch in enumerate(batches):
        held = [part.indices[part.mask] for part in parts if part.step == step]
        assert np.array_equal(np.concatenate(held), batch)
        assert len(held) == max(1, -(-batch.size // size))


def test_an_empty_batch_is_one_part_without_examples():
    (part,) = physical_batches([np.empty(0, dtype=np.int64)], size=4)
    assert part.ends_step and not part.mask.any() and part.indices.shape == (4,)


@pytest.mark.parametrize("size", [0, -1, 2.0, True, None])
def test_the_physical_size_is_checked_at_once(size):
    with pytest.raises(InputError, match=f"Expected size={size!r} to be an integer >= 1"):
        physical_batches([], size=size)
