"""The batch script, run by stand-ins for Slurm's two commands: they know two nodes, which are both this machine."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "cluster" / "slurm.sh"

MOST_SECONDS = 240

PROGRAMS = {
    "scontrol": 'printf "first\\nsecond\\n"',
    # Its own options go, and the rest is run here.
    "srun": 'echo "srun $*" >> "$SRUN_LOG"; while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "bandsmith": f'exec {sys.executable} -m launch.cli "$@"',
    "ray": f'exec {sys.executable} -m ray.scripts.scripts "$@" --object-store-memory=100000000',
    "python": f'exec {sys.executable} "$@"',
}


@pytest.fixture
def environment(tmp_path) -> Iterator[dict[str, str]]:
    """What Slurm gives a job, and the stand-ins."""
    for name, text in PROGRAMS.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "TUNE_"))}
    job = str(os.getpid())
    yield kept | {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "SRUN_LOG": str(tmp_path / "srun.txt"),
        "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "first,second", "SLURM_CPUS_PER_TASK": "1",
    }
    for folder in (f"/tmp/ray-{job}-0", f"/tmp/ray-{job}-1", f"/tmp/bandsmith-{job}"):
        shutil.rmtree(folder, ignore_errors=True)


def run(words: list[str], environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess:
    """Runs the script; what it has started ends with it."""
    with open(folder / "out.txt", "w+") as out, open(folder / "err.txt", "w+") as err:
        script = subprocess.Popen([SCRIPT, *words], env=environment, cwd=folder, stdout=out, stderr=err, start_new_session=True)
        try:
            script.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(script.pid, signal.SIGTERM)
            script.wait(60)
        return subprocess.CompletedProcess(script.args, script.returncode, (folder / "out.txt").read_text(), (folder / "err.txt").read_text())


@pytest.mark.slow
def test_a_batch_job_starts_its_cluster_searches_and_leaves_nothing_running(environment, tmp_path):
    words = "--iterations 64 --participations 4 --epsilon 4 --delta 1e-3 --schemes cyclic_poisson --trials 2".split()
    done = run(words, environment, tmp_path)
    assert done.returncode == 0, done.stderr
    job = environment["SLURM_JOB_ID"]
    assert {"strategy.json", "trials.csv", "study.db", "log.txt"} <= {path.name for path in (tmp_path / "runs" / job).iterdir()}
    started = re.findall(r"--nodelist=(\w+) ray start .*", (tmp_path / "srun.txt").read_text())
    assert sorted(started) == ["first", "second"]
    assert [path.name for path in Path("/proc").glob("[0-9]*") if f"/tmp/ray-{job}-".encode() in command_line(path)] == []


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_node_that_does_not_start_is_not_waited_for(environment, tmp_path):
    (tmp_path / "bin" / "ray").write_text("#!/usr/bin/env bash\nexit 1\n")
    done = run(["--epsilon", "4"], environment, tmp_path)
    assert done.returncode == 1 and "A node's Ray has ended before the search began." in done.stderr
    assert not (tmp_path / "runs").exists()
