"""The most memory this process has held, from a moment on; Linux counts it, and can be told to begin again."""

import re
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak_memory() -> None:
    """Counting begins now, where the system allows that; else it goes on from the start of the process."""
    try:
        RESET.write_text("5")
    except OSError:
        pass


def peak_memory() -> int | None:
    """Bytes of resident memory at their most; None where the system does not say."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), flags=re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
