"""Replica programs and samplers against the enumeration of all tuples; cost and refusals."""

import math
import tracemalloc

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from accountants.tilted import Cost, tilted_cost, tilted_law, tilted_log_moment, tilted_unsupported
from accountants.tilted.arithmetic import LOGS, PLAIN
from accountants.tilted.bins import band_table, clique_table
from accountants.tilted.blocks import block_table
from accountants.tilted.interactions import interactions
from accountants.tilted.min_sep import min_sep_table
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic
from tests import tolerances
from tests.accountants.tilted import tuples

PAIRS = [
    ("nested_ra", 12, 2, 3), ("nested_ra", 8, 1, 4), ("nested_ra", 8, 1, 8), ("nested_ra", 12, 3, 2), ("nested_ra", 6, 2, 1),
    ("min_sep_ra", 10, 2, 3), ("min_sep_ra", 12, 3, 3), ("min_sep_ra", 14, 2, 5), ("min_sep_ra", 9, 3, 1), ("min_sep_ra", 12, 3, 4),
    ("min_sep_ra", 5, 1, 3), ("min_sep_poisson", 10, 2, 3), ("min_sep_poisson", 9, 3, 3), ("min_sep_poisson", 9, 2, 4),
    ("min_sep_poisson", 5, 2, 1), ("random_allocation", 6, 2, 1), ("cyclic_ra", 12, 2, 3), ("poisson", 5, 2, 1),
    ("cyclic_poisson", 12, 2, 3), ("balls_in_bins", 10, 2, 1), ("balls_in_bins", 6, 1, 1), ("deterministic", 10, 3, 2),
]
TRIPLES = [
    ("nested_ra", 12, 2, 3), ("nested_ra", 6, 1, 6), ("nested_ra", 8, 2, 2), ("min_sep_ra", 10, 2, 3), ("min_sep_ra", 9, 2, 4),
    ("min_sep_ra", 8, 3, 2), ("min_sep_ra", 9, 3, 3), ("min_sep_ra", 5, 1, 3), ("min_sep_ra", 6, 2, 1), ("min_sep_poisson", 9, 2, 3),
    ("min_sep_poisson", 8, 2, 4), ("random_allocation", 6, 2, 1), ("cyclic_ra", 8, 2, 2), ("poisson", 4, 2, 1), ("cyclic_poisson", 8, 2, 2),
    ("balls_in_bins", 10, 2, 1), ("deterministic", 10, 3, 2),
]
CASES = [(*case, 2) for case in PAIRS] + [(*case, 3) for case in TRIPLES] + [
    ("nested_ra", 4, 1, 2, 4), ("nested_ra", 6, 1, 3, 4), ("balls_in_bins", 10, 2, 1, 4),
]
every_case = pytest.mark.parametrize(("name", "iterations", "participations", "bandwidth", "alpha"), CASES)
SAMPLES = 12_000


@every_case
def test_moment_is_that_of_all_tuples(name, iterations, participations, bandwidth, alpha):
    one = tuples.mechanism(name, iterations, participations, bandwidth)
    assert tilted_law(one, alpha=alpha).log_moment == pytest.approx(tuples.log_moment(one, alpha), abs=tolerances.REPLICA_MOMENT)


@every_case
def test_sampled_tuples_follow_the_tilted_law(name, iterations, participations, bandwidth, alpha):
    one = tuples.mechanism(name, iterations, participations, bandwidth)
    samples = tilted_law(one, alpha=alpha).sample(np.random.default_rng(11), SAMPLES)
    assert samples.shape == (SAMPLES, alpha, one.scheme.max_participations) and samples.dtype == np.int64
    steps = np.diff(samples, axis=2)
    assert np.all((steps > 0) | (samples[:, :, 1:] == iterations))
    assert tuples.p_value(one, samples) > tolerances.CHI_SQUARED_P


