"""Existing runs: what is read, what is accounted, and every mechanism that is not the one it claims to be, refused with the reason."""

import functools
import json
import math

import numpy as np
import pytest

from accountants.registry import account
from engine.exports import export
from engine.imports import from_jax_privacy, poisson_scheme, read_run, run_of
from engine.results import write_strategy
from search_spaces.errors import InputError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy
from tests.contracts.exporter_contract import strategy_content

DP_SGD = {"scheme": "poisson", "iterations": 1000, "sampling_probability": 0.01, "sigma": 1.0}
CYCLIC = {"scheme": "cyclic_poisson", "iterations": 120, "coefficients": [1.0, 0.5, 0.25], "sampling_probability": 0.3, "sigma": 2.0}
FIXED = {"scheme": "min_sep_ra", "iterations": 120, "coefficients": [1.0, 0.5, 0.25], "participations": 4, "sigma": 2.0}


def refusal(values: dict, kind=InputError) -> str:
    with pytest.raises(kind) as caught:
        run_of(values)
    return str(caught.value)


def test_a_run_is_accounted_as_its_mechanism():
    run = run_of(FIXED)
    mechanism = Mechanism(
        scheme=make_scheme("min_sep_ra", iterations=120, participations=4, bandwidth=3),
        strategy=ToeplitzStrategy(iterations=120, coefficients=(1.0, 0.5, 0.25)), sigma=2.0,
    )
    assert run.mechanism == mechanism and run.adjacency == "add_remove" and run.notes == ()
    imported, direct = (of(epsilon=2.0, accountants=["gaussian"]) for of in (run.account, functools.partial(account, mechanism)))
    assert [(e.direction, e.delta) for e in imported] == [(e.direction, e.delta) for e in direct]


def test_known_value_of_dp_sgd():
    """q = 0.01, σ = 1, 1000 steps, δ = 1e-5: ε = 1.83 to 1.85 by PLD accountants; without amplification it would be over 100."""
    statements = run_of(DP_SGD).account(delta=1e-5, accountants=["pld"])
    assert 1.80 < max(e.epsilon for e in statements) < 1.90


def test_sensitivity_counts_every_participation():
    """√4 · ‖c‖ for four separated participations, and never that of one."""
    assert abs(run_of(FIXED).mechanism.sensitivity - 2 * math.hypot(1.0, 0.5, 0.25)) < 1e-12


@pytest.mark.parametrize("probability", [0.01, 0.1, 1 / 3, 0.7, 1.0, 1e-4, 0.123456789012345, np.nextafter(0.3, 1)])
@pytest.mark.parametrize(("name", "bandwidth"), [("poisson", 1), ("cyclic_poisson", 5), ("min_sep_poisson", 4)])
def test_sampling_probabilities_are_kept_to_the_last_bit(name, bandwidth, probability):
    scheme = poisson_scheme(name, iterations=100, bandwidth=bandwidth, probability=float(probability))
    assert scheme.probability == probability
    assert np.all(scheme.recurrence().fire_probability == probability)


def test_any_probability_is_kept_or_rounded_up():
    rng = np.random.default_rng(111)
    for probability in rng.random(200):
        kept = poisson_scheme("poisson", iterations=7, bandwidth=1, probability=float(probability)).probability
        assert probability <= kept <= probability * (1 + 1e-15)


def test_an_exported_configuration_and_a_strategy_file_come_back_whole(tmp_path):
    for name in ("cyclic_poisson", "min_sep_ra"):
        content = strategy_content(name)
        write_strategy(tmp_path / f"{name}.json", content)
        out = export(tmp_path / f"{name}.json", to="arrays", out=tmp_path / name)
        from_config, from_strategy = read_run(out / "config.json"), read_run(tmp_path / f"{name}.json")
        assert from_config == from_strategy
        assert from_config.mechanism.sigma == content["sigma"]
        if name == "cyclic_poisson":
            assert from_config.mechanism.scheme.probability == 3 * 4 / 24


