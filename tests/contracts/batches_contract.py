"""What the batches of every scheme must satisfy; a scheme joins by being in `SCHEMES` (and in tests/enumeration.py, its definition).

A test class inherits `BatchesContract`. Statistical tests have fixed seeds; their error rates are in tests/tolerances.py.
"""

import functools
import tracemalloc

import numpy as np
import pytest
import scipy.stats

from search_spaces.errors import InputError
from search_spaces.schemes import SCHEMES, BatchScheme
from tests import tolerances
from tests.contracts.scheme_contract import build, law_p_value, problem, python_calls, scheme_and_size
from tests.enumeration import schedules

EXAMPLES = 20_000


def batch_schedules(scheme: BatchScheme) -> tuple[np.ndarray, np.ndarray]:
    """As `schedules`, with the public first position equally likely to be any of the scheme's instead of 0."""
    rows, probabilities = schedules(scheme)
    shifted = np.concatenate([np.roll(rows, shift, axis=1) for shift in range(scheme.public_starts)])
    different, place = np.unique(shifted, axis=0, return_inverse=True)
    return different, np.bincount(place.ravel(), weights=np.tile(probabilities / scheme.public_starts, scheme.public_starts))


def joined(batches: list[np.ndarray], num_examples: int) -> np.ndarray:
    """(num_examples, T) float64 of zeros and ones: who is in which batch."""
    rows = np.zeros((num_examples, len(batches)))
    for t, batch in enumerate(batches):
        rows[batch, t] = 1.0
    return rows


@functools.cache
def drawn(scheme: BatchScheme) -> np.ndarray:
    """`joined` for one run with `EXAMPLES` examples."""
    return joined(list(scheme.batch_iterator(EXAMPLES, 33)), EXAMPLES)


def anchor(name: str, participations: int = 4) -> BatchScheme:
    """The scheme at T = 1024 and the largest bandwidth up to 128 that it admits."""
    return build(name, (1024, participations, max(b for b in SCHEMES[name].bandwidths(problem(1024, participations)) if b <= 128)))


