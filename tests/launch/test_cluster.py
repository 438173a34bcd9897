"""A search on a real cluster: a head and two workers as separate processes, of which the workers see neither our files nor each other's."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.results import read_strategy
from tests.launch.ray_cluster import ROOT, RayCluster, can_hide_files, ray_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_hide_files(), reason="hiding files from a node takes a mount namespace, which only root may make"),
]

SEARCH = ("tune", "--iterations", "64", "--participations", "4", "--epsilon", "4", "--delta", "1e-3", "--schemes", "cyclic_poisson,min_sep_ra")

OBJECTIVE = '''
import os

import ray


def evaluate(problem, *, scheme, bandwidth, r, samples, seed):
    context = ray.get_runtime_context()
    assert not os.path.exists(HIDDEN), "the node sees the driver's files"
    return {"rmse": 1.0 + bandwidth / 100, "sigma": 1.0,
            "device": f"{context.get_node_id()} {context.get_accelerator_ids()['GPU']} {os.getcwd()}"}
'''


@pytest.fixture(scope="module")
def hidden(tmp_path_factory) -> Path:
    """The folder of everything the driver writes; empty for the workers."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "objective.py").write_text(f"HIDDEN = {str(folder / 'objective.py')!r}\n{OBJECTIVE}")
    return folder


@pytest.fixture(scope="module")
def cluster(hidden):
    """A head without CPUs, a worker with one, and one with two CPUs and a GPU that is none."""
    with ray_cluster(("--num-cpus", "1"), ("--num-cpus", "2", "--num-gpus", "1"), hidden=[hidden]) as cluster:
        cluster.wait_for_nodes(3)
        yield cluster


def bandsmith(cluster: RayCluster, *words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs the program as somebody who has the cluster's token."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TUNE_"))}
    kept |= cluster.environment() | {"RAY_API_SERVER_ADDRESS": cluster.dashboard, "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(
        [sys.executable, "-m", "launch.cli", *map(str, words)], cwd=cwd, env=kept, capture_output=True, text=True, timeout=150,
    )


def devices(folder: Path) -> list[str]:
    """Where the trials of a run ran."""
    with open(folder / "trials.csv", newline="") as table:
        return [row["device"] for row in csv.DictReader(table) if row["device"]]


@pytest.fixture(scope="module")
def submitted(cluster, hidden) -> subprocess.CompletedProcess:
    """The job `first`, followed to its end; its results are in `results`."""
    return bandsmith(
        cluster, "submit", "--job-id", "first", "--out", "results", "--json", "--", *SEARCH, "--trials", 4, "--gpus-per-trial", 0.5,
        "--objective", "objective:evaluate", "--py-modules", "objective.py", cwd=hidden,
    )


def test_a_submitted_search_runs_on_nodes_that_have_nothing_and_comes_back(cluster, hidden, submitted):
    done = submitted
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["job_id"], said["status"], said["exit_code"], said["out"]) == ("first", "SUCCEEDED", 0, "results")
    assert "[4/4] search" in done.stderr and "(4, 0.001)-DP in both directions" in done.stderr
    assert {"strategy.json", "trials.csv", "study.db", "log.txt"} <= {path.name for path in (hidden / "results").iterdir()}
    # Half a GPU each: all on the node that has one, in that node's copy of the project.
    places = devices(hidden / "results")
    assert len(places) >= 2 and {place.split()[0] for place in places} == {cluster.node_with("GPU")}
    assert all("['0']" in place and "working_dir_files" in place for place in places)
    # A run folder stays on the head.
    assert (cluster.folder / "bandsmith" / "first" / "strategy.json").exists()


def test_one_can_come_back_for_the_same_results(cluster, hidden, submitted):
    done = bandsmith(cluster, "submit", "--fetch", "first", "--no-wait", "--out", "again", cwd=hidden)
    assert (done.returncode, done.stdout) == (0, "Job first: succeeded, results in again\n")
    for name in ("strategy.json", "trials.csv", "log.txt"):
        assert (hidden / "again" / name).read_bytes() == (hidden / "results" / name).read_bytes()