JAX_PRIVACY = {
    "iterations": 120, "strategy": [1.0, 0.5, 0.25], "noise_multiplier": 2.0, "epsilon": None, "delta": None, "sampling_prob": 0.3,
    "l2_clip_norm": 0.7, "rescale_to_unit_norm": True, "normalize_by": 100.0, "partition_type": "INDEPENDENT",
}


def test_a_jax_privacy_config_is_cyclic_poisson_with_noise_relative_to_the_column_norm():
    run = run_of(from_jax_privacy(JAX_PRIVACY))
    assert run.mechanism.scheme.name == "cyclic_poisson" and run.mechanism.scheme.probability == 0.3
    assert run.mechanism.sigma == 2.0 * math.hypot(1.0, 0.5, 0.25)
    assert run.adjacency == "add_remove"
    expected = run_of(DP_SGD | {"iterations": 40, "sampling_probability": 0.3, "sigma": 2.0})
    ours, plain = (max(e.epsilon for e in one.account(delta=1e-5, accountants=["pld"])) for one in (run, expected))
    assert abs(ours / plain - 1) < 1e-6


def test_equal_groups_are_accounted_for_zero_out_adjacency_only():
    run = run_of(from_jax_privacy({name: value for name, value in JAX_PRIVACY.items() if name != "partition_type"}))
    assert run.adjacency == "zero_out"
    assert {e.adjacency for e in run.account(epsilon=1.0, accountants=["gaussian"])} == {"zero_out"}
    assert "partition_type='EQUAL_SPLIT' to be INDEPENDENT" in refusal(CYCLIC | {"partition_type": "EQUAL_SPLIT"}, UnsupportedError)


def test_a_jax_privacy_config_that_is_not_calibrated_is_refused():
    with pytest.raises(InputError, match="Expected noise_multiplier to be given"):
        from_jax_privacy(JAX_PRIVACY | {"noise_multiplier": None, "epsilon": 1.0, "delta": 1e-5})


def test_an_incomplete_last_round_is_accounted_as_a_whole_one():
    """121 steps in groups of 3 are 41 rounds."""
    run = run_of(CYCLIC | {"iterations": 121})
    assert run.mechanism.scheme.iterations == 123 and "Accounted as 123 steps" in run.notes[0]


@pytest.mark.parametrize("field", ["world_size", "accumulation_steps"])
def test_processes_and_accumulation_multiply_the_batch(field):
    described = {name: value for name, value in DP_SGD.items() if name != "sampling_probability"}
    described |= {"batch_size": 50, "dataset_size": 10_000, field: 2}
    assert run_of(described).mechanism.scheme.probability == 0.01
    assert run_of(described | {"sampling_probability": 0.01}).mechanism.scheme.probability == 0.01
    message = refusal(described | {"sampling_probability": 0.005})
    assert "sampling_probability is 0.005" in message and "0.01" in message


@pytest.mark.parametrize(("name", "bandwidth"), [("poisson", 1), ("cyclic_poisson", 4), ("min_sep_poisson", 4)])
def test_a_batch_size_is_the_rate_of_the_scheme(name, bandwidth):
    """In the long run the batches are as large as said."""
    run = run_of({
        "scheme": name, "iterations": 4000, "bandwidth": bandwidth, "sigma": 1.0, "batch_size": 30, "dataset_size": 600,
    })
    sizes = run.mechanism.scheme.expected_batch_sizes(600)
    assert abs(sizes[1000:].mean() - 30) < 1e-6


def test_rates_given_twice_must_agree():
    assert "participations is 4" in refusal(FIXED | {"batch_size": 10, "dataset_size": 600})
    run_of(FIXED | {"batch_size": 20, "dataset_size": 600})
    assert "to be an integer" in refusal({k: v for k, v in FIXED.items() if k != "participations"} | {"batch_size": 7, "dataset_size": 600})


