"""`--matrix FILE.npy` in `account`, `calibrate` and `compare`: balls-in-bins with any matrix; what does not fit is refused."""

import pickle

import numpy as np
import pytest

from accountants.registry import account
from search_spaces.dense_strategies import DenseStrategy, OverlappingMechanism, inverse_square_root
from search_spaces.schemes import BallsInBins
from tests.launch.test_commands import without_seconds

BOUNDS = ("pld", "renyi", "conditional_composition")
MATRIX = inverse_square_root(iterations=12, bandwidth=2).dense()
MECHANISM = "--scheme balls_in_bins --matrix C.npy --participations 3"
COMPARE = "compare --iterations 12 --participations 3 --epsilon 2 --delta 1e-2 --schemes balls_in_bins --samples 2048 --workers 1"
ACCOUNT = f"account {MECHANISM} --sigma 2 --delta 1e-3"


@pytest.fixture
def written(folder):
    """Writes `C.npy`, by default a matrix whose columns never end."""
    write = lambda matrix: np.save(folder / "C.npy", matrix, allow_pickle=True)
    write(MATRIX)
    return write


@pytest.mark.parametrize("question", [{"delta": 1e-3}, {"epsilon": 1.0}])
def test_account_asks_every_bound_of_balls_in_bins(bandsmith, written, question):
    (name, value), = question.items()
    outcome = bandsmith(f"account {MECHANISM} --sigma 2 --{name} {value} --json")
    assert outcome.code == 0 and outcome.err == ""
    mechanism = OverlappingMechanism(
        scheme=BallsInBins(iterations=12, participations=3), strategy=DenseStrategy(matrix=MATRIX), sigma=2.0,
    )
    expected = [e.to_dict() for e in account(mechanism, **question)]
    assert without_seconds(outcome.json["evidence"]) == without_seconds(expected)
    assert [e["accountant"] for e in outcome.json["evidence"]] == [name for name in BOUNDS for _ in range(2)]
    assert all(e["kind"] == "bound" for e in outcome.json["evidence"])


def test_calibrated_sigma_meets_the_target_and_hardly_less_would(bandsmith, written):
    found = bandsmith(f"calibrate {MECHANISM} --epsilon 1 --delta 1e-3 --json").json
    accountant = found["evidence"][0]["accountant"]
    assert found["rmse"] == pytest.approx(DenseStrategy(matrix=MATRIX).rmse(sigma=found["sigma"], participations=3))
    for factor, meets in ((1.0, True), (0.999, False)):
        command = f"account {MECHANISM} --sigma {factor * found['sigma']!r} --epsilon 1 --accountant {accountant} --json"
        assert (max(e["delta"] for e in bandsmith(command).json["evidence"]) <= 1e-3) == meets


def test_integers_and_other_float_types_are_numbers(bandsmith, written):
    answers = []
    for dtype in (np.float64, np.float32, np.int64, ">f8"):
        written(np.tril(np.ones((6, 6))).astype(dtype))
        answers.append(bandsmith(f"{ACCOUNT} --accountant pld --json").json["evidence"][0]["epsilon"])
    assert len(set(answers)) == 1


def refused(bandsmith, command: str) -> str:
    outcome = bandsmith(command)
    assert outcome.code == 2 and outcome.out == "" and outcome.err.count("\n") == 1, outcome
    return outcome.err


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (MATRIX[:, :6], ["(12, 6)", "square"]),
        (MATRIX[0], ["(12,)", "square"]),
        (np.zeros((0, 0)), ["(0, 0)", "not empty"]),
        (-MATRIX, ["matrix[0, 0]=-1.0", ">= 0"]),
        (MATRIX.T, ["matrix[0, 1]=0.5", "lower triangular"]),
        (np.where(np.eye(12) > 0, np.nan, MATRIX), ["matrix[0, 0]=nan", "finite"]),
        (np.where(np.eye(12) > 0, np.inf, MATRIX), ["matrix[0, 0]=inf", "finite"]),
        (MATRIX - np.eye(12), ["matrix[0, 0]=0.0", "> 0 on the diagonal"]),
        (MATRIX[:10, :10], ["participations=3", "iterations=10"]),
        (MATRIX.astype(object), ["C.npy", "Python objects"]),
        (MATRIX.astype(complex), ["C.npy", "complex128"]),
        (MATRIX > 0, ["C.npy", "bool"]),
        (MATRIX.astype(str), ["C.npy", "real numbers"]),
    ],
)
def test_matrix_that_does_not_fit_is_one_sentence(bandsmith, written, matrix, words):
    written(matrix)
    sentence = refused(bandsmith, ACCOUNT)
    assert all(word in sentence for word in words), sentence


