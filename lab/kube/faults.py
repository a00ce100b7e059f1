"""Fault switches and the log of calls."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One request that came in, and how it was answered."""

    verb: str
    path: str
    query: str
    code: int

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.verb} {self.path}{f'?{self.query}' if self.query else ''} {self.code}"


@dataclass
class Fault:
    """How requests go wrong whose verb and path match; `times` None: for ever."""

    verb: str
    path: str
    code: int = 500
    reason: str = "InternalError"
    message: str = "an error on the server"
    retry_after: int | None = None
    #: Seconds before the answer.
    delay: float = 0.0
    #: The connection is closed instead of an answer; after the request was done, or before.
    cut: bool = False
    after: bool = False
    times: int | None = 1

    def takes(self, verb: str, path: str) -> bool:
        """Tell whether the fault is for this request, and count it."""
        if self.verb != verb or not re.fullmatch(self.path, path) or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True
