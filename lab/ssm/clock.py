"""The stand-in's own time: minutes of AWS pass as fast as a test says, and nobody waits for them."""

import threading
import time
from datetime import UTC, datetime


class Clock:
    """Two times that start now: the service's, at `pace`, and that of scripts on machines, at `script_pace`.

    Pace is seconds of that time per second here; 0 stands still until `advance`. Scripts are real programs, so their
    time runs as ours unless a test says otherwise.
    """

    def __init__(self, *, pace: float = 1.0, script_pace: float = 1.0) -> None:
        """Start both at this machine's time."""
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._service = self._script = time.time()
        self._pace, self._script_pace = pace, script_pace

    def now(self) -> float:
        """Give the service's time, in seconds since 1970."""
        with self._lock:
            return self._service + (time.monotonic() - self._since) * self._pace

    def script(self) -> float:
        """Give the scripts' time, in seconds since 1970."""
        with self._lock:
            return self._script + (time.monotonic() - self._since) * self._script_pace

    def moment(self) -> datetime:
        """Give the service's time as a moment in UTC."""
        return datetime.fromtimestamp(self.now(), UTC)

    def advance(self, seconds: float) -> None:
        """Let this much pass at once, in both times."""
        with self._lock:
            self._service += seconds
            self._script += seconds

    def set_pace(self, pace: float, *, script_pace: float | None = None) -> None:
        """Go on at another pace from now on."""
        with self._lock:
            now = time.monotonic()
            self._service += (now - self._since) * self._pace
            self._script += (now - self._since) * self._script_pace
            self._since, self._pace = now, pace
            self._script_pace = self._script_pace if script_pace is None else script_pace
