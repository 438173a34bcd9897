"""The audit: its bounds, its attack against enumeration, and that every trainer passes at σ and fails at σ/4."""

import importlib.util
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

from engine.exports.config import make_config
from engine.results import read_strategy
from examples.audit import RELEASES, audit, epsilon_lower_bound, log_likelihood_ratios
from tests.contracts.batches_contract import batch_schedules
from tests.contracts.exporter_contract import IMPORTS, TRAINER_WARNINGS, strategy_content
from tests.file_map import ROOT

STRATEGY = ROOT / "tests" / "reference" / "certified_min_sep_ra.json"
"""Made by `bandsmith certify --scheme min_sep_ra --iterations 24 --participations 3 --bandwidth 4 --r 0.05 --epsilon 1 --delta 1e-5
--seed 1 --out …`."""


def config(to="arrays", clip_norm=0.5, normalize_by=20.0):
    return make_config(read_strategy(STRATEGY), to=to, clip_norm=clip_norm, normalize_by=normalize_by)


@pytest.mark.filterwarnings(*TRAINER_WARNINGS)
@pytest.mark.parametrize("to", RELEASES)
def test_the_guarantee_holds_at_sigma_and_is_refuted_at_a_quarter_of_it(to):
    missing = [name for name in IMPORTS[to] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra `{to}` is not installed: no {', '.join(missing)}")
    settings = {"release": RELEASES[to], "canaries": 3000 if to == "opacus" else 8000, "seed": 3}
    kept = audit(config(to), **settings)
    assert not kept.refutes and kept.claimed == 1.0
    broken = audit(config(to), divide_sigma=4.0, **settings)
    assert broken.refutes and broken.lower_bound > 1.0


def test_perfect_guesses_are_bounded_by_their_number():
    truth = np.arange(2000) % 2 == 0
    bound = epsilon_lower_bound(truth, truth, delta=1e-5)
    # No error among 1000: the error rate may still be −log(0.0125)/1000.
    assert abs(bound - math.log(1000 / -math.log(0.0125))) < 0.02


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_guesses_that_know_nothing_prove_nothing(rate):
    rng = np.random.default_rng(121)
    truth = rng.random(4000) < 0.5
    assert epsilon_lower_bound(rng.random(4000) < rate, truth, delta=1e-5) < 0.1


def test_the_bound_is_below_the_truth_of_a_known_mechanism():
    """Randomised response with ε = 1: at most 5 % of the audits may say more than 1."""
    rng = np.random.default_rng(122)
    above = 0
    for _ in range(200):
        truth = rng.random(2000) < 0.5
        guesses = truth ^ (rng.random(2000) > math.e / (1 + math.e))
        above += epsilon_lower_bound(guesses, truth, delta=0.0) > 1.0
    assert above <= scipy.stats.binom.ppf(1 - 1e-6, 200, 0.05)


@pytest.mark.parametrize("name", ["min_sep_ra", "nested_ra", "cyclic_poisson", "min_sep_poisson", "balls_in_bins"])
def test_the_attack_is_the_likelihood_ratio(name):
    content = strategy_content(name, iterations=12)
    made = make_config(content, to="arrays", clip_norm=1.0, normalize_by=1.0)
    mechanism = made.mechanism
    rng = np.random.default_rng(123)
    rows, probabilities = batch_schedules(mechanism.scheme)
    means = mechanism.strategy.apply(rows)
    outputs = means[rng.integers(len(means), size=20)] + mechanism.sigma * rng.standard_normal((20, 12))
    exponents = (outputs @ means.T - 0.5 * np.sum(means**2, axis=1)) / mechanism.sigma**2
    exact = scipy.special.logsumexp(exponents, b=probabilities, axis=1)
    np.testing.assert_allclose(log_likelihood_ratios(made, outputs), exact, rtol=0, atol=1e-10)
