"""The table of schemes on its small grid: what is written, that a second run measures nothing, and the verdicts on made-up rows."""

import dataclasses
import json

import pytest

from benchmarks.jobs import run
from benchmarks.scheme_table import frames, grid
from benchmarks.scheme_table.__main__ import Table, main
from benchmarks.scheme_table.findings import findings
from benchmarks.store import Results
from engine.certification import certify
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

SMALL = grid.GRIDS["small"]
SCHEMES = "cyclic_poisson,cyclic_ra,nested_ra"
PLOTS = ("optimal_coefficients", "privacy_curves", "rmse_against_bandwidth", "samples_against_delta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a whole run on the small grid has left its files."""
    folder = tmp_path_factory.mktemp("table") / "made"
    main(["--out", str(folder), "--cells", "small", "--schemes", SCHEMES])
    return folder


def measurements(folder, measurement):
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return [line["key"] | line["result"] for line in lines if line["key"]["measurement"] == measurement]


def test_every_row_is_measured_and_bounded_or_certified(folder):
    rows = measurements(folder, "row")
    assert len(rows) == 4 * len(SMALL.problems)
    assert [row["kind"] for row in rows[:4]] == ["bound", "bound", "certified", "certified"]
    for row in rows:
        assert max(row["deltas"].values()) <= row["delta"]
        strategy = harmonic(iterations=row["iterations"], bandwidth=row["bandwidth"], r=row["r"])
        assert row["rmse"] == pytest.approx(strategy.rmse(sigma=row["sigma"], participations=row["participations"]))


def test_standard_variant_has_the_strategy_of_cyclic_ra_and_sigma_is_that_of_certify(folder):
    rows = {(row["scheme"], row["variant"]): row for row in reversed(measurements(folder, "row"))}
    cyclic, nested = rows["cyclic_ra", "standard"], rows["nested_ra", "standard"]
    assert (nested["bandwidth"], nested["r"]) == (cyclic["bandwidth"], cyclic["r"])
    made = certify(
        scheme=make_scheme("nested_ra", iterations=16, participations=2, bandwidth=nested["bandwidth"]), others=False,
        strategy=harmonic(iterations=16, bandwidth=nested["bandwidth"], r=nested["r"]), epsilon=nested["epsilon"], delta=nested["delta"],
    )
    assert made.mechanism.sigma == nested["sigma"]


def test_report_and_plots_are_written(folder):
    report = (folder / "table.md").read_text()
    for row in measurements(folder, "row"):
        assert f"| {row['sigma']:.4f} | {row['rmse']:.4f} | {row['kind']} |" in report
    assert all(verdict in report for verdict in ("confirmed here", "open, needs all", "not measured"))
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in PLOTS)


def test_second_run_measures_only_what_is_missing(folder, tmp_path, capsys):
    lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    # Killed while it wrote the last line.
    (tmp_path / "results.jsonl").write_text("".join(lines[:-1]) + lines[-1][:20])
    capsys.readouterr()
    main(["--out", str(tmp_path), "--cells", "small", "--schemes", SCHEMES])
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "table.md").read_text() == (folder / "table.md").read_text()
    assert (tmp_path / "results.jsonl").read_text() == "".join(lines[:-1]) + lines[-1]


def test_a_report_alone_measures_nothing(folder, tmp_path, capsys):
    lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    rows = [line for line in lines if '"row"' in line]
    (tmp_path / "results.jsonl").write_text("".join(rows[:3]))
    capsys.readouterr()
    main(["--out", str(tmp_path), "--cells", "small", "--schemes", SCHEMES, "--report-only"])
    assert capsys.readouterr().err == "" and (tmp_path / "results.jsonl").read_text() == "".join(rows[:3])
    assert "nested_ra standard" in (tmp_path / "table.md").read_text()
    assert [path.stem for path in tmp_path.glob("*.png")] == ["optimal_coefficients"]


