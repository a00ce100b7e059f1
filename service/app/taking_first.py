"""Taking comes first: judging can wait for a moment, and the monitor that delivers has a time limit of its own.

Both share one processor. Only deliveries of proven senders count here, so that no stranger puts judging off.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds without a delivery after which several that came at once have ended; one alone is over when it is.
QUIET: Final = 0.02
#: How often a wait looks whether it is still wanted (seconds).
_LOOK: Final = 0.1


class TakingFirst:
    """Says whether deliveries are being recorded. Safe for many threads."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._now = now
        self._changed = threading.Condition()
        self._count = 0
        self._crowded_until = now()

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Count one delivery for as long as it is being recorded."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                if self._count > 1:
                    self._crowded_until = self._now() + QUIET
                self._count -= 1
                if not self._count:
                    self._changed.notify_all()

    def wait_for_quiet(self, seconds: float, *, wanted: Callable[[], bool]) -> bool:
        """Wait until none is being recorded, at most so long and while it is wanted; return whether that came."""
        deadline = self._now() + seconds
        with self._changed:
            while (busy := self._busy_for()) > 0:
                left = deadline - self._now()
                if left <= 0 or not wanted():
                    return False
                self._changed.wait(min(busy, left))
        return True

    def _busy_for(self) -> float:
        """Return for how many seconds at most it is busy as far as is known now; 0 when it is not."""
        return _LOOK if self._count else min(_LOOK, max(0.0, self._crowded_until - self._now()))
