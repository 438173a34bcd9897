"""From options to values."""

import pytest

from launch import inputs
from search_spaces import strategies
from search_spaces.problem import Problem


def test_names_join_repeated_and_comma_separated_values():
    assert inputs.names(["a,b", " c ", "d,"]) == ("a", "b", "c", "d")
    assert inputs.names(None) is None
    assert inputs.integers(["1,2", "32"], name="bandwidths") == (1, 2, 32)


def test_coefficients_are_read_as_written(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("2.5\n\n 1e-1 \n0\n")
    assert inputs.read_coefficients(path) == (2.5, 0.1, 0.0)
    strategy = inputs.make_strategy(iterations=8, bandwidth=None, r=None, coefficients=path)
    assert strategy.coefficients == (2.5, 0.1, 0.0)
    assert strategy.column_norm > 2.5


def test_strategy_families(tmp_path):
    assert inputs.make_strategy(iterations=8, bandwidth=None, r=None, coefficients=None) == strategies.identity(iterations=8)
    assert inputs.make_strategy(iterations=8, bandwidth=1, r=None, coefficients=None) == strategies.identity(iterations=8)
    harmonic = inputs.make_strategy(iterations=8, bandwidth=3, r=0.1, coefficients=None)
    assert harmonic == strategies.harmonic(iterations=8, bandwidth=3, r=0.1)


@pytest.mark.parametrize("size", [100, 101])
def test_problem_from_training_counts_the_last_batch(size):
    problem = inputs.make_problem(
        iterations=None, participations=None, dataset_size=size, batch_size=10, epochs=3, epsilon=1.0, delta=1e-5
    )
    assert problem == Problem(iterations=3 * -(-size // 10), participations=3, epsilon=1.0, delta=1e-5, dataset_size=size)