class BatchesContract:
    """Protocol, law, reproducibility and cost of the batches."""

    @scheme_and_size
    def test_are_sorted_sets_of_indices_one_a_step(self, scheme):
        for num_examples in (0, 1, 3, 50):
            batches = list(scheme.batch_iterator(num_examples, 31))
            assert len(batches) == scheme.iterations
            for batch in batches:
                assert batch.ndim == 1 and batch.dtype == np.int64
                assert np.all(np.diff(batch) > 0)
                assert not batch.size or (batch[0] >= 0 and batch[-1] < num_examples)

    @scheme_and_size
    def test_keep_the_participations_and_the_separation_exactly(self, scheme):
        rows = joined(list(scheme.batch_iterator(500, 32)), 500)
        counts = rows.sum(axis=1)
        if scheme.fixed_participations:
            assert np.all(counts == scheme.participations)
        assert counts.max() <= scheme.max_participations
        gaps = [np.diff(np.flatnonzero(row)).min() for row in rows if row.sum() > 1]
        assert not gaps or min(gaps) >= scheme.separation

    @scheme_and_size
    def test_participations_of_one_example_follow_the_law(self, scheme):
        assert law_p_value(*batch_schedules(scheme), drawn(scheme)) > tolerances.CHI_SQUARED_P

    @scheme_and_size
    def test_inclusions_and_pairs_have_the_exact_frequencies(self, scheme):
        rows, probabilities = batch_schedules(scheme)
        exact = rows.T @ (probabilities[:, None] * rows)
        deviation = np.sqrt(np.clip(exact * (1 - exact), 0, None) / EXAMPLES)
        error = np.abs(drawn(scheme).T @ drawn(scheme) / EXAMPLES - exact)
        assert np.all(error <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)

    @scheme_and_size
    def test_expected_sizes_and_coverage_equal_enumeration(self, scheme):
        rows, probabilities = batch_schedules(scheme)
        np.testing.assert_allclose(scheme.expected_batch_sizes(30), 30 * (probabilities @ rows), rtol=0, atol=30 * tolerances.ENUMERATION)
        seen = np.minimum(1.0, np.cumsum(rows, axis=1))
        np.testing.assert_allclose(scheme.coverage(), probabilities @ seen, rtol=0, atol=tolerances.ENUMERATION)

    @pytest.mark.parametrize("name", SCHEMES)
    def test_sizes_have_the_mean_and_variance_of_independent_examples(self, name):
        runs, examples = 200, 30
        scheme = build(name, (12, 3, SCHEMES[name].bandwidths(problem(12, 3))[-1]))
        sizes = np.array([[batch.size for batch in scheme.batch_iterator(examples, seed)] for seed in range(runs)])
        marginals = np.clip(scheme.expected_batch_sizes(examples) / examples, 0, 1)
        one = marginals * (1 - marginals)
        variance = examples * one
        error = np.abs(sizes.mean(axis=0) - examples * marginals)
        assert np.all(error <= tolerances.STANDARD_DEVIATIONS * np.sqrt(variance / runs) + tolerances.ENUMERATION * examples)
        # Variance of an empirical variance: 2v²/(n−1) + (fourth cumulant)/n, which for a binomial is v(1 − 6p(1−p)).
        deviation = np.sqrt(2 * variance**2 / (runs - 1) + variance * np.clip(1 - 6 * one, 0, None) / runs)
        error = np.abs(sizes.var(axis=0, ddof=1) - variance)
        assert np.all(error <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)

    @pytest.mark.parametrize("apart", [1, EXAMPLES // 2])
    @scheme_and_size
    def test_examples_are_independent_of_each_other(self, scheme, apart):
        """Chi-squared test of the contingency table of (first step, last step) classes of pairs of examples."""
        rows = drawn(scheme)
        first, last = rows.argmax(axis=1), rows[:, ::-1].argmax(axis=1)
        classes = (first * scheme.iterations + last) % 7
        left, right = (classes[0::2], classes[1::2]) if apart == 1 else (classes[:apart], classes[apart:])
        table = scipy.stats.contingency.crosstab(left, right).count
        if min(table.shape) > 1:
            assert scipy.stats.chi2_contingency(table).pvalue > tolerances.CHI_SQUARED_P
        else:
            assert len(np.unique(rows, axis=0)) <= 7, "one class for want of randomness only"

    @pytest.mark.parametrize("name", SCHEMES)
    def test_same_seed_same_batches_whatever_is_drawn_at_once(self, name, monkeypatch):
        scheme = anchor(name)
        first = joined(list(scheme.batch_iterator(300, 36)), 300)
        again = joined(list(scheme.batch_iterator(300, np.random.default_rng(36))), 300)
        assert np.array_equal(first, again)
        monkeypatch.setattr("search_spaces.schemes.batches.EXAMPLES_AT_ONCE", 7)
        assert np.array_equal(first, joined(list(scheme.batch_iterator(300, 36)), 300))
        monkeypatch.undo()
        if scheme.amplified or scheme.public_starts > 1:
            assert not np.array_equal(first, joined(list(scheme.batch_iterator(300, 37)), 300))
            assert not np.array_equal(*(joined(list(scheme.batch_iterator(300)), 300) for _ in range(2))), "no seed is a secret one"

    @pytest.mark.parametrize("name", SCHEMES)
    def test_frequencies_at_the_anchor(self, name):
        scheme = anchor(name)
        sizes = np.array([batch.size for batch in scheme.batch_iterator(EXAMPLES, 38)])
        marginals = scheme.expected_batch_sizes(EXAMPLES) / EXAMPLES
        deviation = np.sqrt(np.clip(marginals * (1 - marginals), 0, None) / EXAMPLES)
        assert np.all(np.abs(sizes / EXAMPLES - marginals) <= tolerances.STANDARD_DEVIATIONS * deviation + tolerances.ENUMERATION)

    @pytest.mark.parametrize("participations", [4, 64])
    @pytest.mark.parametrize("name", SCHEMES)
    def test_have_no_python_loop_over_examples(self, name, participations):
        scheme = build(name, (1024, participations, SCHEMES[name].bandwidths(problem(1024, participations))[-1]))
        few, many = (python_calls(lambda: sum(b.size for b in scheme.batch_iterator(n, 39))) for n in (1000, 30_000))
        assert many < 2 * few

    @pytest.mark.parametrize("name", SCHEMES)
    def test_need_memory_for_the_examples_and_not_for_their_participations(self, name):
        scheme = build(name, (1024, 32, SCHEMES[name].bandwidths(problem(1024, 32))[-1]))
        num_examples = 100_000
        tracemalloc.start()
        try:
            for _ in scheme.batch_iterator(num_examples, 40):
                pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < tolerances.BATCHES_MEMORY_PER_EXAMPLE * num_examples + tolerances.BATCHES_MEMORY_FIXED

    @pytest.mark.parametrize("name", SCHEMES)
    def test_arguments_are_checked_at_once(self, name):
        scheme = build(name, (12, 3, 1))
        for value in (-1, 2.0, True, None, "3"):
            with pytest.raises(InputError, match=f"Expected num_examples={value!r} to be an integer >= 0"):
                scheme.batch_iterator(value, 1)
            with pytest.raises(InputError, match=f"Expected num_examples={value!r} to be an integer >= 0"):
                scheme.expected_batch_sizes(value)
        for value in (-1, 2.0, True, "3"):
            with pytest.raises(InputError, match=f"Expected rng={value!r} to be"):
                scheme.batch_iterator(5, value)