@pytest.mark.parametrize(("iterations", "participations", "coefficients", "alpha"), [
    (10, 2, 1, 3), (10, 2, 2, 2), (10, 2, 2, 4), (12, 2, 3, 3), (8, 2, 3, 3), (12, 3, 3, 4), (6, 1, 1, 4), (6, 1, 2, 4), (4, 1, 3, 4),
    (4, 2, 2, 5),
])
def test_banded_bins_serve_every_order_and_sample_the_largest(iterations, participations, coefficients, alpha):
    one = tuples.mechanism("balls_in_bins", iterations, participations, 1, coefficients=coefficients)
    table = band_table(one, alpha=alpha)
    for order in range(2, alpha + 1):
        assert table.log_moments[order] == pytest.approx(tuples.log_moment(one, order), abs=tolerances.REPLICA_MOMENT)
    assert tuples.p_value(one, table.sample(np.random.default_rng(5), SAMPLES)) > tolerances.CHI_SQUARED_P


@pytest.mark.parametrize("alpha", [2, 3, 4])
def test_the_two_programs_of_balls_in_bins_agree(alpha):
    one = tuples.mechanism("balls_in_bins", 12, 2, 1, coefficients=2)
    narrow, general = band_table(one, alpha=alpha), clique_table(one, alpha=alpha)
    assert narrow.log_moment == pytest.approx(general.log_moment, abs=tolerances.REPLICA_MOMENT)


@pytest.mark.parametrize("alpha", [2, 3])
@pytest.mark.parametrize("coefficients", [1, 2])
def test_a_strategy_narrower_than_the_separation(alpha, coefficients):
    for name, build in (("nested_ra", block_table), ("min_sep_ra", min_sep_table), ("min_sep_poisson", min_sep_table)):
        one = tuples.mechanism(name, 9, 2, 3, coefficients=coefficients)
        table = build(one.scheme, interactions(one), alpha=alpha, arithmetic=PLAIN)
        assert table.log_moment == pytest.approx(tuples.log_moment(one, alpha), abs=tolerances.REPLICA_MOMENT)


@pytest.mark.parametrize(("name", "build"), [("nested_ra", block_table), ("min_sep_ra", min_sep_table), ("min_sep_poisson", min_sep_table)])
@pytest.mark.parametrize("alpha", [2, 3])
def test_logs_and_plain_numbers_agree_and_draw_the_same(name, build, alpha):
    one = tuples.mechanism(name, 9, 2, 3)
    plain, logs = (build(one.scheme, interactions(one), alpha=alpha, arithmetic=arithmetic) for arithmetic in (PLAIN, LOGS))
    assert plain.log_moment == pytest.approx(logs.log_moment, abs=tolerances.REPLICA_MOMENT)
    drawn = [table.sample(np.random.default_rng(3), 2000) for table in (plain, logs)]
    np.testing.assert_array_equal(*drawn)


@every_case
def test_sums_beyond_float64_are_kept_as_logs(name, iterations, participations, bandwidth, alpha):
    one = tuples.mechanism(name, iterations, participations, bandwidth, sigma=0.03)
    expected = tuples.log_moment(one, alpha)
    law = tilted_law(one, alpha=alpha)
    assert tuples.separation_exponent(one, alpha) > 700
    assert law.log_moment == pytest.approx(expected, rel=tolerances.REPLICA_MOMENT)
    # So little noise leaves tuples of equal schedules only, where the schedules are equally long.
    if name not in ("poisson", "cyclic_poisson", "min_sep_poisson"):
        samples = law.sample(np.random.default_rng(1), 100)
        rows = samples.reshape(100 * alpha, -1)
        assert np.all(samples == samples[:, :1]) and np.all(rows[:, 0] < iterations)


@hypothesis.given(
    data=st.data(), name=st.sampled_from(["nested_ra", "min_sep_ra", "min_sep_poisson", "cyclic_ra"]), alpha=st.sampled_from([2, 3]),
    sigma=st.floats(0.3, 3.0), gap=st.integers(1, 4), rest=st.integers(0, 3),
)
def test_moment_of_any_small_mechanism(data, name, alpha, sigma, gap, rest):
    participations = data.draw(st.integers(1, 2))
    iterations = gap * (participations + rest) if name in ("nested_ra", "cyclic_ra") else gap * participations + rest
    column = data.draw(st.lists(st.floats(0.0, 1.0), min_size=0, max_size=gap - 1))
    one = Mechanism(
        scheme=make_scheme(name, iterations=iterations, participations=participations, bandwidth=gap),
        strategy=ToeplitzStrategy(iterations=iterations, coefficients=(1.0, *column)), sigma=sigma,
    )
    assert tilted_law(one, alpha=alpha).log_moment == pytest.approx(tuples.log_moment(one, alpha), rel=tolerances.REPLICA_MOMENT, abs=1e-12)


