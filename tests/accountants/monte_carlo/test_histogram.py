"""Histograms of plain samples: the same integers however the blocks are split, nothing dropped, every rounding towards more loss."""

import functools
import math

import numpy as np
import pytest

from accountants.estimators import add_values, remove_values
from accountants.evidence import DIRECTIONS
from accountants.monte_carlo.histogram import BINS, HIGHEST, LOWEST, LossHistogram, edges, loss_histogram
from accountants.monte_carlo.simulation import P, Q, Simulation
from accountants.monte_carlo.streams import Stream
from search_spaces.errors import InputError, NumericalError
from tests import tolerances
from tests.accountants.monte_carlo import cases
from tests.accountants.quadrature import exact_deltas

BLOCKS = range(14)
EPSILONS = (0.0, 0.5, 2.0, 6.0)
SUBJECTS = {
    "min_sep_ra": cases.mechanism("min_sep_ra", 12, 4, sigma=1.3),
    "min_sep_poisson": cases.mechanism("min_sep_poisson", 11, 2, sigma=1.3),
    "balls_in_bins": cases.mechanism("balls_in_bins", 12, 3, sigma=1.3),
}
every_subject = pytest.mark.parametrize("name", SUBJECTS)
both_directions = pytest.mark.parametrize("direction", DIRECTIONS)


@functools.lru_cache(maxsize=None)
def whole(name: str, direction: str) -> LossHistogram:
    return loss_histogram(SUBJECTS[name], direction=direction, seed=1, blocks=BLOCKS)


def losses(name: str, direction: str, blocks=BLOCKS) -> np.ndarray:
    """The privacy losses that the histogram counts, unrounded."""
    subject, index = SUBJECTS[name], DIRECTIONS.index(direction)
    simulation = Simulation(scheme=subject.scheme, strategy=subject.strategy)
    stream = Stream(seed=1, purpose="histogram", path=(index,))
    drawn = [simulation.draw(stream, block, sigmas=[subject.sigma], proposal=((P, Q)[index],)).log_ratio[0, 0] for block in blocks]
    return (1, -1)[index] * np.concatenate(drawn)


@every_subject
@both_directions
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_is_the_same_for_any_number_of_workers(name, direction, workers):
    """Worker w draws blocks w, w + workers, … backwards; the parts are added in another order than they were drawn."""
    parts = [
        loss_histogram(SUBJECTS[name], direction=direction, seed=1, blocks=list(BLOCKS[worker::workers])[::-1]) for worker in range(workers)
    ]
    total = functools.reduce(LossHistogram.__add__, reversed(parts))
    assert total.counts.dtype == np.int64
    np.testing.assert_array_equal(total.counts, whole(name, direction).counts)
    assert [total.delta(epsilon) for epsilon in EPSILONS] == [whole(name, direction).delta(epsilon) for epsilon in EPSILONS]


@pytest.mark.parametrize("size", [1, 5, 14])
def test_is_the_same_for_any_chunks(size):
    chunks = [BLOCKS[start : start + size] for start in range(0, len(BLOCKS), size)]
    parts = [loss_histogram(SUBJECTS["min_sep_ra"], direction="remove", seed=1, blocks=chunk) for chunk in chunks]
    np.testing.assert_array_equal(sum(part.counts for part in parts), whole("min_sep_ra", "remove").counts)


@every_subject
@both_directions
def test_counts_every_loss_in_the_bin_above_it(name, direction):
    histogram, unrounded = whole(name, direction), losses(name, direction)
    assert histogram.samples == unrounded.size == len(BLOCKS) * Simulation(
        scheme=SUBJECTS[name].scheme, strategy=SUBJECTS[name].strategy
    ).block_size
    # Every rounded loss is at least its loss, by less than one bin: so it is for the sorted ones too.
    rounded = np.repeat(np.append(edges(), math.inf), histogram.counts)
    gaps = rounded - np.sort(unrounded)
    assert np.all(gaps >= 0) and gaps.max() < (HIGHEST - LOWEST) / BINS * (1 + 1e-9)


@every_subject
@both_directions
def test_delta_is_just_above_the_unrounded_estimate(name, direction):
    histogram, unrounded = whole(name, direction), losses(name, direction)
    for epsilon in EPSILONS:
        if direction == "remove":
            values = remove_values(unrounded, epsilon=epsilon, xi=histogram.xi)
        else:
            values = add_values(-unrounded, epsilon=epsilon, xi=histogram.xi)
        assert values.mean() <= histogram.delta(epsilon) <= values.mean() * 1.02 + 1e-9