def test_the_noise_given_twice_must_agree():
    run = run_of({k: v for k, v in DP_SGD.items() if k != "sigma"} | {"noise_stddev": 0.5, "clip_norm": 0.25})
    assert run.mechanism.sigma == 2.0
    assert "sigma is 1.0 and noise_stddev / clip_norm is 2.0" in refusal(DP_SGD | {"noise_stddev": 0.5, "clip_norm": 0.25})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (DP_SGD | {"shuffle": True, "poisson_sampling": False}, ["shuffle=True", "poisson", "random_allocation"]),
        (DP_SGD | {"poisson_sampling": False}, ["poisson_sampling=False", "random_allocation"]),
        (CYCLIC | {"poisson_sampling": False}, ["cyclic_ra", "min_sep_ra", "nested_ra"]),
        (FIXED | {"poisson_sampling": True}, ["poisson_sampling=True", "min_sep_ra is no Poisson"]),
        (DP_SGD | {"drop_last": True}, ["drop_last=True", "dropping changes participation"]),
        (FIXED | {"drop_last": True}, ["dropping changes participation"]),
        (DP_SGD | {"truncated_batch_size": 32}, ["truncated_batch_size=32", "depend on the others"]),
        (DP_SGD | {"adjacency": "replace_one"}, ["adjacency='replace_one'", "add_remove, zero_out"]),
        (CYCLIC | {"column_normalize": True}, ["column_normalize=True", "not Toeplitz"]),
        (CYCLIC | {"scheme": "min_sep_poisson", "warm_start": True}, ["warm_start=True"]),
        (DP_SGD | {"normalize_by": "len(dataset)"}, ["normalize_by='len(dataset)'", "public constant"]),
    ],
)
def test_another_mechanism_is_refused_with_the_reason(values, words):
    message = refusal(values, UnsupportedError)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({**CYCLIC, "coefficients": [1.0, -0.5, 0.25]}, ["coefficients[1]=-0.5"]),
        ({**CYCLIC, "coefficients": []}, ["coefficients"]),
        ({**CYCLIC, "coefficients": [1.0] * 4, "bandwidth": 3}, ["bandwidth=4 to be at most the separation 3"]),
        ({**FIXED, "iterations": 11}, ["bandwidth=3", "11/4"]),
        ({**DP_SGD, "sampling_probability": 0.0}, ["sampling_probability=0.0"]),
        ({**DP_SGD, "sampling_probability": 1.5}, ["sampling_probability=1.5"]),
        ({**DP_SGD, "sigma": 0}, ["sigma=0"]),
        ({**DP_SGD, "scheme": "shuffle"}, ["scheme='shuffle'"]),
        ({**FIXED, "sampling_probability": 0.1}, ["sampling_probability not to be given for min_sep_ra"]),
        ({**DP_SGD, "batch_size": 5}, ["batch_size and dataset_size"]),
        ({**DP_SGD, "batch_size": 50, "dataset_size": 10}, ["dataset_size=10 to be an integer >= 50"]),
        ({**DP_SGD, "world_size": 2}, ["batch_size and dataset_size"]),
        ({**DP_SGD, "secure_rng": True}, ["unknown: secure_rng"]),
        ({"scheme": "poisson"}, ["iterations to be given"]),
        ({k: v for k, v in DP_SGD.items() if k != "sigma"}, ["noise to be given"]),
        ({k: v for k, v in DP_SGD.items() if k != "sampling_probability"}, ["sampling probability to be given"]),
    ],
)
def test_bad_values_are_one_sentence(values, words):
    message = refusal(values)
    assert all(word in message for word in words), message


def test_files_are_named_in_the_message(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(DP_SGD | {"drop_last": True}))
    with pytest.raises(UnsupportedError, match="In run description .*run.json"):
        read_run(path)
    path.write_text(json.dumps(DP_SGD | {"sigma": -1}))
    with pytest.raises(InputError, match="In run description .*run.json.*sigma=-1"):
        read_run(path)
    path.write_text(json.dumps(DP_SGD))
    assert read_run(path) == run_of(DP_SGD)
