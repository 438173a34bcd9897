"""The strategy file: exact round trip, and everything that is not such a file refused in one sentence."""

import copy
import json
import math
import os

import pytest

from accountants.evidence import Evidence
from accountants.gaussian import GaussianAccountant
from engine.files import readable_json, sha256_of
from engine.results import (
    FIELDS, check_document, evidence_of, mechanism_of, problem_of, read_strategy, strategy_document, write_strategy,
)
from search_spaces.errors import InputError, NumericalError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic

PROBLEM = Problem(iterations=24, participations=2, epsilon=4, delta=1e-5, dataset_size=None)


def make_mechanism(strategy=None) -> Mechanism:
    scheme = make_scheme("min_sep_ra", iterations=24, participations=2, bandwidth=6)
    return Mechanism(scheme=scheme, strategy=strategy or harmonic(iterations=24, bandwidth=6, r=0.1), sigma=1.7)


def make_document(mechanism=None) -> dict[str, object]:
    mechanism = mechanism or make_mechanism()
    return strategy_document(
        mechanism=mechanism, problem=PROBLEM, evidence=GaussianAccountant().delta(mechanism, epsilon=4.0),
        certificate={"kind": "tail-sum", "samples": 10}, seeds={"search": 0, "certificate": 12345},
        deterministic={"sigma": 2.0, "accountant": "gaussian", "ratio": mechanism.sigma / 2.0},
    )


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "strategy.json"
    write_strategy(path, make_document())
    return path


def reseal(path, change) -> None:
    """Applies a change as a forger would, with the hash made to fit."""
    document = json.loads(path.read_text())
    del document["sha256"]
    change(document)
    path.write_text(readable_json(document | {"sha256": sha256_of(document)}))


def test_the_round_trip_is_exact(tmp_path):
    path = tmp_path / "strategy.json"
    written = make_document()
    write_strategy(path, written)
    document = read_strategy(path)
    assert document == written
    assert mechanism_of(document) == make_mechanism()
    assert problem_of(document) == PROBLEM
    assert evidence_of(document) == tuple(Evidence.from_dict(statement) for statement in document["evidence"])
    write_strategy(path.with_name("again.json"), document)
    assert path.with_name("again.json").read_bytes() == path.read_bytes()


def test_free_coefficients_are_used_as_given(tmp_path):
    mechanism = make_mechanism(ToeplitzStrategy(iterations=24, coefficients=(3.0, 0.0, 1.0)))
    write_strategy(tmp_path / "s.json", make_document(mechanism))
    assert mechanism_of(read_strategy(tmp_path / "s.json")) == mechanism


def test_the_file_says_what_it_was_made_with(path):
    document = json.loads(path.read_text())
    assert set(document) == {*FIELDS, "sha256"}
    assert document["versions"]["numpy"] and document["seeds"] == {"search": 0, "certificate": 12345}


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_character_is_noticed(path, seed):
    text = path.read_text()
    digits = [i for i, character in enumerate(text) if character.isdigit()]
    place = digits[(seed * len(digits)) // 8]
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    with pytest.raises(InputError, match="strategy.json"):
        read_strategy(path)


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(path, part):
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(InputError, match="valid JSON"):
        read_strategy(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format="other"), "format="),
        (lambda d: d.update(version=2), "version=2"),
        (lambda d: d.update(version=True), "version=True"),
        (lambda d: d.pop("version"), "version=None"),
        (lambda d: d.pop("sigma"), "sigma"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.update(sigma=-1.0), "sigma=-1.0"),
        (lambda d: d.update(sigma="1.7"), "sigma='1.7'"),
        (lambda d: d.update(sigma=1.6), "rmse="),
        (lambda d: d.update(rmse=0.1), "rmse=0.1"),
        (lambda d: d.update(r=0.2), "r=0.2"),
        (lambda d: d.update(r=9), "r=9"),
        (lambda d: d.update(scheme="poisson"), "bandwidth=6"),
        (lambda d: d.update(scheme=["min_sep_ra"]), "scheme="),
        (lambda d: d.update(bandwidth=20), "bandwidth=20"),
        (lambda d: d.update(coefficients=[]), "coefficients"),
        (lambda d: d.update(coefficients={}), "coefficients"),
        (lambda d: d["coefficients"].__setitem__(0, -1.0), r"coefficients\[0\]"),
        (lambda d: d["problem"].update(delta=1), "delta=1"),
        (lambda d: d["problem"].update(epsilon=-1), "epsilon=-1"),
        (lambda d: d["problem"].pop("epsilon"), "problem"),
        (lambda d: d["problem"].update(more=1), "problem"),
        (lambda d: d.update(problem=3), "problem=3"),
        (lambda d: d.update(evidence={}), "evidence="),
        (lambda d: d["evidence"].append(3), "evidence=3"),
        (lambda d: d["evidence"][0].update(delta=2.0), "delta=2"),
        (lambda d: d["evidence"][0].update(direction="both"), "direction="),
        (lambda d: d["evidence"][0].update(epsilon="x"), "evidence"),
        (lambda d: d.update(certificate=[]), "certificate="),
        (lambda d: d.update(seeds=None), "seeds=None"),
        (lambda d: d.update(deterministic=[]), "deterministic="),
        (lambda d: d.pop("deterministic"), "deterministic"),
        (lambda d: d.update(deterministic={}), "deterministic={}"),
        (lambda d: d["deterministic"].update(more=1), "deterministic="),
        (lambda d: d["deterministic"].update(accountant=None), "deterministic="),
        (lambda d: d["deterministic"].update(sigma=-2.0), "deterministic_sigma=-2.0"),
        (lambda d: d["deterministic"].update(sigma=2.5), "ratio="),
        (lambda d: d["deterministic"].update(ratio=0.5), "ratio=0.5"),
    ],
)
def test_a_consistent_forgery_with_parts_that_do_not_fit_is_refused(path, change, said):
    reseal(path, change)
    with pytest.raises(InputError, match=said) as caught:
        read_strategy(path)
    assert "strategy.json" in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_seal_is_refused(path):
    document = json.loads(path.read_text())
    del document["sha256"]
    path.write_text(readable_json(document))
    with pytest.raises(InputError, match="sha256"):
        read_strategy(path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_never_written(path, value):
    before = path.read_bytes()
    document = make_document()
    document["certificate"]["slack"] = value
    with pytest.raises(NumericalError):
        write_strategy(path, document)
    assert path.read_bytes() == before


def test_an_invalid_document_is_never_written(tmp_path):
    document = copy.deepcopy(make_document())
    document["rmse"] *= 1.001
    with pytest.raises(InputError, match="rmse"):
        write_strategy(tmp_path / "s.json", document)
    assert not os.listdir(tmp_path)


def test_whole_numbers_are_as_good_as_floats():
    document = make_document()
    document["problem"]["epsilon"] = 4
    check_document(document)
