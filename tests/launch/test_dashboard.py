"""`bandsmith dashboard`: one line with the address, an end by signal, and what is refused."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from engine.run_folder import RunFolder
from engine.search import SearchSettings, open_or_create
from engine.storage import opened_storage
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace
from tests.launch.conftest import ROOT


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dashboard", "folder of a run"), ("dashboard none", "'none'"), ("dashboard .", "folder of a run with a study"),
        ("dashboard . --host 0.0.0.0", "host='0.0.0.0'"), ("dashboard . --port 70000", "port=70000"), ("dashboard . --port x", "'x'"),
        ("dashboard . --most-trials 0", "most_trials=0"), ("dashboard --storage postgresql://u:hunter2@127.0.0.1:1/db", "PGPASSWORD"),
    ],
)
def test_bad_input_is_one_line(bandsmith, folder, words, said):
    outcome = bandsmith(words)
    assert outcome.code == 2 and outcome.out == "" and said in outcome.err and "hunter2" not in outcome.err
    assert list(folder.iterdir()) == []


def test_json_is_one_document(bandsmith, monkeypatch):
    monkeypatch.setattr("engine.dashboard.serve", lambda settings, on_ready: on_ready("http://127.0.0.1:1/dashboard"))
    outcome = bandsmith("dashboard . --json --writable")
    assert outcome.code == 0 and outcome.json == {"address": "http://127.0.0.1:1/dashboard", "writable": True}


@pytest.mark.slow
def test_the_address_is_printed_once_it_answers_and_a_signal_ends_it(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    space = SearchSpace.for_problem(Problem(iterations=64, participations=2, epsilon=1, delta=1e-5), schemes=["cyclic_ra"])
    with opened_storage(folder.study) as storage:
        open_or_create(SearchSettings(folder=folder, space=space), storage)
    source = "import sys; from launch.cli import main; sys.exit(main())"
    served = subprocess.Popen(
        [sys.executable, "-c", source, "dashboard", "run", "--port", "0"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    try:
        with urllib.request.urlopen(served.stdout.readline().strip(), timeout=60) as answer:
            assert answer.status == 200
        served.send_signal(signal.SIGTERM)
        rest, errors = served.communicate(timeout=60)
    finally:
        served.kill()
    assert (served.returncode, rest, errors) == (0, "", "")
