"""What runs on a cluster's head for `launch.client_run`: one task, the search, and one actor, which keeps its folders.

Ray's server for the client and the actor import this module, so what only the search needs is imported there, and settings and result travel
as bytes.
"""

from __future__ import annotations

import dataclasses
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from launch import results_archive

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class Desk:
    """An actor on the head: keeps the folders of the search, and hears where it stands.

    Args:
      sent: archives of the folders to begin with, by their paths at the desk.
    """

    def __init__(self, sent: dict[str, str]) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bandsmith-"))
        self._told: list[tuple[str, int, int]] = []
        for path, archive in sent.items():
            results_archive.unpack(archive, self._place / path)

    def place(self) -> Path:
        """Where the folders are."""
        return self._place

    def tell(self, text: str, done: int, total: int) -> None:
        """Where the search stands."""
        self._told.append((text, done, total))

    def told(self) -> list[tuple[str, int, int]]:
        """What it heard since it was last asked."""
        told, self._told = self._told, []
        return told

    def archive(self, path: str) -> str | None:
        """A folder as `launch.results_archive` packs it; None if there is none."""
        folder = self._place / path
        return results_archive.pack(folder) if folder.is_dir() else None

    def close(self) -> None:
        """Removes the folders."""
        shutil.rmtree(self._place, ignore_errors=True)


def search(pickled: bytes, place: Path, desk: ActorHandle, grows: bool) -> bytes:
    """The task: `engine.tune.tune`, its result pickled; errors as there.

    Args:
      pickled: the settings, with paths relative to `place`.
      place: the desk's folder.
      desk: is told where the search stands, and keeps its folders when the task is gone.
      grows: whether the cluster adds nodes by itself.
    """
    from engine.environment import running_session
    from engine.tune import tune
    from launch.progress import Passed

    settings = pickle.loads(pickled)
    given = {name: getattr(settings, name) for name in ("out", "resume", "warm_start")}
    paths = {name: place / path for name, path in given.items() if path is not None}
    with running_session(grows=grows):
        return pickle.dumps(tune(dataclasses.replace(settings, **paths), progress=Passed(desk.tell.remote)))
