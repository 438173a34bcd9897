"""Exact moments: against the sum over all tuples, the reference, closed forms, and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.balls_in_bins.gram import cyclic_distance
from accountants.balls_in_bins.renyi_dp import compositions, diagonal_moments, moments, simplex
from search_spaces.errors import InputError
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, enumerated_log_moment, gram, random_gram, label


@pytest.mark.parametrize("case", REFERENCE["renyi_remove"], ids=label)
def test_matches_the_reference(case):
    orders = np.array(case["alpha"])
    logs = moments(gram(case), sigma=case["sigma"], order=orders.max(), bandwidth=case["gram_bandwidth"]).upper_logs()
    assert logs[orders] / (orders - 1) == pytest.approx(case["R_remove"], rel=tolerances.TABULATED)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.integers(2, 5), st.floats(0.4, 5.0))
def test_matches_the_sum_over_all_tuples(seed, bins, bandwidth, order, sigma):
    matrix = random_gram(np.random.default_rng(seed), bins)
    found = moments(matrix, sigma=sigma, order=order, bandwidth=bandwidth)
    for t in range(2, order + 1):
        exact = enumerated_log_moment(matrix, sigma=sigma, order=t, band=bandwidth)
        assert float(found.logs[t]) == pytest.approx(exact, rel=tolerances.MOMENT, abs=tolerances.MOMENT)
        assert found.upper_logs()[t] >= exact - tolerances.MOMENT * (1 + abs(exact))


@pytest.mark.parametrize("bandwidth", [1, 2, 4])
def test_negative_entries_inside_the_band(bandwidth):
    matrix = random_gram(np.random.default_rng(bandwidth), 6)
    matrix -= np.where(cyclic_distance(6) < bandwidth, 0.3, 0.0)
    found = moments(matrix, sigma=0.9, order=4, bandwidth=bandwidth)
    assert float(found.logs[4]) == pytest.approx(enumerated_log_moment(matrix, sigma=0.9, order=4, band=bandwidth), rel=tolerances.MOMENT)


def test_extended_precision_agrees_within_the_stated_errors():
    case = {"kind": "bsr", "p": 3, "b": 12, "k": 2}
    one, other = (moments(gram(case), sigma=2.0, order=12, bandwidth=3, precise=precise) for precise in (False, True))
    assert np.abs(one.logs - other.logs).max() <= one.relative_error + other.relative_error
    assert other.relative_error < 1e-3 * one.relative_error


def test_band_that_does_not_wrap_is_served_by_the_same_sum():
    once = gram({"kind": "bsr", "p": 3, "b": 9, "k": 1})
    touched = once.copy()
    touched[0, 8] = touched[8, 0] = 1e-300
    one, other = (moments(matrix, sigma=1.3, order=8, bandwidth=3).logs for matrix in (once, touched))
    assert np.asarray(one, float) == pytest.approx(np.asarray(other, float), rel=tolerances.MOMENT)


def test_one_bin_is_a_gaussian_mechanism():
    t = np.arange(9)
    logs = moments(np.array([[2.0]]), sigma=1.5, order=8, bandwidth=4).logs
    assert np.asarray(logs, float) == pytest.approx(0.5 * t * (t - 1) * 2.0 / 1.5**2, rel=tolerances.MOMENT)


def test_token_weights_multiply_every_token():
    rng = np.random.default_rng(3)
    matrix, weights = random_gram(rng, 5), rng.random(5)
    shifted = moments(matrix, sigma=1.0, order=3, bandwidth=3, token_weights=weights).logs
    # Weights w_i are the entries of a rank-two matrix: Σ_{j≠j'} (a_j + a_j')/2 = (α−1) Σ a_j, here with α = 3 and h = 1.
    twin = matrix + 0.5 * np.add.outer(weights, weights)
    assert float(shifted[3]) == pytest.approx(enumerated_log_moment(twin, sigma=1.0, order=3, band=3), rel=1e-9)


def test_large_exponents_neither_overflow_nor_vanish():
    found = diagonal_moments(np.ones(1000), sigma=0.1, order=64).upper_logs()
    t = np.arange(2, 65)
    # One bin dominates: b^{1−t} e^{½h t(t−1)}.
    assert found[2:] == pytest.approx((1 - t) * np.log(1000) + 50.0 * t * (t - 1), rel=1e-9)
    assert np.isfinite(moments(gram({"kind": "bsr", "p": 2, "b": 30, "k": 2}), sigma=0.2, order=24, bandwidth=2).upper_logs()).all()


def test_runs_of_equal_bins_match_one_by_one():
    diagonal = np.array([1.0, 1.0, 1.0, 0.5, 0.5, 1.0])
    exact = enumerated_log_moment(np.diag(diagonal), sigma=0.8, order=5)
    assert float(diagonal_moments(diagonal, sigma=0.8, order=5).logs[5]) == pytest.approx(exact, rel=tolerances.MOMENT)


@given(st.integers(0, 10**6))
def test_grows_with_every_entry(seed):
    rng = np.random.default_rng(seed)
    matrix = random_gram(rng, 5)
    more = matrix + (lambda extra: extra + extra.T)(rng.random((5, 5)) * (rng.random((5, 5)) < 0.3))
    low, high = (moments(one, sigma=1.0, order=6, bandwidth=3).upper_logs() for one in (matrix, more))
    assert np.all(low[2:] <= high[2:] + tolerances.MOMENT)


def test_simplex_and_compositions_are_complete_and_in_order():
    vectors = simplex(4, 3)
    assert len(vectors) == 35 == len({tuple(v) for v in vectors}) and vectors.sum(axis=1).max() == 4
    assert sorted(map(tuple, vectors)) == list(map(tuple, vectors))
    assert compositions(2, 2).tolist() == [[0, 2], [1, 1], [2, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 1}, "order=1 to be an integer >= 2"), ({"sigma": 0.0}, "sigma=0.0"), ({"bandwidth": 0}, "bandwidth=0"),
        ({"bandwidth": 8, "order": 60}, "bandwidth=8, order=60 to fit in 1 GiB, but it needs"),
    ],
)
def test_refuses_with_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        moments(gram({"kind": "bsr", "p": 8, "b": 20, "k": 1}), **{"sigma": 1.0, "order": 4, "bandwidth": 8} | arguments)
