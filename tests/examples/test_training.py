"""The examples in reduced form: a few steps, a generous ε, and the same result for the same seed."""

import importlib.util

import pytest

from engine.exports.config import make_config
from tests.contracts.exporter_contract import IMPORTS, TRAINER_WARNINGS, strategy_content

pytest.importorskip("sklearn", reason="scikit-learn, which ships the digits, is not installed")

from examples.digits import load  # noqa: E402  (needs scikit-learn)

EXAMPLES = {"jax-privacy": ("logistic_regression", 0.7), "opacus": ("convolutional_network", 0.3)}
"""Module, and an accuracy far above the 10 % of guessing that 24 steps with hardly any noise reach."""


@pytest.fixture(params=EXAMPLES)
def example(request):
    """(trainer, training function, accuracy to reach)."""
    missing = [name for name in IMPORTS[request.param] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra `{request.param}` is not installed: no {', '.join(missing)}")
    module, accuracy = EXAMPLES[request.param]
    return request.param, importlib.import_module(f"examples.{module}").train, accuracy


@pytest.mark.filterwarnings(*TRAINER_WARNINGS)
def test_a_network_learns_in_private(example):
    to, train, accuracy = example
    quiet = make_config(strategy_content(sigma=0.01, epsilon=1e5), to=to, clip_norm=1.0, normalize_by=180)
    data = load()
    reached = train(quiet, data, learning_rate=2.0, seed=5)
    assert reached > accuracy
    assert reached == train(quiet, data, learning_rate=2.0, seed=5)
    loud = make_config(strategy_content(sigma=1e4), to=to, clip_norm=1.0, normalize_by=180)
    assert train(loud, data, learning_rate=2.0, seed=5) < accuracy


def test_the_digits_are_split_without_overlap():
    data = load()
    assert data.images.shape == (1440, 8, 8) and data.test_images.shape == (357, 8, 8)
    assert data.images.min() == -1 and data.images.max() == 1
    assert set(data.labels) == set(data.test_labels) == set(range(10))
