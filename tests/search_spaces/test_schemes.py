"""Schemes: the contract, and how the schemes relate to each other."""

import dataclasses

import numpy as np
import pytest

from search_spaces.errors import InputError, UnsupportedError
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.strategies import banded_square_root, harmonic
from tests import tolerances
from tests.contracts.scheme_contract import SAMPLES, SchemeContract, build, participation_vectors, problem, schedule_law_p_value
from tests.enumeration import schedules
from tests.plain_recurrence import likelihood_ratio, window_ratios


class TestContract(SchemeContract):
    """Every scheme in `SCHEMES`."""


def law_by_recurrence(scheme: BatchScheme) -> dict[frozenset[int], float]:
    """Probability by set of steps. With 1 for ℓ_t inside a set and 0 outside, LR is the probability of taking part inside the set only."""
    rows, _ = schedules(scheme)
    masses: dict[frozenset[int], float] = {}
    for row in sorted(rows, key=np.sum):
        steps = frozenset(np.flatnonzero(row).tolist())
        masses[steps] = likelihood_ratio(scheme.recurrence(), row) - sum(mass for inner, mass in masses.items() if inner < steps)
    return masses


def assert_same_ratios(schemes: list[BatchScheme], bandwidth: int) -> None:
    rng = np.random.default_rng(21)
    for strategy in (
        harmonic(iterations=schemes[0].iterations, bandwidth=bandwidth, r=0.1),
        banded_square_root(iterations=schemes[0].iterations, bandwidth=bandwidth),
    ):
        for y in rng.standard_normal((5, strategy.iterations)):
            ratios = window_ratios(strategy, sigma=0.8, y=y)
            values = [likelihood_ratio(scheme.recurrence(), ratios) for scheme in schemes]
            np.testing.assert_allclose(values, values[0], rtol=tolerances.ENUMERATION)


@pytest.mark.parametrize("size", [(6, 2, 1), (12, 4, 1), (40, 7, 1)])
def test_bandwidth_one_makes_the_fixed_schemes_equal(size):
    schemes = [build(name, size) for name in ("random_allocation", "nested_ra", "min_sep_ra", "cyclic_ra")]
    assert_same_ratios(schemes, 1)
    for scheme in schemes:
        np.testing.assert_allclose(scheme.marginals(), size[1] / size[0], rtol=0, atol=tolerances.ENUMERATION)


@pytest.mark.parametrize("size", [(6, 2, 1), (12, 4, 1), (40, 7, 1)])
def test_bandwidth_one_makes_the_poisson_schemes_equal(size):
    schemes = [build(name, size) for name in ("poisson", "cyclic_poisson", "min_sep_poisson")]
    assert_same_ratios(schemes, 1)
    for scheme in schemes:
        np.testing.assert_allclose(scheme.marginals(), size[1] / size[0], rtol=0, atol=tolerances.ENUMERATION)


@pytest.mark.parametrize(("iterations", "bandwidth"), [(6, 1), (6, 3), (12, 4), (12, 12), (30, 5)])
def test_one_participation_is_balls_in_bins_with_a_bin_per_step(iterations, bandwidth):
    schemes = [build(name, (iterations, 1, bandwidth)) for name in ("balls_in_bins", "nested_ra", "min_sep_ra")]
    assert_same_ratios(schemes, bandwidth)
    for scheme in schemes:
        np.testing.assert_allclose(scheme.marginals(), 1 / iterations, rtol=tolerances.ENUMERATION)


@pytest.mark.parametrize("bandwidth", [1, 2, 3])
def test_full_bandwidth_makes_nested_allocation_balls_in_bins(bandwidth):
    """K·b = T leaves nested RA one choice, the residue."""
    size = (4 * bandwidth, 4, bandwidth)
    assert_same_ratios([build("nested_ra", size), build("balls_in_bins", size)], bandwidth)


@pytest.mark.parametrize("name", SCHEMES)
def test_recurrence_gives_every_single_schedule_its_probability(name):
    size = (8, 2, SCHEMES[name].bandwidths(problem(8, 2))[-1])
    scheme = build(name, size)
    rows, probabilities = schedules(scheme)
    masses = law_by_recurrence(scheme)
    for row, probability in zip(rows, probabilities):
        assert abs(masses[frozenset(np.flatnonzero(row).tolist())] - probability) < tolerances.ENUMERATION


