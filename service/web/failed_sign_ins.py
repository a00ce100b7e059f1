"""Bounds how often signing in may fail: a token cannot be guessed, but trying costs the service reads.

The bound is on failures, by address, and short: whoever tries many tokens waits a minute, and keeps out only those who
share his address, and those for no longer than he goes on.
"""

import threading
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from service.web.places import place_of

WINDOW: Final = timedelta(minutes=1)
MOST_OF_ONE: Final = 10
#: Of all addresses together. Beyond it an address that has not failed lately still has one try.
MOST_OF_ALL: Final = 200
_MOST_ADDRESSES: Final = 10_000


class FailedSignIns:
    """Counts failures of the last minute, in bounded memory."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._began: datetime | None = None
        self._failures: OrderedDict[str, int] = OrderedDict()

    def may_try(self, address: str, *, now: datetime) -> bool:
        """Whether somebody at this address may try a token now."""
        with self._lock:
            self._turn(now)
            mine = self._failures.get(place_of(address), 0)
            full = sum(self._failures.values()) >= MOST_OF_ALL
            return mine < (1 if full else MOST_OF_ONE)

    def count(self, address: str, *, now: datetime) -> None:
        """Count one failure."""
        with self._lock:
            self._turn(now)
            place = place_of(address)
            self._failures[place] = self._failures.get(place, 0) + 1
            while len(self._failures) > _MOST_ADDRESSES:
                self._failures.popitem(last=False)

    def _turn(self, now: datetime) -> None:
        if self._began is None or not self._began <= now < self._began + WINDOW:
            self._began = now
            self._failures.clear()
