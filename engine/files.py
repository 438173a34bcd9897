"""Files that appear whole or not at all, and JSON that means the same wherever it is read."""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from search_spaces.errors import InputError, NumericalError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes `content` (text as UTF-8) to `path`: a reader, or a crash at any moment, sees the old file or the new one, never a part.

    Raises:
      OSError: the directory does not exist or cannot be written; the old file is untouched.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def canonical_json(values: object) -> str:
    """The one JSON text of `values`: sorted keys, no spaces, shortest exact floats, ASCII.

    Raises:
      NumericalError: a NaN or an infinity.
      InputError: something that JSON does not have.
    """
    return _dump(values, separators=(",", ":"))


def readable_json(values: object) -> str:
    """JSON with sorted keys and indentation, ending in a newline; raises as `canonical_json` does."""
    return _dump(values, indent=2) + "\n"


def sha256_of(values: object) -> str:
    """SHA-256 (hex) of the canonical JSON of `values`; raises as `canonical_json` does."""
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()


def read_json(path: Path, *, argument: str = "file") -> dict[str, object]:
    """The JSON object in a file.

    Args:
      path: the file.
      argument: what the file is called in the error message.

    Raises:
      InputError: it cannot be read, is not JSON, holds NaN or an infinity, repeats a key, or is not an object.
    """
    try:
        values = json.loads(
            Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_keys,
        )
    except OSError as error:
        raise InputError(f"Expected {argument}={str(path)!r} to be a readable file: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected {argument}={str(path)!r} to hold valid JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InputError(f"Expected {argument}={str(path)!r} to hold a JSON object, not {type(values).__name__}.")
    return values


def _dump(values: object, **layout: object) -> str:
    try:
        return json.dumps(values, sort_keys=True, allow_nan=False, **layout)
    except ValueError as error:
        raise NumericalError(f"JSON cannot hold this value: {error}.") from error
    except TypeError as error:
        raise InputError(f"Expected plain JSON values: {error}.") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is not a finite number")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is repeated")
    return values


def sync_directory(directory: Path) -> None:
    """Makes names new in a directory last; without this a file that was just made or renamed may be lost in a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
