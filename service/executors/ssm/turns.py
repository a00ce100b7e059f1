"""At most two commands of ours under way on a node, in the order in which they came.

The agent works on five at once by default (amazon-ssm-agent, agent/appconfig/constants.go), for whoever sends them. One
that follows a script and one that stops it is what we need.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

AT_ONCE = 2


class NoTurn(Exception):
    """The commands before did not end in time."""


class Turns:
    """Fair turns for each node. Safe for many threads."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._changed = threading.Condition()
        self._under_way: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[object]] = defaultdict(deque)

    @contextmanager
    def take(self, node: str, *, seconds: float) -> Iterator[None]:
        """Wait for a turn and hold it while the block runs; NoTurn when none came in time."""
        me = object()
        with self._changed:
            self._waiting[node].append(me)
            try:
                if not self._wait(node, me, until=time.monotonic() + seconds):
                    raise NoTurn
                self._under_way[node] += 1
            finally:
                self._waiting[node].remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._under_way[node] -= 1
                if not self._under_way[node] and not self._waiting[node]:
                    del self._under_way[node], self._waiting[node]
                self._changed.notify_all()

    def _wait(self, node: str, me: object, *, until: float) -> bool:
        while self._waiting[node][0] is not me or self._under_way[node] >= AT_ONCE:
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._changed.wait(left)
        return True
