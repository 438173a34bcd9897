"""Tail-sum and published bounds: the mathematics' table, brute force, exact binomial laws, monotonicity."""

import math

import hypothesis
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
from hypothesis import strategies as st
from scipy.special import rel_entr

from accountants.tail_sum import (
    METHODS,
    bernoulli_divergence,
    candidate_slack,
    certified_delta,
    descending_slack,
    pass_probability,
    published_delta,
    samples_for_slack,
    samples_needed,
)
from search_spaces.errors import CalibrationError, InputError
from tests import tolerances

TABLE = [(0.5, 1.07e7, 5.65e5, 1.54e5), (0.8, 8.19e7, 3.80e6, 9.38e5), (0.9, 3.56e8, 1.55e7, 3.72e6), (0.95, 1.504e9, 6.24e7, 1.48e7)]
"""δ'/δ and the samples needed by the published procedure, a descending list and one candidate, δ = 1e-5: math/certificates.md, section 1.
Its last number of the published procedure, 1.53e9, is 1.7 % too large: the best τ is 1.0512 and gives 1e-5 with 1.504e9 samples."""

any_size = hypothesis.given(
    threshold=st.floats(1e-8, 0.9), samples=st.integers(1, 10**9), bound=st.sampled_from([1.0, 0.3, 1e-3, 1e-6]),
)
"""With thresholds in units of the bound."""

BINOMIAL = [(10, 0.25), (10, 0.9), (1000, 0.01), (1000, 0.3), (100_000, 1e-4), (100_000, 2e-5), (2_000_000, 4e-6)]
binomial = pytest.mark.parametrize(("samples", "fraction"), BINOMIAL)
"""N and δ'/B, from fewer than one expected success at the threshold to thousands."""


def binomial_pass(samples: int, fraction: float, mean: np.ndarray) -> np.ndarray:
    """The exact probability that a test of values in {0, B} with mean δ = B·`mean` passes."""
    return scipy.stats.binom.cdf(math.floor(samples * fraction * (1 + 1e-12)), samples, mean)


def divergence(a: float, x: float) -> float:
    return float(rel_entr(a, x) + rel_entr(1 - a, 1 - x))


@pytest.mark.parametrize(("fraction", "published", "descending", "one"), TABLE)
def test_samples_needed_at_the_anchor(fraction, published, descending, one):
    needed = [samples_needed(method, delta=1e-5, threshold=fraction * 1e-5) for method in ("published", "descending", "tail_sum")]
    assert needed == pytest.approx([published, descending, one], rel=tolerances.THREE_DIGITS)


def test_the_published_number_of_samples():
    """Equations of the published procedure at δ' = δ/2 = 5e-6 (the paper rounds to 10 745 968)."""
    assert samples_needed("published", delta=1e-5, threshold=0.5e-5) == 10_745_967


def test_divergence_at_the_ends():
    assert bernoulli_divergence(0.0, 0.0) == bernoulli_divergence(1.0, 1.0) == bernoulli_divergence(0.3, 0.3) == 0.0
    assert bernoulli_divergence(0.2, 1.0) == math.inf
    assert bernoulli_divergence(0.0, 0.25) == pytest.approx(-math.log(0.75))
    np.testing.assert_allclose(bernoulli_divergence(0.1, np.array([0.2, 0.6])), [divergence(0.1, x) for x in (0.2, 0.6)])


@any_size
def test_pass_probability_is_a_decreasing_probability(threshold, samples, bound):
    d = bound * np.linspace(0.0, 1.0, 101)
    p = pass_probability(d, threshold=threshold * bound, samples=samples, bound=bound)
    assert np.all((0 <= p) & (p <= 1)) and np.all(np.diff(p) <= 0)
    assert np.all(p[d <= threshold * bound] == 1) and p[-1] == 0


@any_size
def test_candidate_slack_is_the_maximum_and_not_less(threshold, samples, bound):
    """The maximum by brute force: a grid over log(x − a), then a bounded search around its best point."""
    def objective(log_step: float) -> float:
        # In 80 bits: N times the rounding of a KL divergence counts.
        a, step = np.longdouble(threshold), np.exp(np.longdouble(log_step))
        return float(log_step + samples * (a * np.log((a + step) / a) + (1 - a) * np.log((1 - a - step) / (1 - a))))

    grid = np.linspace(math.log(1e-9), math.log(1 - threshold) - 1e-12, 1_001)
    best = int(np.argmax([objective(step) for step in grid]))
    found = scipy.optimize.minimize_scalar(
        lambda step: -objective(step), bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]), method="bounded",
        options={"xatol": 1e-9},
    )
    slack = candidate_slack(threshold=threshold * bound, samples=samples, bound=bound)
    assert slack >= bound * math.exp(-found.fun) * (1 - 1e-12)
    assert slack == pytest.approx(bound * math.exp(-found.fun), rel=tolerances.ROUNDED_UP)


