"""The add direction: the published bound and the shifted Gaussian, against exact values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.balls_in_bins.renyi_add import (
    add_log_moments, published_add_epsilon, shifted_gaussian_delta, shifted_gaussian_epsilon,
)
from accountants.gaussian import gaussian_delta
from tests import tolerances
from tests.accountants.balls_in_bins.cases import REFERENCE, exact_deltas, gram, random_gram, label

named = pytest.mark.parametrize("case", REFERENCE["renyi_add"], ids=label)
epsilons = pytest.mark.parametrize("case", REFERENCE["eps_delta"], ids=label)


@named
def test_published_bound_matches_the_reference_and_is_above_the_exact_value(case):
    orders = np.array(case["alpha"])
    found = add_log_moments(gram(case), sigma=case["sigma"], orders=orders) / (orders - 1)
    assert found == pytest.approx(case["R_add_bound"], rel=tolerances.TABULATED)
    errors = np.array(case.get("R_add_reference_se", np.zeros(len(orders))))
    assert np.all(found >= np.array(case["R_add_reference"]) - 4 * errors)


@epsilons
def test_epsilon_matches_the_reference(case):
    matrix, paper = gram(case), case["renyi_paper_grid"]
    shifted = shifted_gaussian_epsilon(matrix, sigma=case["sigma"], delta=case["delta"])
    order = 40 if case["kind"] == "identity" else 25
    published, alpha = published_add_epsilon(matrix, sigma=case["sigma"], delta=case["delta"], order=order)
    assert shifted == pytest.approx(case["add_shifted_gauss_eps"], rel=tolerances.TABULATED)
    assert published == pytest.approx(paper["eps_add"], rel=tolerances.TABULATED) and alpha == paper["alpha_add"]
    assert case["add"]["mc_eps"] - 4 * case["add"]["mc_eps_se"] <= shifted <= published


@given(st.integers(0, 10**6), st.floats(0.3, 4.0), st.floats(0.0, 3.0))
def test_shifted_gaussian_is_never_below_the_exact_delta(seed, sigma, epsilon):
    matrix = random_gram(np.random.default_rng(seed), 2)
    assert shifted_gaussian_delta(matrix, sigma=sigma, epsilon=epsilon) >= exact_deltas(matrix, sigma=sigma, epsilon=epsilon)[1] - 1e-13


def test_equal_bins_are_a_plain_gaussian_mechanism():
    found = shifted_gaussian_delta(np.full((4, 4), 2.0), sigma=1.5, epsilon=1.0)
    assert found == pytest.approx(gaussian_delta(epsilon=1.0, mu=np.sqrt(2.0) / 1.5), rel=tolerances.CLOSED_FORM)
