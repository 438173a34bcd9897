"""Bad input: exit code 2, one sentence on stderr that names argument and value, nothing on stdout, nothing written."""

import pytest

MECHANISM = "--scheme nested_ra --iterations 64 --participations 4 --bandwidth 8 --r 0"
ACCOUNT = f"account {MECHANISM} --sigma 1 --epsilon 1"
BARE = "account --iterations 8 --participations 2 --sigma 1 --epsilon 1"
CALIBRATE = f"calibrate {MECHANISM} --epsilon 1 --delta 1e-5"
CERTIFY = f"certify {MECHANISM} --epsilon 1 --delta 1e-5 --out strategy.json"
COMPARE = "compare --iterations 64 --participations 4 --epsilon 1 --delta 1e-5"
TUNE = "tune --iterations 64 --participations 4 --epsilon 1 --delta 1e-5 --trials 2 --out new"
TRAINING = "tune --epsilon 1 --delta 1e-5 --trials 2 --out new"

NUMBERS = ("nan", "inf", "-inf", "abc")


def variants(command: str, option: str, values) -> list[tuple[str, str, str]]:
    """The command with the option replaced (or added), once per value, with the two words its message must hold: option and value."""
    words = command.split()
    if option in words:
        at = words.index(option)
        del words[at : at + 2]
    return [(" ".join([*words, option, str(value)]), option.removeprefix("--").replace("-", "_"), str(value)) for value in values]


MECHANISM_CASES = [
    *variants(ACCOUNT, "--bandwidth", [0, -1, 32, 12, 128, "8.5"]),
    *variants(ACCOUNT, "--r", [0.5, -0.125, 7, *NUMBERS]),
    *variants(ACCOUNT, "--sigma", [0, -1, *NUMBERS]),
    *variants(ACCOUNT, "--epsilon", [-1, *NUMBERS]),
    *variants(f"account {MECHANISM} --sigma 1", "--delta", [0, 1, 1.5, -1e-5, *NUMBERS]),
    *variants(ACCOUNT, "--scheme", ["nested", "Poisson"]),
    *variants(ACCOUNT, "--iterations", [0, -64, "1e3"]),
    *variants(ACCOUNT, "--participations", [0, -4, 65, "many"]),
    *variants(ACCOUNT, "--accountant", ["gdp", "moments"]),
    *variants(ACCOUNT, "--samples", [0, -5, "few"]),
    *variants(ACCOUNT, "--seed", [-1, 0.5]),
]
TARGET_CASES = [
    case
    for command in (CALIBRATE, CERTIFY, COMPARE, TUNE)
    for case in [*variants(command, "--epsilon", [0, -1, *NUMBERS]), *variants(command, "--delta", [0, 1, -1e-5, *NUMBERS])]
]
SEARCH_CASES = [
    *variants(COMPARE, "--schemes", ["nested_ra,nope"]),
    *variants(COMPARE, "--bandwidths", ["0", "32", "4,x", "-4"]),
    *variants(COMPARE, "--workers", [0, "two"]),
    *variants(COMPARE, "--samples", [0]),
    *variants(TUNE, "--schemes", ["nope"]),
    *variants(TUNE, "--bandwidths", ["4,17"]),
    *variants(TUNE, "--trials", [0, -1, "all"]),
    *variants(TUNE, "--workers", [0]),
    *variants(TUNE, "--gpus-per-trial", [-1, "nan", "1.5"]),
    *variants(TUNE, "--certificate", ["none"]),
    *variants(f"{TRAINING} --batch-size 10 --epochs 2", "--dataset-size", [0, -1]),
    *variants(f"{TRAINING} --dataset-size 100 --epochs 2", "--batch-size", [0, 101]),
    *variants(f"{TRAINING} --dataset-size 100 --batch-size 10", "--epochs", [0, 1.5]),
]


@pytest.fixture
def refused(bandsmith, folder):
    """Runs a command that must be refused and returns its one sentence."""

    def run(command: str) -> str:
        before = sorted(folder.rglob("*"))
        outcome = bandsmith(command)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert outcome.err.startswith("Error: ") and outcome.err.endswith(".\n") and outcome.err.count("\n") == 1
        assert sorted(folder.rglob("*")) == before
        return outcome.err

    return run


