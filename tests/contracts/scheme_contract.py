"""What every batch selection scheme must satisfy; a scheme joins by being in `SCHEMES` (and in tests/enumeration.py, its definition).

A test class inherits `SchemeContract`. Statistical tests have fixed seeds; their error rates are in tests/tolerances.py.
"""

import gc
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.stats

from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, BatchScheme, make_scheme
from search_spaces.strategies import ToeplitzStrategy, banded_square_root, harmonic
from tests import tolerances
from tests.enumeration import log_likelihood_ratio, schedules
from tests.plain_recurrence import likelihood_ratio, window_ratios

SIZES = (
    (1, 1, 1), (5, 5, 1), (7, 1, 7), (7, 1, 3), (6, 2, 1), (8, 2, 2), (8, 2, 4), (9, 3, 3),
    (10, 3, 3), (11, 3, 2), (12, 2, 5), (12, 3, 2), (12, 3, 4), (12, 4, 3), (10, 2, 5), (12, 4, 1),
)
"""(T, K, b): K = 1, K = T, K·b = T, and b that divides T, T/K or neither."""

SAMPLES = 20_000


def problem(iterations: int, participations: int) -> Problem:
    return Problem(iterations=iterations, participations=participations, epsilon=1, delta=1e-5)


def admitted(name: str, size: tuple[int, int, int]) -> bool:
    return size[2] in SCHEMES[name].bandwidths(problem(*size[:2]))


def build(name: str, size: tuple[int, int, int]) -> BatchScheme:
    return make_scheme(name, iterations=size[0], participations=size[1], bandwidth=size[2])


def strategies(iterations: int, bandwidth: int) -> list[ToeplitzStrategy]:
    """Strategies up to this bandwidth: decreasing, increasing, with a zero, not normalised, and narrower than allowed."""
    free = [0.3 * (i + 1) if i % 3 != 1 else 0.0 for i in range(bandwidth)]
    return [
        harmonic(iterations=iterations, bandwidth=bandwidth, r=-0.6 / bandwidth),
        banded_square_root(iterations=iterations, bandwidth=bandwidth),
        ToeplitzStrategy(iterations=iterations, coefficients=free),
        harmonic(iterations=iterations, bandwidth=max(1, bandwidth - 1), r=0.3),
    ]


def participation_vectors(steps: np.ndarray, iterations: int) -> np.ndarray:
    """(size, T) float64 of zeros and ones from rows of steps, in which T marks an unused place."""
    rows = np.zeros((steps.shape[0], iterations + 1))
    np.put_along_axis(rows, steps, 1.0, axis=1)
    return rows[:, :iterations]


def schedule_law_p_value(scheme: BatchScheme, sampled: np.ndarray) -> float:
    """p-value of the chi-squared test that the sampled (n, T) participation vectors follow the scheme's law; 0 for an impossible one."""
    return law_p_value(*schedules(scheme), sampled)


def law_p_value(rows: np.ndarray, probabilities: np.ndarray, sampled: np.ndarray) -> float:
    """As `schedule_law_p_value`, for the law that gives each of the (m, T) rows its probability."""
    code = 1 << np.arange(rows.shape[1])
    names = (rows @ code).astype(int)
    order = np.argsort(names)
    place = np.minimum(np.searchsorted(names[order], (sampled @ code).astype(int)), names.size - 1)
    if not np.array_equal(names[order][place], (sampled @ code).astype(int)):
        return 0.0
    observed = np.bincount(place, minlength=names.size)
    expected = probabilities[order] * len(sampled)
    rare = expected < 5
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected.size == 1:
        return float(observed[0] == len(sampled))
    return float(scipy.stats.chisquare(observed, expected).pvalue)


