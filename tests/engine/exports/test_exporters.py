"""Exports: the contract, what is refused, and the arrays."""

import numpy as np
import pytest

from accountants.evidence import Evidence
from engine.exports import export, load_config
from engine.exports.config import guaranteed, make_config
from engine.results import write_strategy
from search_spaces.errors import InputError
from tests import tolerances
from tests.contracts.exporter_contract import ExporterContract, strategy_content, strategy_file

__all__ = ["strategy_file"]


class TestContract(ExporterContract):
    """Every exporter in `EXPORTERS`."""


def statement(direction, kind, epsilon, delta):
    return Evidence(
        accountant="x", direction=direction, kind=kind, epsilon=epsilon, delta=delta, standard_error=1e-9 if kind == "estimate" else None,
    ).to_dict()


@pytest.mark.parametrize(
    "evidence",
    [
        [],
        [("remove", "bound", 8, 1e-9)],
        [("remove", "bound", 8, 1e-9), ("add", "estimate", 8, 1e-12)],
        [("remove", "bound", 8, 1e-9), ("add", "bound", 8.001, 1e-12)],
        [("remove", "certified", 8, 1e-9), ("add", "certified", 8, 0.9)],
    ],
)
def test_a_strategy_without_a_guarantee_in_both_directions_is_not_exported(evidence, tmp_path):
    content = strategy_content() | {"evidence": [statement(*one) for one in evidence]}
    write_strategy(tmp_path / "s.json", content)
    with pytest.raises(InputError, match="Expected the strategy file to guarantee epsilon=8.0 .* in both directions"):
        export(tmp_path / "s.json", to="arrays", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_first_guarantee_of_a_direction_is_the_one_repeated():
    content = strategy_content()
    content["evidence"] = [
        statement("add", "estimate", 8, 0.0), statement("add", "certified", 8, 1e-10), statement("remove", "bound", 7, 1e-11),
        statement("add", "bound", 8, 1e-10),
    ]
    assert [(one.direction, one.kind) for one in guaranteed(content)] == [("remove", "bound"), ("add", "certified")]


@pytest.mark.parametrize("value", ["dataset_size", "batch", "auto"])
def test_a_normaliser_from_the_dataset_is_refused(value):
    """Its size is private under add/remove adjacency."""
    with pytest.raises(InputError, match=f"Expected normalize_by='{value}' to be a number: a public constant"):
        make_config(strategy_content(), to="arrays", clip_norm=1.0, normalize_by=value)


@pytest.mark.parametrize("argument", ["clip_norm", "normalize_by"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), None, True])
def test_training_constants_are_checked(argument, value, strategy_file, tmp_path):
    settings = {"clip_norm": 1.0, "normalize_by": 1.0} | {argument: value}
    with pytest.raises(InputError, match=f"Expected {argument}={value!r} to be a finite number > 0"):
        export(strategy_file, to="arrays", out=tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_an_unknown_trainer_is_refused_with_the_known_ones(strategy_file, tmp_path):
    with pytest.raises(InputError, match="Expected to='keras' to be one of arrays, jax-privacy, opacus"):
        export(strategy_file, to="keras", out=tmp_path / "out")


def test_a_folder_for_another_trainer_is_refused(strategy_file, tmp_path):
    out = export(strategy_file, to="arrays", out=tmp_path / "out")
    with pytest.raises(InputError, match="Expected to='arrays' to be 'opacus'"):
        load_config(out, to="opacus")


def test_a_strategy_file_is_no_exported_configuration(strategy_file):
    with pytest.raises(InputError, match="Expected format='bandsmith export'"):
        load_config(strategy_file)


def test_the_arrays_are_those_of_the_mechanism(strategy_file, tmp_path):
    out = export(strategy_file, to="arrays", out=tmp_path / "out")
    mechanism = load_config(out).mechanism
    with np.load(out / "arrays.npz") as arrays:
        assert np.array_equal(arrays["coefficients"], mechanism.strategy.coefficients)
        inverse = np.linalg.inv(mechanism.strategy.dense())[:, 0]
        np.testing.assert_allclose(arrays["inverse_coefficients"], inverse, rtol=0, atol=tolerances.LINEAR_ALGEBRA)
        assert np.array_equal(arrays["expected_batch_fractions"], mechanism.scheme.expected_batch_sizes(1))
        assert abs(arrays["expected_batch_fractions"].sum() - 3) < 1e-12


def test_the_sampling_probability_survives_to_the_last_bit(tmp_path):
    content = strategy_content("cyclic_poisson")
    write_strategy(tmp_path / "s.json", content)
    config = load_config(export(tmp_path / "s.json", to="arrays", out=tmp_path / "out"))
    assert config.document()["sampler"]["probability"] == config.mechanism.scheme.probability == 3 * 4 / 24