@both_directions
@pytest.mark.parametrize("name", ["poisson", "min_sep_ra"])
def test_delta_is_the_exact_one_within_its_error(name, direction):
    bandwidth = 2 if name == "min_sep_ra" else 1
    subject = cases.mechanism(name, 2, bandwidth, participations=1, sigma=0.8)
    histogram = loss_histogram(subject, direction=direction, seed=2, blocks=range(6))
    for epsilon in (0.0, 1.0):
        exact = exact_deltas(subject, epsilon=epsilon)[DIRECTIONS.index(direction)]
        values = remove_values(np.append(edges(), math.inf), epsilon=epsilon, xi=histogram.xi)
        square = float(histogram.counts @ values**2) / histogram.samples
        error = math.sqrt((square - histogram.delta(epsilon) ** 2) / histogram.samples)
        assert abs(histogram.delta(epsilon) - exact) <= tolerances.STANDARD_DEVIATIONS * error + 1e-3 * exact


def handmade(direction: str = "remove", xi: float = 0.0, **counts: int) -> LossHistogram:
    """A histogram with counts given by entry, e.g. last=3."""
    entries = np.zeros(BINS + 2, dtype=np.int64)
    for where, count in counts.items():
        entries[{"first": 0, "middle": BINS // 2, "highest": BINS, "last": BINS + 1}[where]] = count
    return LossHistogram(direction=direction, xi=xi, counts=entries)


@pytest.mark.parametrize("xi", [0.0, 0.7])
def test_the_top_entry_is_an_infinite_loss_and_the_lowest_is_not_dropped(xi):
    assert handmade(xi=xi, last=5).delta(40.0) == 1.0
    assert handmade(xi=xi, last=1, first=3).delta(2.0) == pytest.approx(0.25)
    assert handmade(xi=xi, first=10).delta(0.0) <= 1e-6
    assert handmade(xi=xi, first=10).samples == 10
    assert handmade(highest=1).delta(1.0) == pytest.approx(-math.expm1(1.0 - HIGHEST))


def test_losses_beyond_the_highest_edge_count_as_infinite():
    """At σ = 0.05 most losses of "remove" are above 30 and most of "add" are too; at ε = 100 they are still counted whole."""
    subject = SUBJECTS["min_sep_poisson"].with_sigma(0.05)
    histogram = loss_histogram(subject, direction="remove", seed=1, blocks=[0])
    simulation = Simulation(scheme=subject.scheme, strategy=subject.strategy)
    drawn = simulation.draw(Stream(seed=1, purpose="histogram", path=(0,)), 0, sigmas=[0.05]).log_ratio[0, 0]
    assert histogram.counts[-1] == np.count_nonzero(drawn > HIGHEST) > 0.5 * histogram.samples
    assert histogram.delta(100.0) == histogram.counts[-1] / histogram.samples


def test_delta_decreases_in_epsilon():
    for direction in DIRECTIONS:
        deltas = [whole("min_sep_ra", direction).delta(epsilon) for epsilon in np.linspace(0.0, 8.0, 30)]
        assert np.all(np.diff(deltas) < 0)


def test_seeds_and_directions_have_samples_of_their_own():
    one = loss_histogram(SUBJECTS["min_sep_ra"], direction="remove", seed=1, blocks=[0])
    other = loss_histogram(SUBJECTS["min_sep_ra"], direction="remove", seed=2, blocks=[0])
    assert not np.array_equal(one.counts, other.counts)
    assert not np.array_equal(np.sort(np.abs(losses("min_sep_ra", "remove", [0]))), np.sort(np.abs(losses("min_sep_ra", "add", [0]))))


def test_histograms_of_different_things_are_not_added():
    for other in (handmade(direction="add", last=1), handmade(xi=0.5, last=1)):
        with pytest.raises(InputError, match="one direction and one mechanism"):
            handmade(last=1) + other


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
def test_refuses_a_bad_epsilon(epsilon):
    with pytest.raises(InputError, match="epsilon="):
        handmade(last=1).delta(epsilon)


def test_refuses_an_unknown_direction():
    with pytest.raises(InputError, match="direction='both'"):
        loss_histogram(SUBJECTS["min_sep_ra"], direction="both", seed=1, blocks=[0])


def test_a_loss_that_is_not_finite_is_an_error():
    with pytest.raises(NumericalError, match="min_sep_ra is not finite"):
        loss_histogram(SUBJECTS["min_sep_ra"].with_sigma(1e-200), direction="remove", seed=1, blocks=[0])