def test_a_search_from_this_machine_uses_the_cluster(cluster, hidden):
    done = bandsmith(
        cluster, *SEARCH[:-1], "min_sep_ra", "--bandwidths", 8, "--trials", 3, "--address", cluster.address, "--workers", 9,
        "--out", "direct", "--json", "--objective", "objective:evaluate", "--py-modules", "objective.py", cwd=hidden,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning: The Ray cluster can run 3 of workers=9 trials at once" in done.stderr
    said = json.loads(done.stdout)
    assert said["folder"] == str(hidden / "direct") and [one["kind"] for one in said["evidence"][:2]] == ["certified", "certified"]
    # The head has no CPU for trials.
    assert {place.split()[0] for place in devices(hidden / "direct")} <= {cluster.node_with("CPU", 1), cluster.node_with("CPU", 2)}
    # The certifying samples were drawn there too, by programs that a node keeps for its next worker.
    assert list(cluster.folder.glob("[12]/session_*/runtime_resources/working_dir_files/*/compiled/*"))
    assert not (hidden / "direct" / "tmp").exists()


def test_a_search_through_rays_client_comes_home_and_can_be_resumed(cluster, hidden):
    words = ("--address", cluster.client_address, "--objective", "objective:evaluate", "--py-modules", "objective.py")
    search = (*SEARCH[:-1], "min_sep_ra", "--bandwidths", 8, "--trials", 1, "--out", "client", *words)
    done = bandsmith(cluster, *search, "--workers", 9, cwd=hidden)
    assert done.returncode == 0, done.stderr
    assert "Warning: The Ray cluster can run 3 of workers=9 trials at once" in done.stderr and "[1/1] search" in done.stderr
    assert f"Written to {hidden / 'client'}: " in done.stdout
    done = bandsmith(cluster, "tune", "--resume", "client", "--trials", 2, "--json", *words, cwd=hidden)
    assert done.returncode == 0, done.stderr
    # Whatever is not as it was written there is refused.
    said, written = json.loads(done.stdout), read_strategy(hidden / "client" / "strategy.json")
    assert said["folder"] == str(hidden / "client") and said["report"] == str(hidden / "client" / "report" / "report.html")
    assert said["search"]["states"] == {"COMPLETE": 2} and said["certificate"] == written["certificate"]
    places = devices(hidden / "client")
    assert len(places) == 2 and {place.split()[0] for place in places} <= {cluster.node_with("CPU", 1), cluster.node_with("CPU", 2)}
    # Nothing of it stays behind, here or on the head.
    assert not [path for path in hidden.iterdir() if path.name.startswith(".client")]
    place = (hidden / "client" / "log.txt").read_text().partition("new plan, ")[2].partition("/run/")[0]
    assert "bandsmith-" in place and not Path(place).exists()


def test_a_failed_job_gives_its_exit_code_and_sentence(cluster, hidden):
    done = bandsmith(
        cluster, "submit", "--job-id", "bad", "--", *SEARCH, "--objective", "objective:missing", "--py-modules", "objective.py", cwd=hidden,
    )
    assert done.returncode == 2 and done.stdout == "Job bad: failed\n"
    assert "Error: Expected objective='objective:missing' to name a function" in done.stderr and "on a worker." in done.stderr
    assert not (hidden / "runs").exists()


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("submit", "--job-id", "first", "--", *SEARCH), {}, "job-id='first' to be no job of this cluster yet"),
        (("submit", "--fetch", "none"), {}, "job-id='none' to be a job of this cluster"),
        (("submit", "--stop", "first"), {"RAY_AUTH_TOKEN": "0" * 32}, "RAY_AUTH_TOKEN"),
        ((*SEARCH, "--address", "HEAD", "--gpus-per-trial", "2", "--out", "none"), {}, "gpus_per_trial=2 to be at most the 1 GPUs of a node"),
        ((*SEARCH, "--address", "HEAD", "--out", "none"), {"RAY_AUTH_TOKEN": ""}, "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"),
        # Whether the head can open a storage is found out there.
        ((*SEARCH, "--address", "CLIENT", "--out", "none", "--storage", "postgresql://127.0.0.1:1/none"), {}, "to be a place we can open"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(cluster, hidden, submitted, words, environment, said):
    environment = {"HOME": str(hidden / "nobody")} | environment
    addresses = {"HEAD": cluster.address, "CLIENT": cluster.client_address}
    done = bandsmith(cluster, *(addresses.get(word, word) for word in words), cwd=hidden, **environment)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1 and said in done.stderr
    assert not (hidden / "none").exists()