@pytest.mark.slow
def test_two_workers_measure_the_same(folder, tmp_path):
    chosen = "cyclic_poisson,cyclic_ra"
    rows = Table(SMALL, schemes=chosen.split(","), seed=0).rows()
    found = run(list(rows), Results(tmp_path / "results.jsonl"), workers=2)
    apart = lambda row: {name: value for name, value in row.items() if not name.endswith("seconds")}
    alone = [row for row in measurements(folder, "row") if row["scheme"] in chosen]
    assert [apart(row) for row in found] == [apart(row) for row in alone]


def test_another_seed_is_another_measurement(folder):
    key = json.loads((folder / "results.jsonl").read_text().splitlines()[0])["key"]
    results = Results(folder / "results.jsonl")
    assert key in results and key | {"seed": 1} not in results


def made_up(gains, *, bandwidth=128):
    """Rows in which every scheme is better than cyclic Poisson by a given factor, at every problem of the source."""
    rows = []
    for problem in grid.GRIDS["paper"].problems:
        target = {name: getattr(problem, name) for name in frames.PROBLEM}
        for (scheme, variant), gain in gains.items():
            wide = variant == grid.OPTIMISED
            rows.append(target | {
                "scheme": scheme, "variant": variant, "rmse": 1 / gain, "bandwidth": bandwidth if wide else 32, "deltas": None,
            })
    return frames.rows(rows)


AS_PUBLISHED = {
    ("cyclic_poisson", "standard"): 1.0, ("cyclic_ra", "standard"): 1.11, ("nested_ra", "standard"): 1.24, ("min_sep_ra", "standard"): 1.25,
    ("nested_ra", "optimised"): 1.24 * 1.085, ("min_sep_ra", "optimised"): 1.25 * 1.134,
}


def verdicts(gains, **settings):
    return {one.claim: one.holds for one in findings(made_up(gains, **settings), grid.GRIDS["paper"].anchor)}


def test_what_the_source_says_is_confirmed():
    assert set(verdicts(AS_PUBLISHED).values()) == {True}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({("cyclic_ra", "standard"): 1.2}, "Cyclic RA is 5 to 14"),
        ({("nested_ra", "optimised"): 1.5}, "is the best scheme everywhere"),
        ({("min_sep_ra", "optimised"): 1.9}, "is 15 to 85"),
        ({("nested_ra", "standard"): 1.19}, "within 3"),
        ({("nested_ra", "optimised"): 1.2}, "up to 10"),
        ({("nested_ra", "optimised"): 1.24 * 1.05}, "8.5 %"),
        ({("cyclic_ra", "standard"): 1.13}, "11 % better than cyclic Poisson on average"),
        ({("min_sep_ra", "optimised"): 1.25 * 1.2}, "13.4 %"),
    ],
)
def test_what_differs_is_refuted(change, words):
    assert [holds for claim, holds in verdicts(AS_PUBLISHED | change).items() if words in claim] == [False]


def test_other_bandwidths_refute_and_missing_problems_are_mentioned():
    assert [holds for claim, holds in verdicts(AS_PUBLISHED, bandwidth=64).items() if "the best b" in claim] == [False]
    one = made_up(AS_PUBLISHED).query("iterations == 1024")
    found = [finding for finding in findings(one, SMALL.anchor) if finding.holds is not None]
    assert found and all("not on all the source's problems" in finding.verdict for finding in found)


@pytest.mark.parametrize("name", ["iterations", "participations"])
def test_trends_against_the_source_are_refuted(name):
    frame, anchor = made_up(AS_PUBLISHED), grid.GRIDS["paper"].anchor
    best = frame["label"] == "min_sep_ra optimised"
    sign = 1 if name == "iterations" else -1
    frame.loc[best, "rmse"] *= (frame.loc[best, name] / getattr(anchor, name)) ** (0.1 * sign)
    claim = {"iterations": "for large T", "participations": "for small K"}[name]
    assert [one.holds for one in findings(frame, anchor) if claim in one.claim] == [False]


def test_grid_varies_one_thing_at_a_time():
    problems = grid.GRIDS["paper"].problems
    assert len(set(problems)) == 12
    for other in problems[1:]:
        assert sum(value != getattr(problems[0], name) for name, value in dataclasses.asdict(other).items()) == 1
