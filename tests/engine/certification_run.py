"""A certification in a process of its own that kills itself: `python -m tests.engine.certification_run FOLDER MOMENT`."""

import os
import signal
import sys
from pathlib import Path

import engine.certification
import engine.journal
from accountants.certificates.sampling import draw_blocks
from engine.certification import certify_best
from search_spaces.problem import Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import harmonic

PROBLEM = Problem(iterations=16, participations=2, epsilon=2.0, delta=1e-2)
CHOICES = [(
    make_scheme("min_sep_ra", iterations=16, participations=2, bandwidth=4), harmonic(iterations=16, bandwidth=4, r=0.1),
)]
SETTINGS = {"certificate": "tail-sum", "seed": 3, "max_samples": 200_000, "others": False}
CHUNK = 4
MOMENTS = ("before the plan", "after the plan", "after a chunk", "in a line")


def draw(plan, candidate, direction, blocks, on_wait=None):
    """As `engine.certification.draw_test`, in smaller chunks."""
    for start in range(0, len(blocks), CHUNK):
        yield draw_blocks(plan, candidate, direction, blocks[start : start + CHUNK])


def kill_myself(*arguments: object) -> None:
    """As the kernel or an operator would: nothing is closed, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_line(journal: engine.journal.Journal, line: str) -> None:
    """A crash in the middle of a write."""
    with open(journal._blocks, "a") as file:
        file.write(line[: len(line) // 2])
    kill_myself()


def main(folder: Path, moment: str) -> None:
    """Certifies up to the moment."""
    append = engine.journal.Journal._append
    settings = SETTINGS | {"draw": draw}
    if moment == "before the plan":
        engine.journal.write_atomically = kill_myself
    elif moment == "after the plan":
        settings["draw"] = kill_myself
    elif moment == "after a chunk":
        engine.journal.Journal._append = lambda journal, line: kill_myself(append(journal, line))
    elif moment == "in a line":
        engine.journal.Journal._append = half_a_line
    certify_best(PROBLEM, CHOICES, folder=folder, **settings)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
