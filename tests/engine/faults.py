"""Whole searches and certifications to which something happens: `python -m tests.engine.faults SCENARIO FOLDER`.

Every scenario is a process of its own, starts its own Ray cluster and prints what came of it as JSON.
"""

import contextlib
import io
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import engine.environment  # noqa: F401 (before ray, always)
import engine.certification
import engine.journal
import engine.study
import ray
from engine.configuration import Configuration
from engine.environment import start_ray
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from engine.storage import opened_storage
from engine.study import load_study
from engine.trials import trial_rows
from launch.cli import main
from ray.cluster_utils import Cluster
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace
from tests.engine.certification_run import CHOICES, PROBLEM, SETTINGS

QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "500", "RAY_health_check_period_ms": "500", "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
"""A node is given up after seconds rather than a quarter of a minute."""

HEADROOM = 5 * 2**30
"""Bytes that workers may take before Ray kills one."""


def descendants(pid: int) -> list[int]:
    """The process and all that came from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def processes(node) -> list[int]:
    """The raylet and its workers."""
    (raylet,) = node.all_processes["raylet"]
    return descendants(raylet.process.pid)


def kill_node(node) -> None:
    """As if the machine had lost its power: all at once."""
    for pid in processes(node):
        os.kill(pid, signal.SIGKILL)


def runs_a_trial(node) -> bool:
    """Whether a worker there has one, or had the last."""
    return any("PilotTrial" in Path(f"/proc/{pid}/cmdline").read_text() for pid in processes(node))


def search_settings(folder: RunFolder, **settings) -> SearchSettings:
    space = SearchSpace.for_problem(Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5), schemes=["min_sep_ra"])
    return SearchSettings(folder=folder, space=space, rungs=(10, 40), **settings)


def rows_of(folder: RunFolder) -> list[dict[str, object]]:
    with opened_storage(folder.study) as storage:
        return trial_rows(load_study(storage=storage))


class Operator:
    """Kills nodes at certain points of the progress, and adds one when it is told that there is none.

    Ray Tune pickles those it tells of progress, and a cluster cannot be.
    """

    def __init__(self) -> None:
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.alive, self.waits = [], []
        self.add()
        self.add()

    def __getstate__(self) -> dict[str, object]:
        return {}

    def add(self) -> None:
        self.alive.append(self.cluster.add_node(num_cpus=1))

    def in_search(self, progress) -> None:
        """The first node dies after some trials, the last one after some more."""
        if progress.waits and not self.alive:
            self.waits.append(progress.waits)
            self.add()
        elif progress.done >= 4 and len(self.alive) == 2 or progress.done >= 9 and not self.waits and self.alive:
            self.alive.sort(key=runs_a_trial)
            kill_node(self.alive.pop())

    def in_certification(self, text: str, done: int, total: int) -> None:
        """One of two nodes dies after the first chunk."""
        if text.startswith("certify") and len(self.alive) == 2:
            kill_node(self.alive.pop())


def nodes(path: Path) -> dict[str, object]:
    """Nodes die: one of two in the search, then the last one there, and one of two in the certification."""
    os.environ.update(QUICK_HEALTH_CHECKS | {"RAY_AUTH_TOKEN": secrets.token_hex(32)})
    operator, folder = Operator(), RunFolder.create(path)
    ray.init(operator.cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        with folder.writing():
            settings = search_settings(folder, trials=14, objective="tests.engine.objectives:slow")
            result = run_search(settings, on_progress=operator.in_search)
            operator.add()
            engine.certification.BLOCKS_PER_TASK = 1
            certified = engine.certification.certify_best(
                PROBLEM, CHOICES, folder=folder.certification, draw=engine.certification.ray_drawer(2), progress=operator.in_certification,
                **SETTINGS,
            )
        return {
            "waits": operator.waits, "done": result.done, "rows": rows_of(folder), "document": certified.document(),
            "alive": len(operator.alive), "log": folder.log.read_text(),
        }
    finally:
        ray.shutdown()
        operator.cluster.shutdown()


def machine_memory() -> dict[str, int]:
    """What Linux says of the machine's memory, in bytes."""
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in Path("/proc/meminfo").read_text().splitlines()}


