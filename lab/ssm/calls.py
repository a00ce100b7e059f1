"""The log of calls, from which tests read what really reached the service."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

KEPT = 20_000


@dataclass(frozen=True)
class Call:
    """One HTTP request for an operation; the client's own retries are calls of their own with one `invocation_id`."""

    operation: str
    parameters: Mapping[str, Any]
    at: datetime  # by the service's clock
    answered: str  # "ok", an error's code, or an outcome that answers nothing, such as "cut_after"
    invocation_id: str = ""
    command_id: str = ""  # of a SendCommand that was accepted, whatever was answered

    def as_json(self) -> dict[str, Any]:
        """Give it for the control endpoint."""
        return {**asdict(self), "at": self.at.isoformat()}


class Calls:
    """The last calls, in order of their answers."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque(maxlen=KEPT)

    def add(self, call: Call) -> None:
        """Write one down."""
        with self._lock:
            self._calls.append(call)

    def all(self, operation: str | None = None) -> list[Call]:
        """Give the calls so far, or those of one operation."""
        with self._lock:
            return [call for call in self._calls if operation in (None, call.operation)]
