"""The commands on small problems: what they print, and that their numbers are those of the functions they call."""

import json

import pytest

from accountants.registry import account
from engine.certification import certify
from engine.results import read_strategy, write_strategy
from launch import cli
from search_spaces.mechanism import Mechanism
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic
from tests import tolerances
from tests.launch.test_cli import run_python

SMALL = "--iterations 32 --participations 2 --bandwidth 4"
FIELDS = {"accountant", "direction", "kind", "epsilon", "delta", "standard_error", "adjacency", "seconds", "details"}


def without_seconds(evidence):
    return [{name: value for name, value in statement.items() if name != "seconds"} for statement in evidence]


def test_account_prints_what_the_accountants_say(bandsmith):
    outcome = bandsmith(f"account --scheme cyclic_ra {SMALL} --r 0.1 --sigma 1 --epsilon 1 --accountant pld --accountant gaussian --json")
    assert outcome.code == 0 and outcome.err == ""
    mechanism = Mechanism(
        scheme=make_scheme("cyclic_ra", iterations=32, participations=2, bandwidth=4),
        strategy=harmonic(iterations=32, bandwidth=4, r=0.1), sigma=1.0,
    )
    expected = [e.to_dict() for e in account(mechanism, epsilon=1.0, accountants=["pld", "gaussian"])]
    assert without_seconds(outcome.json["evidence"]) == without_seconds(expected)


def test_account_asks_every_accountant_in_both_directions(bandsmith):
    evidence = bandsmith(f"account --scheme nested_ra {SMALL} --r 0.1 --sigma 1 --delta 1e-3 --samples 4096 --json").json["evidence"]
    assert {e["accountant"] for e in evidence} >= {"gaussian", "pld", "monte_carlo"}
    for name in {e["accountant"] for e in evidence}:
        assert [e["direction"] for e in evidence if e["accountant"] == name] == ["remove", "add"]
    for statement in evidence:
        assert set(statement) == FIELDS and statement["delta"] == 1e-3
        assert (statement["standard_error"] is not None) == (statement["kind"] == "estimate")


def test_samples_and_seed_reach_the_accountant(bandsmith):
    command = f"account --scheme nested_ra {SMALL} --r 0.1 --sigma 1 --epsilon 1 --accountant monte_carlo --samples 512 --json"
    first, again, other = (bandsmith(f"{command} --seed {seed}").json["evidence"] for seed in (7, 7, 8))
    assert without_seconds(first) == without_seconds(again)
    assert first[0]["delta"] != other[0]["delta"]
    assert first[0]["details"]["samples"] == 512 and first[0]["details"]["seed"] == 7


def test_coefficients_are_used_as_given(bandsmith, folder):
    column = harmonic(iterations=32, bandwidth=4, r=0.1).coefficients
    (folder / "unit.txt").write_text("\n".join(map(repr, column)))
    (folder / "double.txt").write_text("\n".join(repr(2 * c) for c in column))
    command = "account --scheme cyclic_ra --iterations 32 --participations 2 --epsilon 1 --accountant gaussian --json"
    by_r = bandsmith(f"{command} --bandwidth 4 --r 0.1 --sigma 1").json["evidence"]
    by_file = bandsmith(f"{command} --coefficients unit.txt --sigma 1").json["evidence"]
    doubled = bandsmith(f"{command} --coefficients double.txt --bandwidth 4 --sigma 2").json["evidence"]
    for one, other, twice in zip(by_r, by_file, doubled, strict=True):
        assert one["delta"] == pytest.approx(other["delta"], rel=tolerances.LAST_DIGITS)
        assert one["delta"] == pytest.approx(twice["delta"], rel=tolerances.LAST_DIGITS)


def test_calibrated_sigma_meets_the_target_and_hardly_less_would(bandsmith):
    mechanism = f"--scheme cyclic_poisson {SMALL} --r 0.1"
    found = bandsmith(f"calibrate {mechanism} --epsilon 1 --delta 1e-4 --json").json
    assert found["rmse"] == pytest.approx(harmonic(iterations=32, bandwidth=4, r=0.1).rmse(sigma=found["sigma"], participations=2))
    assert {e["kind"] for e in found["evidence"]} == {"bound"}
    for factor, meets in ((1.0, True), (0.999, False)):
        sigma = repr(factor * found["sigma"])
        evidence = bandsmith(f"account {mechanism} --sigma {sigma} --epsilon 1 --accountant pld --json").json["evidence"]
        assert (max(e["delta"] for e in evidence) <= 1e-4) == meets


