"""Fixed-size batches on the command line: numbers, adjacency, and options that are missing or one too many."""

import pytest

from accountants.fixed_size import FixedSizeMechanism, statements
from tests.launch.test_commands import without_seconds

SIZES = "--scheme fixed_size --dataset-size 100 --batch-size 10"
ACCOUNT = f"account {SIZES} --iterations 20 --sigma 2 --delta 1e-3"
CALIBRATE = f"calibrate {SIZES} --iterations 20 --epsilon 2 --delta 1e-3"
COMPARE = "compare --iterations 20 --participations 2 --epsilon 2 --delta 1e-3 --schemes deterministic --workers 1"
TUNE = "tune --schemes fixed_size --dataset-size 100 --batch-size 10 --epochs 2 --epsilon 2 --delta 1e-3 --out new"


def test_account_prints_what_the_accountants_say(bandsmith):
    outcome = bandsmith(f"{ACCOUNT} --json")
    assert outcome.code == 0 and outcome.err == ""
    mechanism = FixedSizeMechanism(dataset_size=100, batch_size=10, iterations=20, sigma=2.0)
    expected = without_seconds([e.to_dict() for e in statements(mechanism=mechanism, delta=1e-3)])
    assert without_seconds(outcome.json["evidence"]) == expected
    assert len(expected) == 3 and {e["adjacency"] for e in expected} == {"replace"}


def test_rivals_only_when_named_and_marked(bandsmith):
    lines = bandsmith(f"{ACCOUNT} --accountant wang --accountant pld").out.splitlines()
    (wang,) = [line for line in lines if "wang" in line]
    assert "estimate (no guarantee)" in wang
    table = bandsmith(ACCOUNT).out
    assert "renyi (pairwise)" in table and "renyi (ball)" in table and "wang" not in table and "birrell" not in table


def test_calibrate_finds_sigma_or_iterations(bandsmith):
    found = bandsmith(f"{CALIBRATE} --json").json
    assert set(found) == {"sigma", "iterations", "rmse", "evidence"} and found["iterations"] == 20
    assert 2 * (1 - 1e-4) < min(e["epsilon"] for e in found["evidence"]) <= 2

    command = f"calibrate {SIZES} --epsilon 2 --delta 1e-3 --accountant renyi --json"
    steps = bandsmith(f"{command} --sigma {found['sigma']}").json
    assert steps["sigma"] == found["sigma"] and min(e["epsilon"] for e in steps["evidence"]) <= 2
    more = bandsmith(f"account {SIZES} --sigma {found['sigma']} --delta 1e-3 --iterations {steps['iterations'] + 1} --accountant renyi --json")
    assert min(e["epsilon"] for e in more.json["evidence"]) > 2
    assert "estimate, no guarantee" in bandsmith(f"{CALIBRATE} --accountant wang").out


def test_compare_states_adjacencies_and_that_they_are_not_comparable(bandsmith):
    outcome = bandsmith(f"{COMPARE} --dataset-size 100 --batch-size 10 --json")
    assert [(row["scheme"], row["adjacency"]) for row in outcome.json["rows"]] == [("deterministic", "add_remove"), ("fixed_size", "replace")]
    table = bandsmith(f"{COMPARE} --dataset-size 100 --batch-size 10").out
    assert "replace" in table and "add_remove" in table and "cannot be compared" in table
    assert "cannot be compared" not in bandsmith(COMPARE).out


def test_tune_writes_a_file_that_verifies(bandsmith, folder):
    made = bandsmith(f"{TUNE} --json")
    assert made.code == 0, made.err
    assert made.json["problem"] == {
        "adjacency": "replace", "dataset_size": 100, "batch_size": 10, "iterations": 20, "epsilon": 2.0, "delta": 1e-3,
    }
    assert sorted(path.name for path in (folder / "new").iterdir()) == [".lock", "log.txt", "report", "strategy.json"]
    assert bandsmith("verify new/strategy.json --json").json["holds"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"{ACCOUNT} --participations 2", ("--participations", "fixed_size")),
        (f"{ACCOUNT} --bandwidth 1", ("--bandwidth",)),
        (f"{ACCOUNT} --r 0", ("--r ",)),
        (f"{ACCOUNT} --samples 9", ("--samples",)),
        (f"{ACCOUNT} --epsilon 1", ("epsilon=1.0", "delta=0.001")),
        (f"{ACCOUNT} --accountant gdp", ("gdp", "renyi, pld, wang, birrell")),
        (f"{ACCOUNT} --from run.json", ("--dataset-size", "run.json")),
        (ACCOUNT.replace("--iterations 20", ""), ("--iterations",)),
        (ACCOUNT.replace("--dataset-size 100", ""), ("--dataset-size",)),
        (ACCOUNT.replace("--sigma 2", ""), ("--sigma",)),
        (ACCOUNT.replace("20", "20.5"), ("'20.5'", "integer")),
        (ACCOUNT.replace("size 10 ", "size 101 "), ("batch_size=101", "dataset_size=100")),
        (ACCOUNT.replace("size 10 ", "size 0 "), ("batch_size=0",)),
        (ACCOUNT.replace("1e-3", "0"), ("delta=0",)),
        (ACCOUNT.replace("sigma 2", "sigma 0"), ("sigma=0",)),
        (ACCOUNT.replace("fixed_size", "poisson"), ("--dataset-size, --batch-size", "poisson")),
        (f"{CALIBRATE} --sigma 2", ("--iterations", "--sigma")),
        (CALIBRATE.replace("--iterations 20", ""), ("--iterations", "--sigma")),
        (CALIBRATE.replace("1e-3", "0"), ("delta=0",)),
        (f"{CALIBRATE} --coefficients c.txt", ("--coefficients",)),
        (f"{CALIBRATE} --accountant monte_carlo", ("monte_carlo",)),
        ("calibrate --scheme poisson --iterations 20 --participations 2 --sigma 2 --epsilon 1 --delta 1e-3", ("--sigma",)),
        ("calibrate --scheme poisson --iterations 20 --epsilon 1 --delta 1e-3", ("--participations",)),
        (f"{COMPARE} --dataset-size 100", ("--batch-size",)),
        (f"{COMPARE} --batch-size 10", ("dataset_size", "batch_size=10")),
        (f"{COMPARE} --dataset-size 100 --batch-size 20", ("batch_size=20", "10")),
        (COMPARE.replace("deterministic", "fixed_size"), ("fixed_size", "dataset_size")),
        (TUNE.replace("fixed_size", "fixed_size,poisson"), ("fixed_size alone", "poisson", "replace")),
        (f"{TUNE} --participations 2", ("--participations",)),
        (f"{TUNE} --iterations 20", ("--iterations", "--epochs")),
        (f"{TUNE} --bandwidths 1", ("--bandwidths",)),
        (f"{TUNE} --seed 0 --trials 3", ("--trials, --seed", "fixed_size")),
        (f"{TUNE} --certificate tilted --workers 1 --gpus-per-trial 0", ("--certificate, --workers, --gpus-per-trial",)),
        (TUNE.replace("--batch-size 10", ""), ("--batch-size",)),
        (TUNE.replace("--epsilon 2", ""), ("--epsilon",)),
        (TUNE.replace("size 10 ", "size 101 "), ("batch_size=101",)),
        (TUNE.replace("1e-3", "1"), ("delta=1",)),
    ],
)
def test_refused_in_one_sentence(bandsmith, folder, command, words):
    outcome = bandsmith(command)
    assert outcome.code == 2 and outcome.out == "" and not list(folder.iterdir()), outcome
    assert outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1
    assert all(word in outcome.err for word in words), outcome.err
