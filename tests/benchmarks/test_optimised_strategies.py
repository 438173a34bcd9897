"""Strategies by JAX-Privacy's optimisers: matrices that can be accounted, no worse than where each optimiser begins."""

import sys

import numpy as np
import pytest

from benchmarks.optimised_strategies import FAMILIES
from search_spaces.dense_strategies import DenseStrategy, make_mechanism
from search_spaces.errors import UnsupportedError
from search_spaces.schemes import BallsInBins

SIZES = {"iterations": 16, "participations": 2, "bandwidth": 3}
OPTIMISED = ("BandMF", "BLT", "BandInvMF")


def error(name: str) -> float:
    """The RMSE at σ equal to the sensitivity: what is minimised, without amplification."""
    scheme, strategy = BallsInBins(iterations=16, participations=2), built(name)
    return strategy.rmse(sigma=make_mechanism(scheme=scheme, strategy=strategy, sigma=1.0).sensitivity, participations=2)


def built(name: str) -> DenseStrategy:
    return DenseStrategy(matrix=FAMILIES[name](**SIZES) if name in FAMILIES else np.eye(16), family=name)


@pytest.mark.parametrize("name", OPTIMISED)
def test_says_what_is_missing(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy", None)
    with pytest.raises(UnsupportedError, match="jax-privacy.*not installed"):
        FAMILIES[name](**SIZES)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "begun"), [("BandMF", "BSR"), ("BLT", "identity"), ("BandInvMF", "BISR")])
def test_is_a_strategy_no_worse_than_where_it_begins(name, begun):
    pytest.importorskip("jax_privacy", reason="the extra `jax-privacy` is not installed")
    strategy = built(name)
    assert strategy.matrix.dtype == np.float64 and strategy.iterations == 16
    assert error(name) <= error(begun)
    inverse = np.linalg.inv(strategy.matrix)
    if name == "BandMF":
        assert strategy.bandwidth == 3 and np.linalg.norm(strategy.matrix, axis=0) == pytest.approx(np.ones(16))
    if name == "BandInvMF":
        assert np.abs(np.tril(inverse, -3)).max() < 1e-9 * np.abs(inverse).max()