def python_calls(action: object) -> int:
    """How many functions, Python's and C's, are called from Python code while `action()` runs."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    # A garbage collection calls whoever registered for it.
    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


scheme_and_size = pytest.mark.parametrize(
    "scheme",
    [pytest.param(build(name, size), id=f"{name}-{size}") for name in SCHEMES for size in SIZES if admitted(name, size)],
)


class SchemeContract:
    """Laws, samplers and likelihood ratios of all schemes."""

    @pytest.mark.parametrize("name", SCHEMES)
    def test_is_found_by_its_name(self, name):
        assert SCHEMES[name].name == name
        assert sum(admitted(name, size) for size in SIZES) >= 3, "the contract must not pass for want of cases"

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("name", SCHEMES)
    def test_admits_exactly_the_bandwidths_it_can_be_built_with(self, name, size):
        iterations, participations, _ = size
        bandwidths = SCHEMES[name].bandwidths(problem(iterations, participations))
        assert list(bandwidths) == sorted(set(bandwidths))
        for bandwidth in range(1, iterations + 2):
            if bandwidth in bandwidths:
                assert build(name, (iterations, participations, bandwidth)).bandwidth == bandwidth
            else:
                with pytest.raises(InputError, match="(bandwidth|participations)="):
                    build(name, (iterations, participations, bandwidth))

    @scheme_and_size
    def test_enumeration_is_a_law_and_keeps_the_promises(self, scheme):
        rows, probabilities = schedules(scheme)
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert np.all(probabilities > 0)
        assert abs(probabilities.sum() - 1) < tolerances.ENUMERATION
        assert rows.sum(axis=1).max() == scheme.max_participations
        if scheme.fixed_participations:
            assert np.all(rows.sum(axis=1) == scheme.participations)
        gaps = [np.diff(np.flatnonzero(row)).min() for row in rows if row.sum() > 1]
        assert scheme.separation >= scheme.bandwidth
        assert not gaps or min(gaps) >= scheme.separation

    @scheme_and_size
    def test_marginals_equal_enumeration(self, scheme):
        rows, probabilities = schedules(scheme)
        marginals = scheme.marginals()
        assert marginals.shape == (scheme.iterations,) and marginals.dtype == np.float64
        np.testing.assert_allclose(marginals, probabilities @ rows, rtol=0, atol=tolerances.ENUMERATION)

    @scheme_and_size
    def test_recurrence_equals_the_average_over_all_schedules(self, scheme):
        rows, probabilities = schedules(scheme)
        law = scheme.recurrence()
        assert law.terms == scheme.iterations
        assert np.all((law.fire_probability >= 0) & (law.fire_probability <= 1))
        rng = np.random.default_rng(11)
        for spread in (0.0, 0.3, 3.0):
            ratios = np.exp(spread * rng.standard_normal(scheme.iterations))
            average = probabilities @ np.where(rows == 1, ratios, 1.0).prod(axis=1)
            assert abs(likelihood_ratio(law, ratios) / average - 1) < tolerances.RECURRENCE

    @scheme_and_size
    @pytest.mark.parametrize("sigma", [0.4, 1.5])
    def test_likelihood_ratio_equals_the_ratio_of_densities(self, scheme, sigma):
        rng = np.random.default_rng(12)
        law = scheme.recurrence()
        rows, probabilities = schedules(scheme)
        for strategy in strategies(scheme.iterations, scheme.bandwidth):
            noise = sigma * rng.standard_normal((4, scheme.iterations))
            x = rows[rng.choice(len(rows), size=2, p=probabilities / probabilities.sum())]
            y = np.concatenate([noise[:2], noise[2:] + strategy.apply(x)])
            exact = log_likelihood_ratio(scheme, strategy, sigma=sigma, y=y)
            plain = [np.log(likelihood_ratio(law, window_ratios(strategy, sigma=sigma, y=row))) for row in y]
            largest_exponent = np.sqrt(scheme.max_participations) * strategy.column_norm * np.linalg.norm(y, axis=1).max() / sigma**2
            np.testing.assert_allclose(plain, exact, rtol=0, atol=tolerances.LOG_DENSITIES * (1 + largest_exponent))

    @scheme_and_size
    def test_no_schedule_exceeds_the_sensitivity(self, scheme):
        rows, _ = schedules(scheme)
        for strategy in strategies(scheme.iterations, scheme.bandwidth):
            mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=1)
            largest = np.linalg.norm(rows @ strategy.dense().T, axis=1).max()
            assert largest <= mechanism.sensitivity * (1 + tolerances.ENUMERATION)
            if strategy.bandwidth == 1 or np.any(_uncut(rows, strategy) & (rows.sum(axis=1) == scheme.max_participations)):
                assert largest >= mechanism.sensitivity * (1 - tolerances.ENUMERATION)

    @scheme_and_size
    def test_sampled_schedules_follow_the_law(self, scheme):
        steps = scheme.sample(np.random.default_rng(13), SAMPLES)
        assert steps.shape == (SAMPLES, scheme.max_participations) and steps.dtype == np.int64
        used = steps < scheme.iterations
        assert steps.min() >= 0 and steps.max() <= scheme.iterations
        assert np.all(np.diff(steps, axis=1)[used[:, 1:]] >= scheme.separation)
        assert np.all(used[:, :-1] >= used[:, 1:]), "unused places come last"
        if scheme.fixed_participations:
            assert used.all()
        assert schedule_law_p_value(scheme, participation_vectors(steps, scheme.iterations)) > tolerances.CHI_SQUARED_P

    @scheme_and_size
    def test_sampled_inclusions_and_pairs_have_the_exact_frequencies(self, scheme):
        rows, probabilities = schedules(scheme)
        exact = rows.T @ (probabilities[:, None] * rows)
        sampled = participation_vectors(scheme.sample(np.random.default_rng(14), SAMPLES), scheme.iterations)
        error = np.abs(sampled.T @ sampled / SAMPLES - exact)
        deviation = np.sqrt(np.clip(exact * (1 - exact), 0, None) / SAMPLES)
        assert np.all(error <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)

    @scheme_and_size
    def test_batch_sizes_have_the_variance_of_independent_examples(self, scheme):
        batches, examples = 1000, 20
        steps = scheme.sample(np.random.default_rng(15), batches * examples)
        sizes = participation_vectors(steps, scheme.iterations).reshape(batches, examples, -1).sum(axis=1)
        marginals = np.clip(scheme.marginals(), 0, 1)
        one = marginals * (1 - marginals)
        variance = examples * one
        # Variance of an empirical variance: 2v²/(n−1) + (fourth cumulant)/n, which for a binomial is v(1 − 6p(1−p)).
        deviation = np.sqrt(2 * variance**2 / (batches - 1) + variance * np.clip(1 - 6 * one, 0, None) / batches)
        error = np.abs(sizes.var(axis=0, ddof=1) - variance)
        assert np.all(error <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)

    @pytest.mark.parametrize("name", SCHEMES)
    def test_sampling_is_reproducible_and_serves_no_examples(self, name):
        scheme = build(name, (12, 3, 1))
        first, again = (scheme.sample(np.random.default_rng(16), 50) for _ in range(2))
        assert np.array_equal(first, again)
        assert scheme.sample(np.random.default_rng(16), 0).shape == (0, scheme.max_participations)

    @pytest.mark.parametrize("participations", [4, 64])
    @pytest.mark.parametrize("name", SCHEMES)
    def test_sampling_has_no_python_loop_over_examples(self, name, participations):
        scheme = build(name, (1024, participations, SCHEMES[name].bandwidths(problem(1024, participations))[-1]))
        # The first is for what a process does once.
        _, few, many = (python_calls(lambda: scheme.sample(np.random.default_rng(17), size)) for size in (20, 20, 2000))
        assert few == many

    @pytest.mark.parametrize("participations", [4, 64])
    @pytest.mark.parametrize("name", SCHEMES)
    def test_sampling_memory_is_a_small_multiple_of_the_result(self, name, participations):
        scheme = build(name, (1024, participations, SCHEMES[name].bandwidths(problem(1024, participations))[-1]))
        size = 1_600_000 // scheme.max_participations
        tracemalloc.start()
        try:
            steps = scheme.sample(np.random.default_rng(18), size)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < tolerances.SAMPLER_MEMORY_MULTIPLE * steps.nbytes + tolerances.SAMPLER_MEMORY_FIXED

    @pytest.mark.parametrize("name", SCHEMES)
    def test_arguments_are_checked_and_keyword_only(self, name):
        good = {"iterations": 12, "participations": 3, "bandwidth": 1}
        bad = [
            ("iterations", 0), ("iterations", -3), ("iterations", 12.0), ("iterations", True), ("iterations", float("nan")),
            ("participations", 0), ("participations", 13), ("participations", 3.0), ("participations", True), ("participations", "3"),
            ("bandwidth", 0), ("bandwidth", 1.0), ("bandwidth", True), ("bandwidth", None), ("bandwidth", 5),
        ]
        for argument, value in bad:
            with pytest.raises(InputError) as caught:
                make_scheme(name, **(good | {argument: value}))
            assert f"{argument}={value!r}" in str(caught.value) and str(caught.value).startswith("Expected")
        with pytest.raises(TypeError):
            SCHEMES[name](12, 3, 1)


def _uncut(rows: np.ndarray, strategy: ToeplitzStrategy) -> np.ndarray:
    """(n,) bool: no window of the schedule is cut off at T."""
    return np.all(rows[:, strategy.iterations - strategy.bandwidth + 1 :] == 0, axis=1)
