"""Where long work stands, on stderr: a bar with the time left on a terminal, else plain lines, few enough for a log."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[str, int, int], None]
"""(text, done, total): work says where it stands. A smaller `done` or another `total` begins a new stage."""

STEP = 0.01
"""A plain line is due once so much of a stage is done since the last one."""

SECONDS, PATIENCE = 5.0, 0.02
"""Else it is due after so many seconds, and after such a part of the stage's time so far, so that a long run does not fill its log."""


@dataclasses.dataclass(kw_only=True)
class Stage:
    """One stage of the work, and its pace.

    Attributes:
      began: when it was first heard of, in seconds of any clock.
      first: what was done by then, as in a search that is resumed.
      done, total: where it stands.
      latest: when `done` last grew.
    """

    began: float
    first: int
    done: int
    total: int
    latest: float

    @classmethod
    def begin(cls, done: int, total: int, *, now: float) -> Stage:
        """A stage of which nothing is known but this."""
        return cls(began=now, first=done, done=done, total=total, latest=now)

    def follows(self, done: int, total: int) -> bool:
        """Whether this goes on with the stage."""
        return total == self.total and done >= self.done

    def move(self, done: int, *, now: float) -> None:
        """So much is done now."""
        if done > self.done:
            self.done, self.latest = done, now

    def left(self, now: float) -> float | None:
        """Seconds to its end at the pace so far; None while the pace is unknown, and when there is nothing left to do."""
        moved = self.done - self.first
        if moved <= 0 or self.done >= self.total:
            return None
        whole = (self.latest - self.began) / moved * (self.total - self.done)
        return max(whole - (now - self.latest), 0.0)


class _Told:
    """Whoever is told stays here: Ray Tune pickles its search, and with it this, and a copy says nothing."""

    def __reduce__(self) -> tuple[Callable[[], Report], tuple[()]]:
        return _nobody, ()


class Passed(_Told):
    """Passes what it is told on to a function.

    Args:
      tell: called with the same arguments.
    """

    def __init__(self, tell: Callable[[str, int, int], object]) -> None:
        self._tell = tell

    def __call__(self, text: str, done: int, total: int) -> None:
        self._tell(text, done, total)


class Lines(_Told):
    """Plain lines, `[done/total] text (time left)`: at each new stage, at its end, and in between as `STEP` and `SECONDS` say.

    Args:
      file: where they go.
      clock: gives seconds.
    """

    def __init__(self, file: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._stage: Stage | None = None
        self._printed: tuple[int, float] = (0, 0.0)
        self._line = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        now, stage = self._clock(), self._stage
        fresh = stage is None or not stage.follows(done, total)
        if fresh:
            stage = self._stage = Stage.begin(done, total, now=now)
        stage.move(done, now=now)
        printed, when = self._printed
        due = done - printed >= max(STEP * total, 1) or now - when >= max(SECONDS, PATIENCE * (now - stage.began))
        line = f"[{done}/{total}] {text}"
        if fresh or (line != self._line and (due or done == total)):
            left = stage.left(now)
            print(line + ("" if left is None else f" ({duration(left)} left)"), file=self._file, flush=True)
            self._printed, self._line = (done, now), line


class Bar(_Told):
    """A bar on a terminal: trials or blocks done, time so far, time left, and what is being done.

    Args:
      console: of the terminal.
      clock: gives seconds.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self._clock = clock
        self._stage: Stage | None = None
        what = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        self.progress = Progress(
            BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), _time_left_column(self.left), what, console=console, expand=True,
        )
        self._task = self.progress.add_task("starting", total=None)

    def __call__(self, text: str, done: int, total: int) -> None:
        now = self._clock()
        if self._stage is None or not self._stage.follows(done, total):
            self._stage = Stage.begin(done, total, now=now)
        self._stage.move(done, now=now)
        self.progress.update(self._task, description=text, completed=done, total=total)

    def left(self) -> str:
        """The time left in words, counting down between two reports; empty where it is unknown."""
        left = None if self._stage is None else self._stage.left(self._clock())
        return "" if left is None else f"{duration(left)} left"


@contextlib.contextmanager
def progress() -> Iterator[Report]:
    """How work says where it stands: a bar on stderr where that is a terminal, else plain lines there. Nothing goes to stdout."""
    if not sys.stderr.isatty():
        yield Lines(sys.stderr)
        return
    from rich.console import Console

    bar = Bar(Console(stderr=True))
    with bar.progress:
        yield bar


def duration(seconds: float) -> str:
    """A time in words, to what matters of it: `8 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _nobody() -> Report:
    return _say_nothing


def _say_nothing(text: str, done: int, total: int) -> None:
    """What a copy does."""


def _time_left_column(left: Callable[[], str]):
    from rich.progress import ProgressColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """Rendered anew with the bar."""

        def render(self, task: object) -> Text:
            return Text(left(), style="cyan")

    return TimeLeft()
