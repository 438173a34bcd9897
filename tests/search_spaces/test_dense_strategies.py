"""Strategies with overlapping windows: columns, error, and what is refused."""

import numpy as np
import pytest

from search_spaces.dense_strategies import (
    DenseStrategy, FullToeplitzStrategy, OverlappingMechanism, inverse_square_root, inverse_square_root_column, make_mechanism, square_root,
    square_root_column,
)
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import BallsInBins, CyclicPoisson
from search_spaces.strategies import ToeplitzStrategy


def test_square_root_column_squares_to_the_prefix_sums():
    column = square_root_column(iterations=12, bandwidth=12)
    assert np.convolve(column, column)[:12] == pytest.approx(np.ones(12))
    assert square_root_column(iterations=6, bandwidth=3).tolist() == [1.0, 0.5, 0.375, 0.0, 0.0, 0.0]


def test_inverse_square_root_column_has_a_banded_inverse():
    column, full = (inverse_square_root_column(iterations=12, bandwidth=p) for p in (3, 12))
    inverse = np.linalg.inv(FullToeplitzStrategy(column=tuple(column)).dense())
    assert inverse[:, 0] == pytest.approx([1.0, -0.5, -0.125] + [0.0] * 9, abs=1e-14)
    assert full == pytest.approx(square_root_column(iterations=12, bandwidth=12))
    assert inverse_square_root_column(iterations=6, bandwidth=2) == pytest.approx(0.5 ** np.arange(6))


@pytest.mark.parametrize("build", [square_root, inverse_square_root])
def test_error_agrees_with_the_banded_class_and_the_definition(build):
    strategy = build(iterations=10, bandwidth=3)
    banded = ToeplitzStrategy(iterations=10, coefficients=strategy.column)
    assert strategy.rmse(sigma=2.0, participations=2) == pytest.approx(banded.rmse(sigma=2.0, participations=2))
    assert strategy.column_norm == pytest.approx(banded.column_norm)
    x = np.arange(20.0).reshape(2, 10)
    assert strategy.apply(x) == pytest.approx(banded.apply(x))


def test_dense_strategy_is_a_read_only_copy():
    matrix = np.tril(np.ones((3, 3)))
    strategy = DenseStrategy(matrix=matrix)
    matrix[0, 0] = 5.0
    assert strategy.dense()[0, 0] == 1.0 and (strategy.iterations, strategy.bandwidth) == (3, 3)
    with pytest.raises(ValueError, match="read-only"):
        strategy.matrix[0, 0] = 2.0
    assert strategy.total_squared_error(sigma=1.0) == pytest.approx(3.0)
    assert DenseStrategy(matrix=np.eye(4)).bandwidth == 1


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\) to be square"), (np.zeros((0, 0)), "not empty"),
        ([[1.0, 0.1], [0.0, 1.0]], r"matrix\[0, 1\]=0.1 to be zero above the diagonal"),
        ([[1.0, 0.0], [-0.5, 1.0]], r"matrix\[1, 0\]=-0.5 to be >= 0"), ([[1.0, 0.0], [np.nan, 1.0]], r"matrix\[1, 0\]=nan to be finite"),
        ([[0.0, 0.0], [1.0, 1.0]], r"matrix\[0, 0\]=0.0 to be > 0 on the diagonal"),
    ],
)
def test_dense_strategy_refuses_with_one_sentence(matrix, message):
    with pytest.raises(InputError, match=message):
        DenseStrategy(matrix=matrix)


def test_columns_are_checked():
    with pytest.raises(InputError, match=r"column\[1\]=-1"):
        FullToeplitzStrategy(column=(1.0, -1.0))
    with pytest.raises(InputError, match=r"bandwidth=4 to be an integer in \[1, 3\]"):
        square_root_column(iterations=3, bandwidth=4)


def test_other_accountants_cannot_mistake_it_for_a_banded_strategy():
    assert not hasattr(square_root(iterations=4, bandwidth=2), "coefficients")
    assert not hasattr(DenseStrategy(matrix=np.eye(2)), "coefficients")


def test_overlapping_mechanism():
    scheme, strategy = BallsInBins(iterations=6, participations=3), inverse_square_root(iterations=6, bandwidth=2)
    mechanism = OverlappingMechanism(scheme=scheme, strategy=strategy, sigma=2)
    assert mechanism.with_sigma(4.0).rmse == pytest.approx(2 * mechanism.rmse)
    with pytest.raises(InputError, match="iterations=8 to be the scheme's 6"):
        OverlappingMechanism(scheme=scheme, strategy=inverse_square_root(iterations=8, bandwidth=2), sigma=1.0)
    with pytest.raises(InputError, match="sigma=0"):
        OverlappingMechanism(scheme=scheme, strategy=strategy, sigma=0)
    with pytest.raises(UnsupportedError, match="cyclic_poisson to be balls_in_bins"):
        OverlappingMechanism(scheme=CyclicPoisson(iterations=6, participations=3, bandwidth=1), strategy=strategy, sigma=1.0)


def test_sensitivity_is_the_largest_norm_of_a_schedule():
    scheme = BallsInBins(iterations=6, participations=3)
    matrix = np.tril(np.random.default_rng(0).random((6, 6))) + np.eye(6)
    for strategy in (DenseStrategy(matrix=matrix), DenseStrategy(matrix=np.eye(6)), inverse_square_root(iterations=6, bandwidth=2)):
        mechanism = make_mechanism(scheme=scheme, strategy=strategy, sigma=1.0)
        schedules = np.tile(np.eye(2), 3)
        assert mechanism.sensitivity == pytest.approx(np.linalg.norm(strategy.apply(schedules), axis=1).max())


def test_the_kind_of_strategy_decides_the_kind_of_mechanism():
    scheme, banded = BallsInBins(iterations=6, participations=3, bandwidth=2), ToeplitzStrategy(iterations=6, coefficients=(1.0, 0.5))
    mechanism = make_mechanism(scheme=scheme, strategy=banded, sigma=2.0)
    overlapping = make_mechanism(scheme=scheme, strategy=FullToeplitzStrategy(column=(1.0, 0.5, 0.0, 0.0, 0.0, 0.0)), sigma=2.0)
    assert isinstance(mechanism, Mechanism) and isinstance(overlapping, OverlappingMechanism)
    assert overlapping.sensitivity == pytest.approx(mechanism.sensitivity)
