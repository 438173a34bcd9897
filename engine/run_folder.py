"""The folder of one run: where its files are, who may write there, and its log."""

import contextlib
import dataclasses
import datetime
import fcntl
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from search_spaces.errors import InputError

RUNS = Path("runs")
"""Where run folders go that nobody named."""

SPACE = 16 * 2**20
"""Bytes that must be free where a run begins: several times what one writes."""

LOGGED = ("bandsmith", "optuna", "ray")
"""Loggers whose messages go to the run's log."""

logger = logging.getLogger("bandsmith")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Paths of one run; nothing is created until `create` or `writing`.

    Attributes:
      path: absolute path of the folder.
    """

    path: Path

    @classmethod
    def planned(cls, path: Path | None = None) -> "RunFolder":
        """A run folder that does not exist yet; None means one in runs/ with a time stamp.

        Raises:
          InputError: it exists already.
        """
        path = Path(RUNS / _time_stamp() if path is None else path).absolute()
        if path.exists():
            raise InputError(f"Expected run folder {str(path)!r} not to exist; resume it or choose another.")
        return cls(path=path)

    @classmethod
    def create(cls, path: Path | None = None) -> "RunFolder":
        """A new run folder; arguments as `planned`.

        Raises:
          InputError: it exists already, cannot be made, or its disk is full.
        """
        folder = cls.planned(path)
        folder._check_space()
        try:
            folder.path.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"Expected run folder {str(folder.path)!r} to be a place we can write: {error.strerror}.") from error
        return folder

    @classmethod
    def existing(cls, path: Path) -> "RunFolder":
        """The run folder at `path`.

        Raises:
          InputError: there is none.
        """
        folder = cls(path=Path(path).absolute())
        if not folder.path.is_dir():
            raise InputError(f"Expected run folder {str(path)!r} to exist.")
        return folder

    @property
    def strategy(self) -> Path:
        """The best certified strategy."""
        return self.path / "strategy.json"

    @property
    def trials(self) -> Path:
        """The table of all trials."""
        return self.path / "trials.csv"

    @property
    def study(self) -> Path:
        """The Optuna study, unless another storage was named."""
        return self.path / "study.db"

    @property
    def storage(self) -> Path:
        """Where the study is, if in another storage (see `engine.run_storage`)."""
        return self.path / "storage.json"

    @property
    def settings(self) -> Path:
        """What the run was asked for that the study does not know."""
        return self.path / "settings.json"

    @property
    def certification(self) -> Path:
        """Plans and samples of the certification (see `engine.journal`)."""
        return self.path / "certification"

    @property
    def log(self) -> Path:
        """What happened, line by line."""
        return self.path / "log.txt"

    @property
    def temporary(self) -> Path:
        """Scratch space of a running search; removed when it ends."""
        return self.path / "tmp"

    @property
    def compiled(self) -> Path:
        """Compiled JAX programs, shared by all workers; removed with `temporary`."""
        return self.temporary / "compiled"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write in this folder, for the length of the block; keeps the log, and removes `temporary` at the end.

        The lock is the kernel's: it ends with the process, however that ends, so a killed run leaves nothing to clean up by hand.

        Raises:
          InputError: another process is writing here, or nobody can, or the disk is full.
        """
        self._check_space()
        try:
            lock = open(self.path / ".lock", "w")
        except OSError as error:
            raise InputError(f"Expected run folder {str(self.path)!r} to be a place we can write: {error.strerror}.") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(f"Expected run folder {str(self.path)!r} to be in use by no other process.") from error
            # What a killed run left behind.
            shutil.rmtree(self.temporary, ignore_errors=True)
            with _logging_to(self.log):
                try:
                    yield
                finally:
                    shutil.rmtree(self.temporary, ignore_errors=True)

    def _check_space(self) -> None:
        around = next(path for path in (self.path, *self.path.parents) if path.exists())
        if (free := shutil.disk_usage(around).free) < SPACE:
            raise InputError(
                f"Expected run folder {str(self.path)!r} to be on a disk with at least {SPACE // 2**20} MiB free, "
                f"not {free / 2**20:.1f}."
            )


class _LogHandler(logging.FileHandler):
    """A log that cannot be written, on a full disk say, stops no work and prints nothing; what the run itself cannot write does."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Called inside `except`; the message is lost."""

    def close(self) -> None:
        """What is still to be written is lost where it cannot be."""
        with contextlib.suppress(OSError):
            super().close()


def _time_stamp() -> str:
    return datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGED]
    before = [(log.level, log.propagate, log.handlers[:]) for log in loggers]
    for log in loggers:
        # Their own handlers write to the terminal, which belongs to progress and results. One handler each, since Ray changes its own's format.
        handler = _LogHandler(path, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO if log.name == "bandsmith" else logging.WARNING)
    try:
        yield
    finally:
        for log, (level, propagate, handlers) in zip(loggers, before, strict=True):
            log.handlers[0].close()
            log.propagate, log.handlers = propagate, handlers
            log.setLevel(level)
