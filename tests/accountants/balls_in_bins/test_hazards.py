"""Hazards: why the order matters, tail bounds on samples, mixtures and their envelopes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logsumexp, ndtri

from accountants.balls_in_bins.connect_the_dots import mixture_losses
from accountants.balls_in_bins.hazards import Mixture, envelope, mixtures, step_mixture, tail_probabilities, thresholds
from accountants.balls_in_bins.prefix_statistics import TEMPERATURES, prefix_statistics
from search_spaces.errors import InputError
from tests.accountants.balls_in_bins.cases import random_gram


def random_means(seed: int, steps: int, bins: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.exponential(size=(steps, bins)) * (rng.random((steps, bins)) < 0.6), 1)


def statistics_of(means: np.ndarray, temperatures=TEMPERATURES):
    return prefix_statistics(iter(means), bins=means.shape[1], iterations=len(means), temperatures=temperatures)


def test_unsorted_hazards_would_be_unsound():
    # Means (1, 0), posterior (½, ½). A hazard bound of 0.9 ≥ ½ on the bin of mean 0, taken as if it were the upper one, moves mass down.
    posterior = Mixture(means=np.array([0.0, 1.0]), weights=np.array([0.5, 0.5]))
    unsorted = Mixture(means=np.array([0.0, 1.0]), weights=np.array([0.9, 0.1]))
    ordered = step_mixture(0.0, np.array([1.0]), np.array([0.9]))
    assert ordered.weights == pytest.approx([0.1, 0.9])
    deltas = [
        mixture_losses(mixture, sigma=1.0, direction="remove", interval=1e-3).delta(0.3) for mixture in (unsorted, posterior, ordered)
    ]
    assert deltas[0] < 0.3 * deltas[1] and deltas[1] < deltas[2]


@given(st.integers(0, 10**6))
def test_mixtures_with_the_true_hazards_are_the_posterior(seed):
    rng = np.random.default_rng(seed)
    means, posterior = np.sort(rng.random(5)), rng.dirichlet(np.ones(5))
    hazards = posterior / np.cumsum(posterior)
    found = step_mixture(means[0], means[1:], hazards[1:])
    assert found.means == pytest.approx(means) and found.weights == pytest.approx(posterior)
    more = step_mixture(means[0], means[1:], np.minimum(1.0, hazards[1:] * 1.3))
    assert np.all(np.cumsum(more.weights) <= np.cumsum(posterior) + 1e-12)


def test_equal_means_are_merged():
    found = step_mixture(0.0, np.array([0.5, 0.5, 1.0]), np.array([0.5, 0.5, 0.5]))
    assert found.means.tolist() == [0.0, 0.5, 1.0] and found.weights == pytest.approx([0.125, 0.375, 0.5])


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_envelope_dominates_every_member(seed, members):
    rng = np.random.default_rng(seed)
    steps = [
        Mixture(means=np.sort(rng.choice(10, size=4, replace=False)) / 5.0, weights=rng.dirichlet(np.ones(4))) for _ in range(members)
    ]
    together = envelope(steps)
    assert together.weights.sum() == pytest.approx(1.0) and together.weights.min() >= 0
    for step in steps:
        for x in together.means:
            assert together.weights[together.means <= x].sum() <= step.weights[step.means <= x].sum() + 1e-12


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("temperatures", [(), TEMPERATURES])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tail_bounds_hold_on_samples(direction, temperatures, seed):
    means, sigma, samples = random_means(seed, 6, 5), 1.1, 20000
    statistics, beta = statistics_of(means, temperatures), 0.02
    tau = thresholds(statistics, sigma=sigma, direction=direction, beta=np.full(len(statistics.step), beta))
    rng = np.random.default_rng(seed)
    y = sigma * rng.standard_normal((samples, 6))
    if direction == "remove":
        y += means[:, rng.integers(5, size=samples)].T
    for monitor in range(len(statistics.step)):
        n, position = statistics.step[monitor], statistics.position[monitor]
        order = np.argsort(means[n], kind="stable")
        logs = (y[:, :n] @ means[:n] - 0.5 * np.square(means[:n]).sum(axis=0)) / sigma**2
        loss = logsumexp(logs[:, order[:position]], axis=1) - np.log(position) - logs[:, order[position]]
        assert means[n, order[position]] == statistics.mean[monitor]
        # 4 standard errors of a frequency of 0.02 over 20000 samples; 90 comparisons in all.
        assert np.mean(loss < tau[monitor]) <= beta + 4 * np.sqrt(beta / samples)


def test_thresholds_of_one_lower_bin_are_the_exact_quantiles():
    means = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 2.0]])
    statistics = statistics_of(means, ())
    tau = thresholds(statistics, sigma=1.5, direction="add", beta=np.full(3, 0.01))
    # Under Q the loss of bin 1 against bin 0 after one step is (1·y − ½)/σ².
    assert tau[1] == pytest.approx((-0.5 + 1.5 * ndtri(0.01)) / 1.5**2, rel=1e-5)
    assert tau[1] <= (-0.5 + 1.5 * ndtri(0.01)) / 1.5**2


@given(st.integers(0, 10**6), st.sampled_from(["remove", "add"]))
def test_good_prefixes_are_dominated(seed, direction):
    means, sigma = random_means(seed, 5, 4), 0.9
    statistics = statistics_of(means)
    beta = tail_probabilities(statistics, bad_event=0.2, split="monitored")
    bounds = mixtures(statistics, sigma=sigma, direction=direction, beta=beta)
    rng = np.random.default_rng(seed)
    y = sigma * rng.standard_normal((400, 5)) + (means[:, rng.integers(4, size=400)].T if direction == "remove" else 0.0)
    bad = np.zeros(400, dtype=bool)
    for n, bound in enumerate(bounds):
        logs = (y[:, :n] @ means[:n] - 0.5 * np.square(means[:n]).sum(axis=0)) / sigma**2
        posterior = np.exp(logs - logsumexp(logs, axis=1)[:, None])
        for x in bound.means[:-1]:
            bad |= posterior[:, means[n] <= x].sum(axis=1) < bound.weights[bound.means <= x].sum() - 1e-9
    # δ_E bounds the frequency of bad prefixes: 0.2 ± 4 standard errors of 400 samples.
    assert bad.mean() <= 0.2 + 4 * 0.02


def test_budget_is_never_exceeded_and_spares_the_empty_prefix():
    statistics = statistics_of(random_means(4, 7, 5))
    for split in ("monitored", "even"):
        beta = tail_probabilities(statistics, bad_event=1e-3, split=split)
        assert beta[statistics.step > 0].sum() <= 1e-3
    with pytest.raises(InputError, match="split='all'"):
        tail_probabilities(statistics, bad_event=1e-3, split="all")


def test_first_step_has_the_uniform_posterior():
    means = np.array([[0.5, 0.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    statistics = statistics_of(means)
    first, second = mixtures(statistics, sigma=1.0, direction="remove", beta=np.full(len(statistics.step), 1e-9))
    assert first.means.tolist() == [0.0, 0.5, 2.0] and first.weights == pytest.approx([0.5, 0.25, 0.25])
    assert second.means.tolist() == [1.0] and second.weights.tolist() == [1.0]
    assert expit(-np.log(3)) == pytest.approx(0.25)


def test_random_gram_is_what_the_prefix_accumulates():
    # The statistics of a step after many equal ones see the same Gram matrix, scaled.
    matrix = random_gram(np.random.default_rng(0), 4)
    root = np.linalg.cholesky(matrix + 1e-12 * np.eye(4)).T
    means = np.vstack([np.abs(root), [0.0, 1.0, 2.0, 3.0]])
    statistics = statistics_of(means, ())
    last = statistics.step == 4
    prefix = np.abs(root).T @ np.abs(root)
    for row, i in enumerate(np.flatnonzero(last)):
        psi = np.r_[np.full(row + 1, 1 / (row + 1)), np.zeros(3 - row)]
        spread = prefix[row + 1, row + 1] - 2 * prefix[row + 1] @ psi + psi @ prefix @ psi
        assert statistics.spread[i, 0] == pytest.approx(np.sqrt(spread), rel=1e-5)
        assert statistics.reference[i, 0] == pytest.approx(0.5 * (prefix[row + 1, row + 1] - np.diag(prefix) @ psi), abs=1e-9)
        centres = statistics.centres[statistics.begin[i] : statistics.begin[i + 1]]
        exact = prefix @ psi - prefix[:, row + 1] + 0.5 * (prefix[row + 1, row + 1] - np.diag(prefix) @ psi)
        counts = statistics.counts[statistics.begin[i] : statistics.begin[i + 1]].astype(int)
        assert np.repeat(centres, counts) == pytest.approx(np.sort(exact), abs=1e-9)
