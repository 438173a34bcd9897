"""Ctrl-C and SIGTERM. During a search the first asks it to stop between two steps, the second acts at once, as it would without us;
elsewhere both end the work by an exception wherever it is, since what it keeps is kept line by line.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

import engine.environment  # noqa: F401 (before ray, always)
from ray.tune import Stopper

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption(Stopper):
    """Remembers a signal and tells Tune to stop.

    An exception raised wherever the signal finds us could cut a database transaction short, which would lock the study.
    """

    def __init__(self) -> None:
        self.received: int | None = None

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
        """No single trial is stopped."""
        return False

    def stop_all(self) -> bool:
        """Whether a signal came."""
        return self.received is not None

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Signals are remembered within the block and take effect at its end.

        Raises:
          KeyboardInterrupt: at the end of the block, after Ctrl-C.
          SystemExit: at the end of the block, after SIGTERM; the code is 128 + 15, as shells have it.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def remember(number: int, frame: object) -> None:
            self.received = number
            signal.signal(number, before[number])

        for number in SIGNALS:
            signal.signal(number, remember)
        try:
            yield
        finally:
            for number in SIGNALS:
                signal.signal(number, before[number])
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the block by an exception, as Ctrl-C does, so that everything is closed. Ray's start sets a handler, so this comes after.

    Raises:
      SystemExit: on SIGTERM; the code is 128 + 15, as shells have it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
