"""Means and Gram matrices: against the definition, and what is refused."""

import numpy as np
import pytest
import scipy.linalg

from accountants.balls_in_bins.gram import (
    LARGEST_ARRAY, check_gram, cyclic_bandwidth, cyclic_distance, dense_means, gram_of, lag_maxima, mechanism_gram, require_memory,
    toeplitz_gram,
)
from accountants.balls_in_bins.prefix_statistics import mean_rows
from search_spaces.dense_strategies import FullToeplitzStrategy
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins
from search_spaces.strategies import banded_square_root
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, column, gram


@pytest.mark.parametrize("case", REFERENCE["gram_first_row"], ids=lambda case: f"{case['kind']}{case['p']}-{case['b']}x{case['k']}")
def test_matches_the_reference(case):
    found = gram(case)
    assert found[0] == pytest.approx(case["row0"], rel=tolerances.TABULATED)
    assert np.diag(found) == pytest.approx(case["diag"], rel=tolerances.TABULATED)


@pytest.mark.parametrize(("kind", "p", "bins", "epochs"), [("bsr", 3, 5, 3), ("bsr", 3, 2, 4), ("bisr", 2, 4, 1), ("bisr", 3, 4, 3)])
def test_toeplitz_formula_matches_the_sum_of_columns(kind, p, bins, epochs):
    first = column(kind, p, bins * epochs)
    dense = scipy.linalg.toeplitz(first, np.zeros(len(first)))
    means = np.array([sum(dense[:, i + j * bins] for j in range(epochs)) for i in range(bins)]).T
    assert np.array_equal(dense_means(matrix=dense, bins=bins), means)
    assert toeplitz_gram(column=first, bins=bins, epochs=epochs) == pytest.approx(means.T @ means, rel=tolerances.GRAM_ROUNDING)
    rows = np.array(list(mean_rows(FullToeplitzStrategy(column=tuple(first)), bins)))
    assert rows == pytest.approx(means, rel=tolerances.GRAM_ROUNDING)


def test_signs_are_dropped():
    matrix = np.tril(np.arange(1.0, 17.0).reshape(4, 4))
    assert np.array_equal(dense_means(matrix=-matrix, bins=2), dense_means(matrix=matrix, bins=2))
    assert np.array_equal(toeplitz_gram(column=[1, -0.5], bins=2, epochs=2), toeplitz_gram(column=[1, 0.5], bins=2, epochs=2))


def test_mechanism_gram_is_rounded_up_and_read_only():
    scheme = BallsInBins(iterations=12, participations=3, bandwidth=3)
    mechanism = Mechanism(scheme=scheme, strategy=banded_square_root(iterations=12, bandwidth=3), sigma=1.0)
    exact = gram_of(dense_means(matrix=mechanism.strategy.dense(), bins=4))
    found = mechanism_gram(mechanism)
    assert np.all(found >= exact) and found == pytest.approx(exact, rel=tolerances.GRAM_ROUNDING)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 0.0


def test_band_wraps_around_only_with_several_epochs():
    once, twice = (toeplitz_gram(column=[1.0, 0.5, 0.2], bins=7, epochs=epochs) for epochs in (1, 2))
    assert cyclic_bandwidth(once) == cyclic_bandwidth(twice) == 3
    assert once[0, 6] == 0.0 < twice[0, 6]
    assert cyclic_bandwidth(np.eye(4)) == 1 and cyclic_bandwidth(np.ones((1, 1))) == 1


def test_lag_maxima_are_the_largest_entries_at_every_lag():
    found, distance = gram({"kind": "bsr", "p": 3, "b": 6, "k": 1}), cyclic_distance(6)
    maxima = lag_maxima(found)
    assert all(maxima[lag] == maxima[-lag % 6] == found[distance == lag].max() for lag in range(4))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 3)), "square"), (np.zeros((0, 0)), "not empty"), ([[1.0, -0.1], [-0.1, 1.0]], "finite entries >= 0"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite entries >= 0"), ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "geometric mean"),
    ],
)
def test_refuses_what_is_no_gram_matrix(bad, message):
    with pytest.raises(InputError, match=message):
        check_gram(bad)


def test_accepts_a_gram_matrix():
    found = gram({"kind": "bisr", "p": 3, "b": 6, "k": 2})
    assert np.array_equal(check_gram(found), found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dense_means(matrix=np.eye(5), bins=2), "bins=2 to divide the 5 iterations"),
        (lambda: dense_means(matrix=np.ones((2, 3)), bins=1), "square"),
        (lambda: toeplitz_gram(column=np.ones(5), bins=2, epochs=2), r"length_of_column=5 to be an integer in \[1, 4\]"),
        (lambda: toeplitz_gram(column=[1.0], bins=0, epochs=2), "bins=0"),
        (lambda: toeplitz_gram(column=[1.0], bins=20000, epochs=1), "needs 2.98 GiB"),
        (lambda: require_memory(LARGEST_ARRAY + 1, "this"), "this to fit in 1 GiB"),
    ],
)
def test_refuses_with_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()