def memory(path: Path) -> dict[str, object]:
    """A trial takes more memory than there is."""
    known = machine_memory()
    used = known["MemTotal"] - known["MemAvailable"]
    os.environ |= {
        "RAY_memory_monitor_refresh_ms": "50", "RAY_memory_usage_threshold": f"{(used + HEADROOM) / known['MemTotal']:.5f}",
        "GREEDY_MIB": str(2 * HEADROOM // 2**20),
    }
    folder = RunFolder.create(path)
    with folder.writing():
        first = (Configuration(scheme="min_sep_ra", bandwidth=1, r=0.0), Configuration(scheme="min_sep_ra", bandwidth=64, r=0.01))
        settings = search_settings(folder, trials=4, workers=1, objective="tests.engine.objectives:greedy", first=first)
        result = run_search(settings)
    return {"done": result.done, "failed": result.failed, "rows": rows_of(folder)}


def fill(folder: Path) -> None:
    """Leaves no byte on a folder's disk."""
    with open(folder / "filling", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def command(*arguments: object) -> dict[str, object]:
    """What a command of ours answers, and what it says on stderr besides its progress."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main([str(argument) for argument in arguments])
    return {"code": code, "said": [line for line in said.getvalue().splitlines() if not line.startswith("[")]}


def disk(path: Path) -> dict[str, object]:
    """The disk of the results is read-only or full at the start, then in the search, then in the certification. Needs a mount namespace."""
    small = ("tune", "--iterations", 16, "--participations", 2, "--epsilon", 2, "--delta", 1e-2, "--schemes", "min_sep_ra", "--seed", 2)
    quick = ("--objective", "tests.engine.objectives:slow", "--workers", 1, "--certificate", "tail-sum", "--max-samples", 200_000)
    mount = lambda *options: subprocess.run(["mount", *options, str(path)], check=True)
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=24m,ro", "tmpfs")
    answers = {}
    with start_ray(workers=1):
        answers["read-only"] = command(*small, *quick, "--out", path / "run")
        mount("-o", "remount,rw")
        fill(path)
        answers["full"] = command(*small, *quick, "--out", path / "run")
        (path / "filling").unlink()
        answers["left"] = [str(one) for one in path.iterdir()]

        append = engine.journal.Journal._append
        study_tell = engine.study.complete

        def fill_in_search(study, trial, outcome) -> None:
            if trial.number == 3:
                fill(path)
            study_tell(study, trial, outcome)

        def fill_in_certification(journal, line: str) -> None:
            append(journal, line)
            fill(path)

        engine.certification.BLOCKS_PER_TASK = 4
        engine.study.complete = fill_in_search
        answers["in the search"] = command(*small, *quick, "--trials", 8, "--out", path / "run")
        (path / "filling").unlink()
        engine.study.complete = study_tell
        engine.journal.Journal._append = fill_in_certification
        answers["in the certification"] = command("tune", "--resume", path / "run", "--workers", 1)
        mount("-o", "remount,ro")
        answers["resumed read-only"] = command("tune", "--resume", path / "run", "--workers", 1)
        mount("-o", "remount,rw")
        (path / "filling").unlink()
        engine.journal.Journal._append = append
        answers["resumed"] = command("tune", "--resume", path / "run", "--workers", 1)
    return answers | {"rows": rows_of(RunFolder.existing(path / "run")), "strategy": (path / "run" / "strategy.json").exists()}


def certification(path: Path) -> None:
    """Resumes a run whose certification takes its time; to be ended by a signal."""
    append = engine.journal.Journal._append
    engine.journal.Journal._append = lambda journal, line: (append(journal, line), time.sleep(1))
    engine.certification.BLOCKS_PER_TASK = 1
    raise SystemExit(main(["tune", "--resume", str(path), "--workers", "1", *sys.argv[3:]]))


if __name__ == "__main__":
    # A shell that runs the tests in the background has told all of them to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(json.dumps({"nodes": nodes, "memory": memory, "disk": disk, "certification": certification}[sys.argv[1]](Path(sys.argv[2]))))
