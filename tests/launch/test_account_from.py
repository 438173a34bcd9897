"""`bandsmith account --from`: an existing run instead of options, every accountant, and bad input."""

import json

import pytest

DP_SGD = {"scheme": "poisson", "iterations": 100, "sampling_probability": 0.05, "sigma": 1.0}


@pytest.fixture
def describe(folder):
    """Writes `run.json`."""
    return lambda **values: (folder / "run.json").write_text(json.dumps(DP_SGD | values))


def test_every_accountant_that_applies_speaks_in_both_directions(bandsmith, folder):
    run = {"scheme": "nested_ra", "iterations": 32, "participations": 2, "coefficients": [1.0, 0.5, 0.4, 0.3], "sigma": 1.2}
    (folder / "run.json").write_text(json.dumps(run))
    outcome = bandsmith("account --from run.json --delta 1e-3 --samples 4096 --json")
    assert outcome.code == 0
    named = {(statement["accountant"], statement["direction"]) for statement in outcome.json["evidence"]}
    assert named >= {(name, direction) for name in ("gaussian", "pld", "monte_carlo") for direction in ("remove", "add")}


def test_it_says_the_same_as_the_options(bandsmith, describe):
    describe()
    by_file = bandsmith("account --from run.json --delta 1e-5 --accountant pld --json").json["evidence"]
    options = "--scheme poisson --iterations 100 --participations 5 --sigma 1"
    by_options = bandsmith(f"account {options} --delta 1e-5 --accountant pld --json").json["evidence"]
    assert [statement["epsilon"] for statement in by_file] == [statement["epsilon"] for statement in by_options]


def test_assumptions_are_said_on_stderr(bandsmith, describe):
    describe(scheme="cyclic_poisson", coefficients=[1.0, 0.5, 0.2])
    outcome = bandsmith("account --from run.json --epsilon 2 --accountant pld --json")
    assert outcome.code == 0 and "Accounted as 102 steps" in outcome.err and outcome.json["evidence"]


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"shuffle": True}, "", ["run.json", "shuffle=True", "random_allocation"]),
        ({"drop_last": True}, "", ["drop_last=True", "dropping changes participation"]),
        ({"batch_size": 7, "dataset_size": 100}, "", ["0.05", "0.07"]),
        ({}, "--sigma 1", ["--sigma", "--from"]),
        ({}, "--bandwidth 1", ["--bandwidth", "--from"]),
    ],
)
def test_bad_input_is_one_sentence(bandsmith, describe, values, options, words):
    describe(**values)
    outcome = bandsmith(f"account --from run.json --epsilon 1 {options}")
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1
    assert all(word in outcome.err for word in words), outcome.err