@any_size
def test_slack_beyond_a_base_is_the_maximum_and_not_less(threshold, samples, bound):
    """max_{d > base} (d − base)·p(d) for base above δ', by a fine grid."""
    start = threshold + 0.3 * (1 - threshold) * min(1.0, 3 / math.sqrt(samples))
    x = start + (1 - start) * np.geomspace(1e-12, 1.0, 20_001)
    with np.errstate(divide="ignore", under="ignore"):
        values = (x - start) * np.exp(-samples * (rel_entr(threshold, x) + rel_entr(1 - threshold, np.maximum(1 - x, 0.0))))
    slack = candidate_slack(threshold=threshold * bound, samples=samples, bound=bound, base=start * bound)
    assert bound * values.max() * (1 - 1e-9) <= slack <= bound * values.max() * (1 + tolerances.GRID_MAXIMUM) + 1e-300
    assert slack <= candidate_slack(threshold=threshold * bound, samples=samples, bound=bound)


def test_slack_beyond_the_bound_is_nothing():
    assert candidate_slack(threshold=0.1, samples=10, bound=0.5, base=0.5) == 0.0
    with pytest.raises(InputError, match="base=0.05"):
        candidate_slack(threshold=0.1, samples=10, base=0.05)


@pytest.mark.parametrize("base", [0.5e-5, 0.7e-5])
@pytest.mark.parametrize("slack", [1e-9, 1e-6])
def test_samples_for_a_slack_is_the_smallest_number(base, slack):
    arguments = dict(threshold=0.5e-5, bound=1e-2, base=base)
    samples = samples_for_slack(slack, **arguments)
    assert candidate_slack(samples=samples, **arguments) <= slack < candidate_slack(samples=samples - 1, **arguments)


@binomial
def test_lists_with_several_thresholds(samples, fraction):
    """E[δ_sel] <= base + Σ slack for thresholds δ', 0.8 δ' and 0.5 δ' tested in order, all candidates unsafe; exact binomial laws."""
    thresholds = fraction * np.array([1.0, 0.8, 0.5])
    for ratio in (1.05, 1.2, 2.0, 5.0):
        deltas = np.minimum(1.0, ratio * fraction * np.array([1.0, 1.1, 0.9]))
        passing = np.array([binomial_pass(samples, a, d) for a, d in zip(thresholds, deltas)])
        selected = passing * np.append(1.0, np.cumprod(1 - passing)[:-1])
        expected = selected @ deltas + np.prod(1 - passing) * fraction
        allowed = fraction + sum(candidate_slack(threshold=a, samples=samples, base=fraction) for a in thresholds)
        assert expected <= allowed


@pytest.mark.parametrize("threshold", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("load", [0.3, 5.0, 100.0, 1e4])
def test_descending_slack_against_adaptive_quadrature(threshold, load):
    samples = max(1, round(load / threshold))
    p = lambda x: math.exp(-samples * divergence(threshold, x))
    width = math.sqrt(threshold / samples)
    cuts = np.unique(np.minimum(threshold + width * np.array([0.0, 1.0, 3.0, 10.0, 50.0, 1e9]), 1.0))
    exact = sum(scipy.integrate.quad(p, low, high, epsabs=1e-9 * width, epsrel=1e-6)[0] for low, high in zip(cuts, cuts[1:]))
    assert exact <= descending_slack(threshold=threshold, samples=samples) <= exact * (1 + tolerances.UPPER_SUM)


@pytest.mark.parametrize(("threshold", "samples"), [(0.5e-5, 10**6), (1e-3, 20_000), (0.2, 30), (0.5, 4)])
def test_published_delta_against_a_search_over_all_multiples(threshold, samples):
    grid = np.linspace(threshold, 1.0, 200_001)[1:-1]
    d = np.concatenate([grid, threshold * np.geomspace(1 + 1e-6, min(100.0, 0.999 / threshold), 200_001)])
    divergences = rel_entr(threshold, d) + rel_entr(1 - threshold, 1 - d)
    least = min(1.0, float((d + np.exp(-samples * divergences) * (1 - d)).min()))
    assert published_delta(threshold=threshold, samples=samples) == pytest.approx(least, rel=1e-5)


@binomial
@pytest.mark.parametrize("bound", [1.0, 0.01])
def test_bounds_hold_for_values_that_are_zero_or_the_bound(samples, fraction, bound):
    threshold = fraction * bound
    means = np.unique(np.concatenate([np.geomspace(fraction, 1.0, 2_000), fraction + (1 - fraction) * np.linspace(0, 1, 1_000)]))
    passing, deltas = binomial_pass(samples, fraction, means), bound * means
    arguments = dict(threshold=threshold, samples=samples, bound=bound)
    assert np.all(passing <= pass_probability(deltas, **arguments))
    leaked = (deltas - threshold) * passing
    slack = candidate_slack(**arguments)
    assert leaked.max() <= slack
    assert leaked.max() >= 0.05 * slack, "a bound far above the truth would make this test empty"
    assert threshold + leaked.max() <= published_delta(**arguments)
    assert threshold + leaked.max() <= threshold + descending_slack(**arguments)


@binomial
def test_descending_bounds_hold_for_whole_lists(samples, fraction):
    """δ_1 < δ_2 < … all unsafe: the last one before the first failure is used, and the fall-back has δ'. E[δ_sel] is exact here."""
    for step in (1.01, 1.1, 1.5, 4.0):
        deltas = fraction * step ** np.arange(1.0, 400.0)
        deltas = np.append(deltas[deltas < 1], 1.0)
        passing = binomial_pass(samples, fraction, deltas)
        reached = np.cumprod(passing)
        selected = reached * (1 - np.append(passing[1:], 0.0))
        expected = fraction * (1 - passing[:1].sum()) + selected @ deltas
        assert (1 - passing[0]) + selected.sum() == pytest.approx(1)
        assert expected <= certified_delta("descending", threshold=fraction, samples=samples)
        assert expected <= certified_delta("published", threshold=fraction, samples=samples)


@any_size
def test_slacks_fall_with_the_samples_and_scale_with_the_bound(threshold, samples, bound):
    for slack in (candidate_slack, descending_slack):
        small = slack(threshold=threshold * bound, samples=samples, bound=bound)
        assert slack(threshold=threshold * bound, samples=2 * samples, bound=bound) < small
        assert small == pytest.approx(bound * slack(threshold=threshold, samples=samples), rel=tolerances.ROUNDED_UP)
    arguments = dict(threshold=threshold * bound, bound=bound)
    assert published_delta(samples=2 * samples, **arguments) <= published_delta(samples=samples, **arguments) * (1 + tolerances.ROUNDED_UP)


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    method=st.sampled_from(METHODS), fraction=st.floats(0.05, 0.9), bound=st.sampled_from([1.0, 0.1, 2e-3]), candidates=st.integers(1, 20),
)
def test_samples_needed_is_the_smallest_number(method, fraction, bound, candidates):
    arguments = dict(threshold=fraction * 1e-3, bound=bound, candidates=candidates)
    samples = samples_needed(method, delta=1e-3, **arguments)
    assert certified_delta(method, samples=samples, **arguments) <= 1e-3
    assert samples == 1 or certified_delta(method, samples=samples - 1, **arguments) > 1e-3
    more = samples_needed(method, delta=1e-3, **(arguments | {"candidates": candidates + 1}))
    assert more > samples if method == "tail_sum" and samples > 1 else more >= samples
    assert samples_needed(method, delta=1e-3, **(arguments | {"threshold": 0.95e-3})) >= samples


