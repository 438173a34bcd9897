"""The results file: one JSON object a line, appended as measurements end, so that an interrupted run goes on where it stopped."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from engine.files import canonical_json


class Results:
    """Measurements by key, on disk.

    Attributes:
      path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[str, dict[str, object]] = {}
        if path.exists():
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                # A run was killed while it wrote: its last measurement is lost, the others are whole.
                os.truncate(path, len(whole))
            for line in whole.decode().splitlines():
                record = json.loads(line)
                self._found[canonical_json(record["key"])] = record

    def __contains__(self, key: Mapping[str, object]) -> bool:
        return canonical_json(key) in self._found

    def __getitem__(self, key: Mapping[str, object]) -> dict[str, object]:
        """The measured values; `failure` in it says why there are none."""
        return self._found[canonical_json(key)]["result"]

    def add(self, key: Mapping[str, object], result: Mapping[str, object]) -> None:
        """Appends one measurement; it is on disk when this returns."""
        record = {"key": dict(key), "result": dict(result)}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(canonical_json(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._found[canonical_json(key)] = record
