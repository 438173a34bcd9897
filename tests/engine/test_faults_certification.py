"""A certification that is killed, at every kind of moment, goes on where it was and ends as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from accountants.certificates.recheck import failures
from engine.certification import certify_best
from tests.engine.certification_run import CHOICES, CHUNK, MOMENTS, PROBLEM, SETTINGS, draw

REPOSITORY = Path(__file__).parents[2]


def blocks_in(folder: Path) -> list[list[tuple[int, str, int]]]:
    """(candidate, direction, block) of every whole line."""
    found = []
    for path in folder.glob("*/blocks.jsonl"):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                values = json.loads(line)
                found.append([(values["candidate"], values["direction"], part[0]) for part in values["blocks"]])
    return found


@pytest.mark.slow
def test_a_certification_that_is_killed_at_every_moment_ends_as_an_undisturbed_one(tmp_path):
    kept = []
    for moment in MOMENTS:
        process = subprocess.run(
            [sys.executable, "-m", "tests.engine.certification_run", str(tmp_path / "kept"), moment],
            cwd=REPOSITORY, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=120,
        )
        assert process.returncode == -signal.SIGKILL, process.stderr
        kept.append(len(blocks_in(tmp_path / "kept")))
    assert kept == [0, 0, 1, 1]

    drawn = []

    def counting(plan, candidate, direction, blocks, on_wait=None):
        for chunk in draw(plan, candidate, direction, blocks):
            drawn.extend((candidate, direction, part.block) for part in chunk)
            yield chunk

    settings = SETTINGS | {"draw": counting}
    undisturbed = certify_best(PROBLEM, CHOICES, **settings)
    all_blocks, drawn[:] = drawn[:], []
    assert len(all_blocks) > 3 * CHUNK
    resumed = certify_best(PROBLEM, CHOICES, folder=tmp_path / "kept", **settings)
    assert resumed.document() == undisturbed.document() and failures(resumed.certificate) == []
    assert Counter(drawn) == Counter(all_blocks[CHUNK:])
    assert Counter(block for line in blocks_in(tmp_path / "kept") for block in line) == Counter(all_blocks)

    def never(*_):
        raise AssertionError("nothing is left to be drawn")

    again = certify_best(PROBLEM, CHOICES, folder=tmp_path / "kept", **SETTINGS | {"draw": never})
    assert again.document() == undisturbed.document()
