"""Problems: what is allowed, counting steps from a training set-up, and bandwidths."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.errors import InputError
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme

ANCHOR = {"iterations": 1024, "participations": 4, "epsilon": 4.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [
        *(("iterations", value, "an integer >= 1") for value in (0, -1, 1024.0, True, "1024", None, math.nan)),
        *(("participations", value, "an integer in [1, 1024]") for value in (0, -4, 1025, 4.0, True, None)),
        *(("epsilon", value, "a finite number > 0") for value in (0, 0.0, -1, math.nan, math.inf, True, "4", None, 10**400)),
        *(("delta", value, "a number strictly between 0 and 1") for value in (0, 1, 1.5, -1e-9, math.nan, math.inf, True, "1e-5", None)),
        *(("dataset_size", value, "an integer >= 1") for value in (0, -5, 60_000.0, False)),
    ],
)
def test_bad_arguments_are_refused_with_name_value_and_what_is_allowed(argument, value, allowed):
    with pytest.raises(InputError) as caught:
        Problem(**(ANCHOR | {argument: value}))
    assert str(caught.value) == f"Expected {argument}={value!r} to be {allowed}."


def test_arguments_are_keyword_only():
    with pytest.raises(TypeError):
        Problem(1024, 4, 4.0, 1e-5)


def test_values_are_stored_as_plain_numbers():
    numpy_values = {"iterations": np.int64(12), "participations": np.int32(3), "epsilon": np.float32(2), "delta": np.float64(0.5)}
    problem = Problem(**numpy_values, dataset_size=np.int64(7))
    assert problem == Problem(iterations=12, participations=3, epsilon=2, delta=0.5, dataset_size=7)
    assert [type(value) for value in dataclasses.astuple(problem)] == [int, int, float, float, int]


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 5))
def test_training_steps_are_the_batches_that_cover_the_data(dataset_size, batch_size, epochs):
    """T counts the batches that passes over the data consist of, the short last one of each pass included."""
    batch_size = min(batch_size, dataset_size)
    problem = Problem.from_training(dataset_size=dataset_size, batch_size=batch_size, epochs=epochs, epsilon=1, delta=1e-5)
    batches = [range(start, min(start + batch_size, dataset_size)) for _ in range(epochs) for start in range(0, dataset_size, batch_size)]
    assert problem.iterations == len(batches) and problem.participations == epochs and problem.dataset_size == dataset_size
    assert math.ceil(dataset_size / problem.largest_bandwidth) <= batch_size


def test_steps_of_a_data_set_that_batches_do_not_divide():
    problem = Problem.from_training(dataset_size=100_001, batch_size=512, epochs=3, epsilon=1, delta=1e-5)
    assert (problem.iterations, problem.participations) == (3 * 196, 3)


def test_every_batch_of_the_derived_problem_is_drawn():
    """The sampler of the derived problem places all n·K participations in its T steps: none is dropped with a short batch."""
    problem = Problem.from_training(dataset_size=1000, batch_size=64, epochs=3, epsilon=1, delta=1e-5)
    scheme = make_scheme("min_sep_ra", iterations=problem.iterations, participations=problem.participations, bandwidth=4)
    sizes = np.bincount(scheme.sample(np.random.default_rng(41), 1000).ravel(), minlength=problem.iterations)
    assert sizes.size == problem.iterations == 48 and sizes.sum() == 3 * 1000


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [
        ("batch_size", 0, "[1, 1000]"), ("batch_size", 1001, "[1, 1000]"), ("batch_size", 10.0, "[1, 1000]"),
        ("batch_size", True, "[1, 1000]"),
        ("epochs", 0, ">= 1"), ("epochs", 1.5, ">= 1"), ("dataset_size", 0, ">= 1"), ("dataset_size", True, ">= 1"),
        ("dataset_size", 1e3, ">= 1"),
    ],
)
def test_bad_training_arguments_are_refused(argument, value, allowed):
    good = {"dataset_size": 1000, "batch_size": 10, "epochs": 2, "epsilon": 1, "delta": 1e-5}
    with pytest.raises(InputError) as caught:
        Problem.from_training(**(good | {argument: value}))
    assert f"{argument}={value!r}" in str(caught.value) and allowed in str(caught.value)


@given(st.integers(1, 400), st.data())
def test_bandwidths_leave_room_for_all_participations(iterations, data):
    participations = data.draw(st.integers(1, iterations))
    problem = Problem(iterations=iterations, participations=participations, epsilon=1, delta=1e-5)
    fitting = [b for b in range(1, iterations + 1) if b * participations <= iterations]
    assert problem.largest_bandwidth == fitting[-1]
    assert problem.divisors() == tuple(b for b in fitting if iterations % b == 0)
    assert [problem.check_bandwidth(b) for b in fitting] == fitting
    with pytest.raises(InputError, match=f"Expected bandwidth={fitting[-1] + 1} .*{iterations}/{participations}"):
        problem.check_bandwidth(fitting[-1] + 1)


@pytest.mark.parametrize("bandwidth", [0, -1, 2.0, True, "2", None, math.nan])
def test_a_bandwidth_that_is_no_count_is_refused(bandwidth):
    with pytest.raises(InputError) as caught:
        Problem(**ANCHOR).check_bandwidth(bandwidth)
    assert str(caught.value) == f"Expected bandwidth={bandwidth!r} to be an integer >= 1."