@pytest.mark.parametrize(("command", "option", "value"), MECHANISM_CASES + TARGET_CASES + SEARCH_CASES)
def test_value_out_of_range(refused, command, option, value):
    sentence = refused(command)
    assert option.removesuffix("s") in sentence.replace("-", "_")
    number = value.split(",")[-1]
    assert number in sentence or repr(float(number)) in sentence


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"account {MECHANISM} --sigma 1", ("epsilon", "delta")),
        (f"{ACCOUNT} --delta 1e-5", ("epsilon", "delta")),
        (f"account {MECHANISM}", ("--sigma",)),
        (f"{ACCOUNT} --coefficients c.txt", ("r=0.0", "c.txt")),
        (f"{BARE} --scheme min_sep_ra --bandwidth 3", ("bandwidth=3", "coefficients")),
        (f"{BARE} --scheme min_sep_ra --r 0.1", ("r=0.1", "bandwidth")),
        (f"{BARE} --scheme poisson --bandwidth 2 --r 0", ("bandwidth=2", "poisson")),
        (f"{COMPARE} --schemes ,", ("','",)),
        (f"{TRAINING} --dataset-size 100 --epochs 2", ("batch_size", "dataset_size, epochs")),
        (f"{TUNE} --epochs 2", ("epochs",)),
        (f"{CALIBRATE} --certified --accountant gaussian", ("--accountant", "--certified")),
        (f"{CALIBRATE} --certified --samples 10", ("--samples", "--certified")),
        (f"{CALIBRATE} --certificate tilted --max-samples 10", ("--certificate, --max-samples", "without --certified")),
        (f"{CALIBRATE} --certified --certificate none", ("certificate", "'none'")),
        (f"{CALIBRATE} --certified --workers 0", ("workers", "0")),
        (f"{CALIBRATE.replace('nested_ra', 'fixed_size')} --certified", ("--certified", "fixed_size")),
        (TRAINING, ("iterations", "got epsilon, delta.")),
        (f"{ACCOUNT} --nonsense 1", ("--nonsense",)),
        (f"{ACCOUNT} stray", ("stray",)),
        ("nonsense", ("nonsense",)),
        ("verify", ("FILE",)),
    ],
)
def test_combination(refused, command, words):
    sentence = refused(command)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\nhalf\n", ("line 2", "'half'")),
        ("1\n0.5 0.25\n", ("line 2", "'0.5 0.25'")),
        ("1\n\nnan\n", ("line 3", "'nan'")),
        ("1\ninf\n", ("line 2", "'inf'")),
        ("1\n0.5\n-0.25\n", ("line 3", "'-0.25'")),
        ("0\n1\n", ("coefficients[0]", "0.0")),
        ("\n\n", ("c.txt",)),
        ("1\n0.5\n0.25\n0.1\n0.1\n", ("bandwidth=5",)),
    ],
)
def test_coefficients_file(refused, folder, text, words):
    (folder / "c.txt").write_text(text)
    sentence = refused(f"{BARE} --scheme min_sep_ra --coefficients c.txt")
    assert all(word in sentence for word in words), sentence


def test_coefficients_file_that_cannot_be_read(refused, folder):
    command = f"{BARE} --scheme min_sep_ra --coefficients c.txt"
    assert "c.txt" in refused(command)
    (folder / "c.txt").mkdir()
    assert "c.txt" in refused(command)
    (folder / "c.txt").rmdir()
    (folder / "c.txt").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refused(command)


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", "{}", '{"sigma": 1}', "\ud800"])
def test_strategy_file_that_cannot_be_read(refused, folder, text):
    if text is not None:
        (folder / "strategy.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "strategy.json" in refused("verify strategy.json")


def test_results_are_never_overwritten(refused, folder):
    (folder / "new").mkdir()
    (folder / "new" / "trials.csv").write_text("")
    assert "new" in refused(TUNE)
    (folder / "strategy.json").write_text("{}")
    assert "strategy.json" in refused(CERTIFY)


def test_nothing_to_resume(refused, folder):
    assert "missing" in refused("tune --resume missing")
    (folder / "empty").mkdir()
    assert "empty" in refused("tune --resume empty")
