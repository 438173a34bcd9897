"""The plug-in point for exporters: an exported configuration → the files a trainer needs."""

import abc
from collections.abc import Mapping
from typing import ClassVar

from engine.exports.config import ExportConfig
from search_spaces.mechanism import Mechanism


class Exporter(abc.ABC):
    """One trainer to export to.

    A new exporter subclasses this, joins `EXPORTERS` in engine/exports/exporters.py and joins tests/contracts/exporter_contract.py by that.
    """

    name: ClassVar[str]
    """The word of `--to`."""

    extra: ClassVar[str | None]
    """The extra of bandsmith's installation that brings the trainer; None if it needs nothing."""

    def unsupported(self, mechanism: Mechanism) -> str | None:
        """None if this trainer can run the mechanism, else one sentence saying why not."""
        return None

    @abc.abstractmethod
    def files(self, config: ExportConfig) -> Mapping[str, bytes]:
        """The files besides `config.json`, by name; the same config gives the same bytes. `train.py` is a script that runs as it is."""
