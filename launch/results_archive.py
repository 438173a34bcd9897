"""The files of a run folder as text, and back: how results leave a cluster of which only the job server's port can be reached.

On the cluster, `python -m launch.results_archive FOLDER` prints a compressed archive with its SHA-256; at home, what was printed is checked
and unpacked.
"""

import base64
import binascii
import hashlib
import io
import os
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path

from search_spaces.errors import BandsmithError, InputError

BEGIN, END = "BANDSMITH-RESULTS", "BANDSMITH-END"
"""Lines before and after an archive; the first also says its SHA-256."""

LEFT_OUT = ("tmp", ".lock")
"""What is of use to the running search only."""

MISSING = 3
"""Exit code of the program where the folder does not exist."""

LINE = 8192


def pack(folder: Path) -> str:
    """The files of the folder as lines of text. A study is copied as SQLite says it is, also while a run writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive, tempfile.TemporaryDirectory() as copies:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = file.relative_to(folder)
            if name.parts[0] not in LEFT_OUT and not file.name.endswith(("-journal", "-wal", "-shm")):
                archive.add(_copy(file, Path(copies)) if file.suffix == ".db" else file, arcname=name.as_posix(), recursive=False)
    content = buffer.getvalue()
    text = base64.b64encode(content).decode()
    lines = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    return "\n".join([f"{BEGIN} {hashlib.sha256(content).hexdigest()}", *lines, END])


def _copy(database: Path, folder: Path) -> Path:
    copy = folder / database.name
    source, target = sqlite3.connect(f"file:{database}?mode=ro", uri=True), sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        source.close()
        target.close()
    return copy


def unpack(text: str, out: Path) -> None:
    """Writes the files that `pack` has printed somewhere in `text`; the folder appears complete or not at all.

    Args:
      text: a job's whole output.
      out: folder to write, which must not exist.

    Raises:
      BandsmithError: there is no whole archive in the text, or its SHA-256 is another.
      InputError: the folder exists or cannot be made.
    """
    found = re.search(rf"^{BEGIN} ([0-9a-f]{{64}})\n([A-Za-z0-9+/=\n]*)^{END}$", text, re.MULTILINE)
    if found is None:
        raise BandsmithError("Expected the cluster to send a whole archive of the results.")
    try:
        content = base64.b64decode(found[2].replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise BandsmithError(f"Expected the archive of the results to be whole: {error}.") from error
    if hashlib.sha256(content).hexdigest() != found[1]:
        raise BandsmithError("Expected the archive of the results to have the SHA-256 that the cluster says it has.")
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(partial, filter="data")
        if out.exists():
            raise InputError(f"Expected out={str(out)!r} not to exist.")
        partial.rename(out)
    except OSError as error:
        raise InputError(f"Expected out={str(out)!r} to be a place we can write: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    run = Path(sys.argv[1]).expanduser()
    if not run.is_dir():
        print(f"There is no folder {run}.")
        sys.exit(MISSING)
    print(pack(run))
