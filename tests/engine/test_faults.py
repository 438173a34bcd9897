"""Faults that are caused: nodes that die, workers that take too much memory, disks that are full, signals in the certification.

Each is a scenario of `tests.engine.faults` in a process of its own; here is what must come of it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.certification import certify_best
from engine.files import read_json
from engine.results import read_strategy
from engine.tune import TuneSettings, tune
from search_spaces.errors import InputError
from tests.engine.certification_run import CHOICES, PROBLEM, SETTINGS, draw
from tests.engine.faults import HEADROOM, machine_memory
from tests.engine.test_faults_certification import blocks_in
from tests.launch.ray_cluster import can_hide_files

REPOSITORY = Path(__file__).parents[2]
MUST_STAY = ("scheme", "bandwidth", "coefficients", "sigma", "rmse", "seeds", "certificate", "deterministic")
"""What a strategy file says besides how long things took."""

pytestmark = pytest.mark.slow


def start(scenario: str, folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen:
    """A scenario under way. None of this process's Ray session is passed on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TUNE_"))}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "tests.engine.faults", scenario, str(folder), *arguments],
        cwd=REPOSITORY, env=kept | {"PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def came_of(scenario: str, folder: Path, **options) -> dict[str, object]:
    with start(scenario, folder, **options) as process:
        said, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    return json.loads(said.splitlines()[-1])


def test_nodes_die_in_search_and_certification_and_nothing_is_lost_or_counted_twice(tmp_path):
    came = came_of("nodes", tmp_path / "run")
    failed = [row for row in came["rows"] if row["state"] == "FAIL"]
    assert came["done"] == 14 and came["alive"] == 1
    assert failed and all(row["reason"].startswith("node died") for row in failed)
    assert {row["number"] for row in failed} == {row["retry_of"] for row in came["rows"]} - {None}
    assert sum(row["state"] in ("COMPLETE", "PRUNED") and row["cached"] is None for row in came["rows"]) == 14
    assert came["waits"] == ["waiting for a node with 1 CPU, of which the cluster has none"] and came["waits"][0] in came["log"]

    undisturbed = certify_best(PROBLEM, CHOICES, draw=draw, **SETTINGS)
    assert came["document"] == json.loads(json.dumps(undisturbed.document()))
    counted = Counter(block for line in blocks_in(tmp_path / "run" / "certification") for block in line)
    tests = undisturbed.certificate.plan.candidates[0].tests
    assert counted == Counter((0, test.direction, block) for test in tests for block in range(test.blocks))


def test_a_trial_that_takes_too_much_memory_is_tried_once_more_and_fails(tmp_path):
    known = machine_memory()
    if known["MemAvailable"] < 2.5 * HEADROOM:
        pytest.skip("the machine has too little memory free to waste some")
    came = came_of("memory", tmp_path / "run")
    lost = [row for row in came["rows"] if row["state"] == "FAIL"]
    assert came["done"] == 4 and came["failed"] == 1
    assert [row["bandwidth"] for row in lost] == [1, 1] and [row["retry_of"] for row in lost] == [None, lost[0]["number"]]
    for row in lost:
        assert row["reason"].startswith("oom: ") and " GiB" in row["reason"] and row["peak_memory_bytes"] > HEADROOM / 4
    assert all(row["peak_memory_bytes"] < HEADROOM / 4 for row in came["rows"] if row["state"] != "FAIL")


def test_a_full_or_read_only_disk_is_one_line_and_costs_nothing_that_was_done(tmp_path):
    if not can_hide_files():
        pytest.skip("mounting a small disk needs root and a mount namespace")
    came = came_of("disk", tmp_path / "disk", before=("unshare", "-m"))
    for answer, code, said in [
        ("read-only", 2, "Read-only file system"), ("full", 2, "at least 16 MiB free"), ("in the search", 1, "full"),
        ("in the certification", 1, "No space left on device"), ("resumed read-only", 2, "Expected "),
    ]:
        (line,) = came[answer]["said"]
        assert came[answer]["code"] == code and line.startswith("Error: ") and said in line, answer
    for answer in ("in the search", "in the certification"):
        assert "--resume" in came[answer]["said"][0]
    assert came["left"] == [] and came["resumed"] == {"code": 0, "said": []} and came["strategy"]
    assert {row["state"] for row in came["rows"]} <= {"COMPLETE", "PRUNED", "FAIL"}
    assert [row["reason"] for row in came["rows"] if row["state"] == "FAIL"] == ["interrupted"]


def test_a_certification_ended_by_a_signal_goes_on_as_if_nothing_had_happened(finished_run, tmp_path):
    searched, undisturbed = tmp_path / "searched", tmp_path / "undisturbed"
    shutil.copytree(finished_run[0].folder, searched, ignore=shutil.ignore_patterns("certification", "strategy.json"))
    shutil.copytree(searched, undisturbed)
    trials = (searched / "trials.csv").read_text()
    asked = ("--certificate", "tail-sum", "--max-samples", "200000")
    done = 0
    for sent, code, arguments in [(signal.SIGTERM, 143, asked), (signal.SIGINT, 130, ())]:
        with start("certification", searched, *arguments) as process:
            deadline = time.monotonic() + 200
            while len(blocks_in(searched / "certification")) < done + 2:
                assert process.poll() is None and time.monotonic() < deadline, process.communicate()
                time.sleep(0.1)
            if not done:
                with pytest.raises(InputError, match="no other process"):
                    tune(TuneSettings(resume=searched))
            process.send_signal(sent)
            assert process.wait(timeout=90) == code
        kept = blocks_in(searched / "certification")
        done = len(kept)
        assert (searched / "trials.csv").read_text() == trials and not (searched / "strategy.json").exists()
    assert len(list((searched / "certification").iterdir())) == 1

    tune(TuneSettings(resume=searched, workers=2))
    tune(TuneSettings(resume=undisturbed, certificate="tail-sum", max_samples=200_000, workers=2))
    assert blocks_in(searched / "certification")[:done] == kept
    counted = Counter(block for line in blocks_in(searched / "certification") for block in line)
    assert set(counted.values()) == {1}
    assert counted == Counter(block for line in blocks_in(undisturbed / "certification") for block in line)
    mine, theirs = (read_strategy(folder / "strategy.json") for folder in (searched, undisturbed))
    assert {name: mine[name] for name in MUST_STAY} == {name: theirs[name] for name in MUST_STAY}
    assert read_json(searched / "settings.json") == {"certificate": "tail-sum", "max_samples": 200_000}