def test_the_list_is_never_worse_than_the_published_procedure():
    for fraction, samples in [(0.5, 10**5), (0.8, 10**7), (0.2, 10**4)]:
        arguments = dict(threshold=fraction * 1e-5, samples=samples)
        assert certified_delta("tail_sum", **arguments) < certified_delta("descending", **arguments)
        assert certified_delta("descending", **arguments) < certified_delta("published", **arguments)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bound", [1e-6, 0.999e-5, 1e-5])
def test_nothing_is_sampled_where_no_value_exceeds_the_target(method, bound):
    assert samples_needed(method, delta=1e-5, threshold=0.5e-5, bound=bound) == 0


GOOD = {"method": "tail_sum", "delta": 1e-5, "threshold": 0.5e-5}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"threshold": 1e-5}, "threshold=1e-05"), ({"threshold": 2e-5}, "threshold=2e-05"), ({"threshold": 0.0}, "threshold=0.0"),
        ({"threshold": math.nan}, "threshold=nan"), ({"delta": math.nan}, "threshold="), ({"delta": 0.0}, "threshold="),
        ({"method": "chernoff"}, "method='chernoff'"), ({"method": "chernoff", "bound": 1e-6}, "method='chernoff'"),
        ({"bound": -1.0}, "bound=-1.0"), ({"bound": 0.0}, "bound=0.0"), ({"bound": math.nan}, "bound=nan"),
        ({"candidates": 0}, "candidates=0"), ({"candidates": -3, "bound": 1e-6}, "candidates=-3"), ({"candidates": 1.5}, "candidates=1.5"),
    ],
)
def test_samples_needed_refuses(changed, named):
    with pytest.raises(InputError, match=named):
        samples_needed(**(GOOD | changed))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"threshold": 0.0}, "threshold=0.0"), ({"threshold": 1.0}, "threshold=1.0"), ({"threshold": 0.5, "bound": 0.5}, "threshold=0.5"),
        ({"samples": 0}, "samples=0"), ({"samples": 10.0}, "samples=10.0"), ({"bound": -1.0}, "bound=-1.0"),
        ({"candidates": -3}, "candidates=-3"),
    ],
)
def test_certified_delta_refuses(changed, named):
    for method in METHODS:
        with pytest.raises(InputError, match=named):
            certified_delta(method, **({"threshold": 0.1, "samples": 10} | changed))


def test_a_threshold_too_close_to_the_target_has_no_number_of_samples():
    with pytest.raises(CalibrationError, match="needs more than 1e13 samples"):
        samples_needed("published", delta=1e-5, threshold=1e-5 * (1 - 1e-7))


def test_is_keyword_only():
    with pytest.raises(TypeError):
        samples_needed("tail_sum", 1e-5, 0.5e-5)
    with pytest.raises(TypeError):
        candidate_slack(0.5e-5, 10**6)