@pytest.mark.parametrize("size", [(12, 3, 2), (40, 4, 6), (1024, 4, 32), (1024, 4, 128), (1000, 7, 90)])
def test_min_sep_allocation_visits_both_ends_more_often(size):
    marginals = build("min_sep_ra", size).marginals()
    even = size[1] / size[0]
    np.testing.assert_allclose(marginals, marginals[::-1], rtol=0, atol=tolerances.ENUMERATION)
    assert marginals.argmax() in (0, size[0] - 1)
    assert marginals[0] > 1.05 * even
    assert marginals[size[0] // 2] < marginals[0]
    assert abs(marginals.sum() - size[1]) < tolerances.ENUMERATION * size[0]


@pytest.mark.parametrize("bandwidth", [1, 2, 16, 128])
def test_nested_allocation_visits_every_step_equally(bandwidth):
    marginals = build("nested_ra", (1024, 4, bandwidth)).marginals()
    np.testing.assert_allclose(marginals, 4 / 1024, rtol=tolerances.ENUMERATION)


@pytest.mark.parametrize(
    ("size", "expected"),
    [((1024, 4, 1), 4.0), ((1024, 4, 256), 4.0), ((1024, 4, 128), 4.1240232423), ((1000, 3, 200), 3.1789545068)],
)
def test_min_sep_poisson_participates_at_least_k_times_on_average(size, expected):
    """No example rests at the start, so p = 1/(T/K − b + 1) gives a little more than K; the docstring's figure."""
    assert abs(build("min_sep_poisson", size).marginals().sum() - expected) < 1e-9


@pytest.mark.parametrize("name", SCHEMES)
def test_frequencies_at_the_anchor(name):
    """Inclusion in each of 1024 steps by 20 000 sampled examples, against the exact marginals."""
    scheme = build(name, (1024, 4, max(b for b in SCHEMES[name].bandwidths(problem(1024, 4)) if b <= 128)))
    steps = scheme.sample(np.random.default_rng(22), SAMPLES)
    frequencies = np.bincount(steps.ravel(), minlength=1025)[:1024] / SAMPLES
    marginals = scheme.marginals()
    deviation = np.sqrt(np.clip(marginals * (1 - marginals), 0, None) / SAMPLES)
    assert np.all(np.abs(frequencies - marginals) <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)


@pytest.mark.parametrize(
    ("sampled", "claimed"),
    [
        ("nested_ra", "min_sep_ra"), ("min_sep_ra", "nested_ra"), ("cyclic_ra", "nested_ra"), ("balls_in_bins", "nested_ra"),
        ("cyclic_poisson", "min_sep_poisson"), ("min_sep_poisson", "min_sep_ra"), ("deterministic", "balls_in_bins"),
    ],
)
def test_the_law_test_refuses_another_schemes_samples(sampled, claimed):
    steps = build(sampled, (12, 3, 2)).sample(np.random.default_rng(23), SAMPLES)
    assert schedule_law_p_value(build(claimed, (12, 3, 2)), participation_vectors(steps, 12)) < tolerances.CHI_SQUARED_P


def test_the_law_test_refuses_a_slightly_wrong_probability():
    right = build("min_sep_poisson", (12, 3, 2))
    steps = build("min_sep_poisson", (13, 3, 2)).sample(np.random.default_rng(24), SAMPLES)
    rows = participation_vectors(np.minimum(steps, 12), 12)
    assert schedule_law_p_value(right, rows) < tolerances.CHI_SQUARED_P


def test_a_poisson_example_may_never_take_part():
    """An expected participation of one half leaves most examples out: rows of unused places, not an error."""
    scheme = make_scheme("poisson", iterations=1000, participations=1, bandwidth=1)
    steps = scheme.sample(np.random.default_rng(25), 4000)
    left_out = (steps == 1000).all(axis=1).mean()
    exact = (1 - 1 / 1000) ** 1000
    assert abs(left_out - exact) < tolerances.STANDARD_DEVIATIONS * np.sqrt(exact * (1 - exact) / 4000)


def test_bandwidths_are_all_divisors_of_the_iterations_and_not_only_powers_of_two():
    assert SCHEMES["nested_ra"].bandwidths(problem(60, 4)) == (1, 2, 3, 4, 5, 6, 10, 12, 15)
    assert SCHEMES["cyclic_poisson"].bandwidths(problem(100, 3)) == (1, 2, 4, 5, 10, 20, 25)
    assert SCHEMES["min_sep_ra"].bandwidths(problem(11, 3)) == (1, 2, 3)
    assert SCHEMES["balls_in_bins"].bandwidths(problem(11, 3)) == ()
    assert SCHEMES["poisson"].bandwidths(problem(11, 3)) == (1,)


def test_bandwidths_divide_the_iterations_whatever_the_dataset_size():
    small, large = (
        SCHEMES["nested_ra"].bandwidths(type(problem(100, 2))(iterations=100, participations=2, epsilon=1, delta=1e-5, dataset_size=n))
        for n in (60_000, 60_007)
    )
    assert small == large == (1, 2, 4, 5, 10, 20, 25, 50)


@pytest.mark.parametrize("name", ["cyclic_poisson", "cyclic_ra", "nested_ra"])
def test_a_bandwidth_that_does_not_divide_is_refused_by_name(name):
    with pytest.raises(InputError, match=f"Expected bandwidth=5 to divide iterations=12, which {name} needs."):
        make_scheme(name, iterations=12, participations=2, bandwidth=5)


@pytest.mark.parametrize("name", ["poisson", "random_allocation"])
def test_schemes_without_separation_refuse_wider_bands(name):
    with pytest.raises(UnsupportedError, match="Expected bandwidth=2 to be 1"):
        make_scheme(name, iterations=12, participations=2, bandwidth=2)


def test_balls_in_bins_needs_equal_bins():
    with pytest.raises(InputError, match="Expected participations=5 to divide iterations=12"):
        make_scheme("balls_in_bins", iterations=12, participations=5, bandwidth=1)


@pytest.mark.parametrize("name", ["nested", "", "Nested_RA", None, 3, ["nested_ra"]])
def test_an_unknown_scheme_is_refused_with_the_known_ones(name):
    with pytest.raises(InputError) as caught:
        make_scheme(name, iterations=12, participations=2, bandwidth=1)
    assert f"scheme={name!r}" in str(caught.value) and all(known in str(caught.value) for known in SCHEMES)


def test_what_is_fixed_and_what_is_amplified():
    assert {name for name, scheme in SCHEMES.items() if not scheme.fixed_participations} == {"poisson", "cyclic_poisson", "min_sep_poisson"}
    assert {name for name, scheme in SCHEMES.items() if not scheme.amplified} == {"deterministic"}
    assert {scheme.adjacency for scheme in SCHEMES.values()} == {"add_remove"}


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5, 1e6])
@pytest.mark.parametrize("name", ["poisson", "cyclic_poisson", "min_sep_poisson"])
def test_a_rate_factor_scales_the_participation_probability_of_recurrence_and_sampler(name, factor):
    base = build(name, (12, 3, 1 if name == "poisson" else 2))
    scheme = dataclasses.replace(base, rate_factor=factor)
    assert scheme.probability == min(1.0, factor * base.probability)
    np.testing.assert_array_equal(scheme.recurrence().fire_probability, scheme.probability)
    steps = scheme.sample(np.random.default_rng(26), SAMPLES)
    marginals = scheme.marginals()
    deviation = np.sqrt(np.clip(marginals * (1 - marginals), 0, None) / SAMPLES)
    error = np.abs(participation_vectors(steps, 12).mean(axis=0) - marginals)
    assert np.all(error <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)
    assert (scheme == base) == (factor == 1), "another law is another scheme"


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), True, None, "2"])
def test_a_rate_factor_must_be_positive(factor):
    with pytest.raises(InputError) as caught:
        dataclasses.replace(build("poisson", (12, 3, 1)), rate_factor=factor)
    assert str(caught.value) == f"Expected rate_factor={factor!r} to be a finite number > 0."
