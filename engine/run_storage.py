"""Which storage and study belong to a run: its folder's own SQLite file, or what `storage.json` says, which never holds a password."""

import dataclasses
from pathlib import Path

import optuna
from optuna.storages import BaseStorage

from engine.files import read_json, readable_json, write_atomically
from engine.run_folder import RunFolder
from engine.storage import location
from search_spaces.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStorage:
    """Where the study of a run is.

    Attributes:
      folder: of the run.
      spec: as `engine.storage.open_storage` takes it.
      study: its name; None where nothing says, which is the case before the run has begun and for the one study of a folder's own file.
      begun: whether the run has a study already, or was about to make it.
    """

    folder: RunFolder
    spec: str | Path = dataclasses.field(repr=False)
    study: str | None = None
    begun: bool = False

    def study_name(self, storage: BaseStorage) -> str:
        """The name of the study in the opened storage, which may be yet to be made."""
        if self.study is not None:
            return self.study
        # A folder that was renamed still holds its one study.
        names = optuna.get_all_study_names(storage) if self.begun else []
        return names[0] if len(names) == 1 else self.folder.path.name

    def keep(self, study: str) -> None:
        """Notes storage and study in the folder, unless they are there already or the study is in the folder itself."""
        if not self.begun and location(self.spec) != location(self.folder.study):
            write_atomically(self.folder.storage, readable_json({"storage": location(self.spec), "study": study}))


def run_storage(folder: RunFolder, *, given: str | Path | None = None) -> RunStorage:
    """Where the study of the run in a folder is, or is to be.

    Args:
      folder: of the run; it may be yet to be made.
      given: what the caller says; needed again only for a password that the environment does not hold.

    Raises:
      InputError: `given` is another storage than the run's, or `storage.json` is damaged.
    """
    known, study = None, None
    if folder.storage.exists():
        kept = read_json(folder.storage, argument="storage.json")
        known, study = kept.get("storage"), kept.get("study")
        if not (isinstance(known, str) and isinstance(study, str)):
            raise InputError(f"Expected storage.json in {str(folder.path)!r} to name a storage and a study.")
    elif folder.study.exists():
        known = location(folder.study)
    if given is not None and known is not None and location(given) != location(known):
        raise InputError(
            f"Expected storage={location(given)!r} to be that of the run in {str(folder.path)!r}, which is {known!r}; "
            "if the study has moved, change the folder's storage.json."
        )
    return RunStorage(folder=folder, spec=given or known or folder.study, study=study, begun=known is not None)