@pytest.mark.parametrize(("name", "bandwidth", "r", "sigma", "moment"), [
    ("nested_ra", 32, 0.0, 0.60, 2.95832061128), ("nested_ra", 32, 0.0, 0.65, 2.06314709504), ("nested_ra", 32, 0.0, 0.70, 1.70650076567),
    ("min_sep_ra", 32, 0.05, 0.671, 2.09414424177), ("min_sep_ra", 128, 0.02, 0.784, 2.34794149523),
])
def test_published_moments(name, bandwidth, r, sigma, moment):
    """T = 1024, K = 4; values of math/certificates.md, "Reference values"."""
    law = tilted_law(_anchor(name, bandwidth, r, sigma), alpha=2)
    assert math.exp(law.log_moment) == pytest.approx(moment, rel=tolerances.REFERENCE_MOMENT)


@pytest.mark.parametrize(("name", "bandwidth", "alpha"), [("min_sep_ra", 64, 2), ("nested_ra", 32, 3), ("min_sep_poisson", 32, 3)])
def test_long_samples_have_the_overlap_that_the_moment_implies(name, bandwidth, alpha):
    """E Σ_{i<j} ⟨Cx^i, Cx^j⟩ under the tilted law is the derivative of log Z in 1/σ²."""
    one = _anchor(name, bandwidth, 0.03, 0.9, iterations=512)
    h, step = 1 / one.sigma**2, 1e-3
    log_z = [tilted_law(one.with_sigma((h + sign * step) ** -0.5), alpha=alpha).log_moment for sign in (-1, 1)]
    expected = (log_z[1] - log_z[0]) / (2 * step)
    positions = tilted_law(one, alpha=alpha).sample(np.random.default_rng(4), 3000)
    overlaps = _overlaps(one, positions)
    deviation = overlaps.std() / math.sqrt(overlaps.size)
    assert abs(overlaps.mean() - expected) < tolerances.STANDARD_DEVIATIONS * deviation + 1e-4 * expected


