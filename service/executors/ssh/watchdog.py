"""Ends what takes too long: one thread for all connections, since a timer thread for each wait costs CPU."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TICK_SECONDS = 0.25


class Watchdog:
    """Calls what it was given when a block is not left in time. Safe for many threads."""

    def __init__(self) -> None:
        """Watch nothing yet; the thread comes with the first block and leaves when nothing is watched."""
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._watched: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, seconds: float, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` once from another thread when the block takes longer, a quarter of a second late at most."""
        number = next(self._numbers)
        with self._lock:
            self._watched[number] = (time.monotonic() + seconds, end)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="ssh-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(number, None)

    def _watch(self) -> None:
        quiet = 0
        while True:
            time.sleep(_TICK_SECONDS)
            with self._lock:
                now = time.monotonic()
                due = [number for number, (deadline, _) in self._watched.items() if deadline <= now]
                ends = [self._watched.pop(number)[1] for number in due]
                quiet = 0 if self._watched else quiet + 1
                if quiet > 1 / _TICK_SECONDS and not ends:
                    self._thread = None
                    return
            for end in ends:
                # Cutting a connection waits for its thread; the next block must not wait for that.
                threading.Thread(target=end, name="ssh-watchdog-end", daemon=True).start()
