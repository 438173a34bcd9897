"""`bandsmith export`: what it writes and prints, and bad input."""

import json

import pytest

from engine.exports import load_config
from engine.results import write_strategy
from tests.contracts.exporter_contract import strategy_content


@pytest.fixture
def strategy(folder):
    """`s.json`, a strategy with a guarantee."""
    write_strategy(folder / "s.json", strategy_content())
    return folder / "s.json"


def test_export_writes_a_folder_and_says_what_must_hold(bandsmith, folder, strategy):
    outcome = bandsmith("export s.json --to arrays --out training --clip-norm 0.5 --normalize-by 240")
    assert outcome.code == 0 and outcome.err == ""
    config = load_config(folder / "training", to="arrays")
    assert (config.clip_norm, config.normalize_by) == (0.5, 240.0)
    assert "Written to training" in outcome.out and all(rule in outcome.out for rule in config.document()["rules"])


def test_export_prints_the_configuration_as_json(bandsmith, folder, strategy):
    outcome = bandsmith("export s.json --to opacus --out training --json")
    written = json.loads((folder / "training" / "config.json").read_text())
    del written["sha256"]
    assert outcome.json == written | {"folder": "training"}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("export s.json --to keras --out new", ["to='keras'", "arrays, jax-privacy, opacus"]),
        ("export s.json --to arrays --out .", ["out=", "not to exist"]),
        ("export s.json --to arrays --out new --clip-norm 0", ["clip_norm=0.0"]),
        ("export s.json --to arrays --out new --normalize-by nan", ["normalize_by=nan"]),
        ("export s.json --to arrays --out new --normalize-by dataset", ["dataset", "a number"]),
        ("export missing.json --to arrays --out new", ["missing.json"]),
        ("export s.json --to arrays", ["--out"]),
        ("export s.json --out new", ["--to"]),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(bandsmith, folder, strategy, command, words):
    outcome = bandsmith(command)
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1
    assert all(word in outcome.err for word in words), outcome.err
    assert not (folder / "new").exists()


def test_an_edited_strategy_file_is_not_exported(bandsmith, folder, strategy):
    strategy.write_text(strategy.read_text().replace('"sigma": 1.3', '"sigma": 0.3'))
    outcome = bandsmith("export s.json --to arrays --out new")
    assert outcome.code == 2 and "changed after it was written" in outcome.err and not (folder / "new").exists()
