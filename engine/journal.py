"""Certification progress that is kept: the plan before anything is drawn, then the sums of every chunk of blocks as they come in.

The certification folder of a run holds one folder per set of inputs a plan was made from, named by their hash: `plan.json`, sealed and
written whole, and `blocks.jsonl`, which only grows: a line per chunk, with the hash of its plan and one of its own.

A line that is damaged, or was cut off by a crash, is drawn again, not an error. That is sound: a block's values are a pure function of the
plan, so what is drawn again is what was there, and nothing is chosen by its outcome. Two lines that contradict each other are an error,
since one of them is not what the plan draws.
"""

import dataclasses
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accountants.certificates.records import Plan, committed, plan_from_dict, plan_to_dict
from accountants.certificates.sampling import BlockSums
from engine.files import read_json, readable_json, sha256_of, sync_directory, write_atomically
from search_spaces.errors import CertificateError, InputError

SEAL = "sha256"

logger = logging.getLogger("bandsmith")


class Journal:
    """What a certification has done so far, in a folder. Only one process, the driver, may have it open.

    Args:
      folder: of all certifications of the run.
      inputs: everything the plan is made from, as plain JSON values.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, object]) -> None:
        self._inputs = dict(inputs)
        self._folder = Path(folder) / sha256_of(self._inputs)[:16]
        self._blocks = self._folder / "blocks.jsonl"
        self._plan_hash = ""
        self._sums: dict[tuple[int, str], dict[int, BlockSums]] = {}

    def plan(self, make: Callable[[], Plan], *, run_seed: int) -> Plan:
        """The saved plan if there is one, else the one `make` gives, saved; what its blocks gave is known afterwards.

        Raises:
          CertificateError: the saved plan was changed, or lines of its blocks contradict each other.
          OSError: the folder cannot be written.
        """
        path = self._folder / "plan.json"
        if path.exists():
            plan = self._read_plan(path, run_seed)
            logger.info("Certification goes on with the plan in %s.", path)
        else:
            plan = make()
            self._folder.mkdir(parents=True, exist_ok=True)
            content = {"inputs": self._inputs, "plan": plan_to_dict(plan)}
            write_atomically(path, readable_json(content | {SEAL: sha256_of(content)}))
            logger.info("Certification has a new plan, %s; so far this run has made %d.", path, len(list(self._folder.parent.iterdir())))
        self._plan_hash = sha256_of(plan_to_dict(plan))
        self._read_blocks()
        return plan

    def known(self, candidate: int, direction: str) -> list[BlockSums]:
        """The sums of all blocks of a test that are kept."""
        return list(self._sums.get((candidate, direction), {}).values())

    def add(self, candidate: int, direction: str, sums: Sequence[BlockSums]) -> None:
        """Keeps the sums of a chunk; they are on disk when this returns.

        Raises:
          CertificateError: a block is kept already, with other sums.
          OSError: the disk is full or cannot be written; what was kept before is untouched.
        """
        new = [part for part in sums if self._remember(candidate, direction, part, where=f"a new chunk for {self._blocks}")]
        if new:
            blocks = [dataclasses.astuple(part) for part in new]
            line = {"plan": self._plan_hash, "candidate": candidate, "direction": direction, "blocks": blocks}
            self._append(json.dumps(line | {SEAL: sha256_of(line)}, allow_nan=False) + "\n")

    def _append(self, line: str) -> None:
        try:
            descriptor = os.open(self._blocks, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                rest = line.encode()
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._blocks)) from error

    def _read_plan(self, path: Path, run_seed: int) -> Plan:
        try:
            document = read_json(path, argument="plan")
            seal = document.pop(SEAL, None)
            plan = plan_from_dict(document["plan"]) if seal == sha256_of(document) else None
        except (InputError, KeyError) as error:
            raise CertificateError(f"The plan {path} cannot be read ({error}); remove its folder to make a new one.") from error
        if plan is None or document["inputs"] != self._inputs:
            raise CertificateError(f"The plan {path} was changed after it was written; remove its folder to make a new one.")
        if committed(plan, run_seed=run_seed) != plan:
            raise CertificateError(f"The seed of the plan {path} is not the one that its content and run seed {run_seed} give.")
        return plan

    def _read_blocks(self) -> None:
        if not self._blocks.exists():
            self._blocks.touch()
            sync_directory(self._folder)
        content = self._blocks.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            logger.warning("The last line of %s was cut off; its blocks are drawn again.", self._blocks)
            os.truncate(self._blocks, len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            self._read_line(line, where=f"{self._blocks}, line {number}")
        if kept := sum(map(len, self._sums.values())):
            logger.info("%d blocks are kept from before.", kept)

    def _read_line(self, line: bytes, *, where: str) -> None:
        try:
            values = json.loads(line)
            seal = values.pop(SEAL)
            damaged = seal != sha256_of(values)
        except (ValueError, TypeError, AttributeError, KeyError):
            damaged = True
        if damaged:
            logger.warning("%s is damaged; its blocks are drawn again.", where)
        elif values["plan"] != self._plan_hash:
            logger.warning("%s belongs to another plan; its blocks do not count.", where)
        else:
            for part in values["blocks"]:
                self._remember(values["candidate"], values["direction"], _sums(part), where=where)

    def _remember(self, candidate: int, direction: str, part: BlockSums, *, where: str) -> bool:
        """Whether this block was not known; the same sums again are nothing new."""
        kept = self._sums.setdefault((candidate, direction), {})
        if part.block not in kept:
            kept[part.block] = part
            return True
        if kept[part.block] != part:
            raise CertificateError(
                f"Block {part.block} of candidate {candidate}, {direction}, has other sums in {where} than in an earlier line."
            )
        return False


def _sums(values: Sequence[object]) -> BlockSums:
    return BlockSums(**dict(zip((field.name for field in dataclasses.fields(BlockSums)), values, strict=True)))