class Boom:
    """Fails the test that unpickles it."""

    def __reduce__(self):
        return pytest.fail, ("the file was unpickled",)


@pytest.mark.parametrize("content", [None, b"", b"1 0\n0 1\n", pickle.dumps(Boom()), b"PK\x03\x04"])
def test_file_that_is_no_array_is_one_sentence(bandsmith, folder, content):
    if content is not None:
        (folder / "C.npy").write_bytes(content)
    assert "matrix='C.npy'" in refused(bandsmith, ACCOUNT)


def test_truncated_file_and_folder_are_one_sentence(bandsmith, folder, written):
    (folder / "C.npy").write_bytes((folder / "C.npy").read_bytes()[:-8])
    assert "matrix='C.npy'" in refused(bandsmith, ACCOUNT)
    (folder / "C.npy").unlink()
    (folder / "C.npy").mkdir()
    assert "matrix='C.npy'" in refused(bandsmith, ACCOUNT)


def test_matrix_that_would_not_fit_in_memory_says_how_much_it_needs(bandsmith, folder):
    # A sparse file: the header promises more than is ever read.
    np.lib.format.open_memmap(folder / "C.npy", mode="w+", dtype=np.float64, shape=(12000, 12000))
    assert "needs 1.07 GiB" in refused(bandsmith, ACCOUNT)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--coefficients c.txt", ["--coefficients", "C.npy"]), ("--r 0.1", ["--r"]), ("--bandwidth 2", ["--bandwidth"]),
        ("--iterations 12", ["--iterations"]), ("--scheme cyclic_ra", ["'cyclic_ra'", "balls_in_bins"]), ("--scheme nope", ["'nope'"]),
        ("--scheme fixed_size", ["--matrix", "fixed_size"]), ("--from run.json", ["--matrix", "run.json"]),
        *((f"--accountant {name}", [name, "may overlap", "renyi"]) for name in ("gaussian", "jensen", "monte_carlo")),
    ],
)
def test_option_that_does_not_fit_is_one_sentence(bandsmith, written, options, words):
    sentence = refused(bandsmith, f"{ACCOUNT} {options}")
    assert all(word in sentence for word in words), sentence


def test_compare_has_a_row_for_every_matrix(bandsmith, folder, written):
    np.save(folder / "eye.npy", np.eye(12))
    outcome = bandsmith(f"{COMPARE} --matrix C.npy --matrix eye.npy --json")
    assert outcome.code == 0, outcome.err
    rows = outcome.json["rows"]
    assert [(row["scheme"], row["matrix"]) for row in rows] == [
        ("balls_in_bins", None), ("balls_in_bins", "C.npy"), ("balls_in_bins", "eye.npy"),
    ]
    assert rows[0]["kind"] == "estimate" and all(row["kind"] == "bound" and row["rmse"] > 0 for row in rows[1:])
    table = bandsmith(f"{COMPARE} --matrix C.npy").out
    assert f"deterministic bound sigma {rows[0]['bound_sigma']:.4f}" in table
    assert "balls_in_bins, C.npy" in table and f"{rows[1]['rmse']:.4f}" in table


def test_compare_refuses_a_matrix_that_does_not_fit(bandsmith, written):
    assert "matrix='C.npy' with 12 rows to have iterations=15" in refused(bandsmith, f"{COMPARE.replace('12', '15')} --matrix C.npy")
    written(MATRIX.T)
    assert "lower triangular" in refused(bandsmith, f"{COMPARE} --matrix C.npy")
    assert "nope.npy" in refused(bandsmith, f"{COMPARE} --matrix nope.npy")


def test_a_certificate_needs_windows_without_overlap(bandsmith, written):
    assert "--matrix" in refused(bandsmith, f"calibrate {MECHANISM} --epsilon 1 --delta 1e-5 --certified")


def test_missing_options_are_named(bandsmith, written):
    assert "--participations, --sigma" in refused(bandsmith, "account --scheme balls_in_bins --matrix C.npy --epsilon 1")
    assert "--participations" in refused(bandsmith, "calibrate --scheme balls_in_bins --matrix C.npy --epsilon 1 --delta 1e-5")