def test_samples_depend_on_the_generator_alone():
    law = tilted_law(tuples.mechanism("min_sep_ra", 12, 3, 3), alpha=2)
    first, again, other = (law.sample(np.random.default_rng(seed), 500) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert law.sample(np.random.default_rng(1), 0).shape == (0, 2, 3)


def test_the_residual_moment_takes_out_the_gaussian_factor():
    one = tuples.mechanism("nested_ra", 12, 2, 3)
    law = tilted_law(one, alpha=3)
    xi = 2 * one.strategy.kappa / one.sigma
    assert law.log_residual_moment == pytest.approx(law.log_moment - 3 * xi**2, rel=1e-12)
    assert tilted_log_moment(one, alpha=3) == law.log_residual_moment
    # E_Q LR_⊥^α >= 1, so more than the residual cannot be taken out.
    assert law.log_residual_moment > 0
    poisson = tilted_law(tuples.mechanism("min_sep_poisson", 9, 2, 3), alpha=2)
    assert poisson.log_residual_moment == poisson.log_moment


def test_an_exponent_is_another_noise_multiplier():
    one = tuples.mechanism("min_sep_ra", 10, 2, 3)
    law = tilted_law(one, alpha=2, exponent=1.25)
    assert law.order == 2.5
    assert law.log_moment == tilted_law(one.with_sigma(one.sigma / 1.25), alpha=2).log_moment
    xi = 2 * one.strategy.kappa / one.sigma
    assert law.log_residual_moment == pytest.approx(law.log_moment - 1.25**2 * xi**2, rel=1e-12)


@pytest.mark.parametrize(("name", "bandwidth", "alpha"), [
    ("min_sep_ra", 16, 3), ("min_sep_ra", 64, 2), ("nested_ra", 32, 3), ("nested_ra", 64, 2), ("balls_in_bins", 32, 3),
    ("min_sep_poisson", 32, 3),
])
def test_memory_is_what_the_cost_says(name, bandwidth, alpha):
    one = _anchor(name, bandwidth, 0.03, 1.0, iterations=256)
    tilted_cost(one, alpha=alpha)
    tracemalloc.start()
    law = tilted_law(one, alpha=alpha)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    cost = tilted_cost(one, alpha=alpha)
    assert law.bytes <= cost.bytes
    assert peak < 1.05 * cost.bytes + tolerances.REPLICA_MEMORY_FIXED
    # What balls-in-bins needs is mostly for sampling.
    assert peak > 0.2 * cost.bytes or name == "balls_in_bins"


@pytest.mark.parametrize("alpha", [1, 0, 2.0, True, None])
def test_refuses_a_bad_number_of_replicas(alpha):
    one = tuples.mechanism("min_sep_ra", 10, 2, 3)
    for ask in (tilted_law, tilted_unsupported, tilted_cost, tilted_log_moment):
        with pytest.raises(InputError, match="alpha="):
            ask(one, alpha=alpha)


@pytest.mark.parametrize("exponent", [0.99, math.nan, math.inf, "2"])
def test_refuses_a_bad_exponent(exponent):
    with pytest.raises(InputError, match="exponent="):
        tilted_law(tuples.mechanism("min_sep_ra", 10, 2, 3), alpha=2, exponent=exponent)


def test_refuses_a_bad_size():
    with pytest.raises(InputError, match="size=-1"):
        tilted_law(tuples.mechanism("min_sep_ra", 10, 2, 3), alpha=2).sample(np.random.default_rng(0), -1)


def test_says_what_is_not_served():
    one = _anchor("min_sep_ra", 128, 0.02, 0.784)
    assert tilted_unsupported(one, alpha=2) is None
    assert "min_sep_ra" in tilted_unsupported(one, alpha=4)
    assert "GiB" in tilted_unsupported(one, alpha=3)
    assert tilted_unsupported(one, alpha=3, memory_limit=8 * 2**30) is None
    with pytest.raises(UnsupportedError, match="GiB"):
        tilted_law(one, alpha=2, memory_limit=2**20)
    with pytest.raises(InputError, match="memory_limit="):
        tilted_unsupported(one, alpha=2, memory_limit=0)
    wide = _anchor("balls_in_bins", 250, 0.02, 1.0)
    assert "balls_in_bins" in tilted_unsupported(wide, alpha=5)
    assert tilted_unsupported(_anchor("balls_in_bins", 2, 0.02, 1.0), alpha=5) is None


def test_cost_grows_with_what_there_is_to_sum():
    costs = [tilted_cost(_anchor("min_sep_ra", bandwidth, 0.0, 1.0), alpha=alpha) for bandwidth, alpha in ((32, 2), (64, 2), (64, 3))]
    assert all(isinstance(cost, Cost) for cost in costs)
    assert costs[0].operations < costs[1].operations < costs[2].operations and costs[0].bytes < costs[1].bytes < costs[2].bytes


def _anchor(name: str, bandwidth: int, r: float, sigma: float, *, iterations: int = 1024) -> Mechanism:
    scheme = make_scheme(name, iterations=iterations, participations=4, bandwidth=bandwidth)
    return Mechanism(scheme=scheme, strategy=harmonic(iterations=iterations, bandwidth=bandwidth, r=r), sigma=sigma)


def _overlaps(one: Mechanism, positions: np.ndarray) -> np.ndarray:
    """(n,): Σ_{i<j} ⟨Cx^i, Cx^j⟩ = ½(‖Σ_i Cx^i‖² − Σ_i ‖Cx^i‖²)."""
    size, alpha, _ = positions.shape
    x = np.zeros((alpha, size, one.scheme.iterations + 1))
    for replica in range(alpha):
        np.put_along_axis(x[replica], positions[:, replica], 1.0, axis=1)
    means = one.strategy.apply(x[:, :, :-1])
    return 0.5 * (np.square(means.sum(axis=0)).sum(axis=1) - np.square(means).sum(axis=(0, 2)))