def test_calibration_by_estimate_says_so(bandsmith):
    command = f"calibrate --scheme nested_ra {SMALL} --r 0.1 --epsilon 1 --delta 1e-2 --accountant monte_carlo --samples 2048"
    assert {e["kind"] for e in bandsmith(f"{command} --json").json["evidence"]} == {"estimate"}
    outcome = bandsmith(command)
    assert outcome.code == 0 and "estimate, no guarantee" in outcome.out


@pytest.mark.parametrize(("scheme", "kind"), [("nested_ra", "certified"), ("cyclic_ra", "bound")])
def test_certified_calibration_has_one_statement_per_direction(bandsmith, folder, scheme, kind):
    target = dict(epsilon=1.0, delta=5e-2)
    outcome = bandsmith(f"calibrate --scheme {scheme} {SMALL} --r 0.1 --epsilon 1 --delta 5e-2 --certified --seed 3 --json")
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert set(found) == {"sigma", "rmse", "evidence"} and list(folder.iterdir()) == []
    strategy = harmonic(iterations=32, bandwidth=4, r=0.1)
    assert found["rmse"] == pytest.approx(strategy.rmse(sigma=found["sigma"], participations=2))
    assert [e["direction"] for e in found["evidence"]] == ["remove", "add"]
    assert found["evidence"][0]["kind"] == kind and {e["kind"] for e in found["evidence"]} <= {kind, "bound"}
    assert all(set(e) == FIELDS and e["epsilon"] == target["epsilon"] and e["delta"] <= target["delta"] for e in found["evidence"])
    scheme = make_scheme(scheme, iterations=32, participations=2, bandwidth=4)
    made = certify(scheme=scheme, strategy=strategy, seed=3, **target)
    assert made.mechanism.sigma == found["sigma"]
    assert without_seconds(found["evidence"]) == without_seconds([e.to_dict() for e in made.evidence[:2]])


def test_compare_prints_one_row_per_scheme(bandsmith):
    command = "compare --iterations 32 --participations 2 --epsilon 1 --delta 1e-3 --bandwidths 4,8 --workers 1"
    command += " --schemes deterministic,cyclic_poisson,cyclic_ra"
    outcome = bandsmith(f"{command} --json")
    rows = outcome.json["rows"]
    assert [row["scheme"] for row in rows] == ["deterministic", "cyclic_poisson", "cyclic_ra"]
    assert all({"bandwidth", "r", "sigma", "rmse", "kind", "seconds"} <= set(row) and row["kind"] == "bound" for row in rows)
    assert [line.split("]")[0] for line in outcome.err.splitlines()] == ["[1/3", "[2/3", "[3/3"]
    table = bandsmith(command).out
    assert all(f"{row['rmse']:.4f}" in table and row["scheme"] in table for row in rows)


def test_stdout_holds_the_document_and_nothing_else(tmp_path):
    words = f"account --scheme nested_ra {SMALL} --r 0.1 --sigma 1 --epsilon 1 --samples 512 --json".split()
    finished = run_python("import sys; from launch.cli import main; sys.exit(main())", *words, cwd=tmp_path)
    assert finished.returncode == cli.DONE
    assert set(json.loads(finished.stdout)) == {"evidence"}


@pytest.mark.slow
def test_certified_strategy_verifies_and_a_weaker_one_does_not(bandsmith, folder):
    made = bandsmith(f"certify --scheme nested_ra {SMALL} --r 0.1 --epsilon 2 --delta 1e-2 --out s.json --json")
    assert made.code == 0, made.err
    assert {e["direction"] for e in made.json["evidence"] if e["kind"] == "certified"} == {"remove", "add"}
    assert made.json["deterministic"]["ratio"] == pytest.approx(made.json["sigma"] / made.json["deterministic"]["sigma"])
    printed = bandsmith(f"certify --scheme nested_ra {SMALL} --r 0.1 --epsilon 2 --delta 1e-2 --out again.json").out
    assert f"deterministic: sigma {made.json['deterministic']['sigma']:.6g} by" in printed
    holds = bandsmith("verify s.json --seed 11 --json")
    assert holds.code == 0 and holds.json["holds"] and holds.json["failures"] == []

    (folder / "edited.json").write_text((folder / "s.json").read_text().replace('"epsilon": 2.0', '"epsilon": 1.0', 1))
    assert bandsmith("verify edited.json").code == 2
    document = read_strategy(folder / "s.json")
    halved = {name: 0.5 * document[name] for name in ("sigma", "rmse")}
    write_strategy(folder / "weaker.json", document | halved | {"deterministic": None})
    fails = bandsmith("verify weaker.json")
    assert fails.code == 1 and "sigma" in fails.out and "DOES NOT HOLD" in fails.out
