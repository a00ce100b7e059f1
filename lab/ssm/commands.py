"""Commands and their invocations, as the service keeps them, and how a command's status follows from its invocations.

Words and rules: awsdocs/aws-systems-manager-user-guide @06b3c38~1, doc_source/monitor-commands.md and
send-commands-multiple.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.ssm.documents import Version

TERMINAL = frozenset({"Success", "Failed", "TimedOut", "Cancelled"})
NOT_REACHED = frozenset({"Undeliverable", "InvalidPlatform", "AccessDenied"})
NOT_STARTED = -1


@dataclass
class Plugin:
    """What one step has come to; times are seconds of the service since 1970."""

    name: str
    status: str = "Pending"
    details: str = "Pending"
    code: int = NOT_STARTED
    stdout: bytes = b""
    stderr: bytes = b""
    started: float | None = None
    ended: float | None = None


@dataclass
class Invocation:
    """One command on one instance."""

    instance: str
    plugins: list[Plugin]
    status: str = "Pending"
    details: str = "Pending"
    released: bool = False  # MaxConcurrency lets it go
    delivered: float | None = None
    next_try: float = 0.0
    cancel_due: float | None = None
    trace: str = ""
    name: str = ""

    @property
    def ended(self) -> bool:
        """Tell whether nothing about it will change any more."""
        return self.status in TERMINAL

    def become(self, status: str, details: str | None = None) -> None:
        """Change the status, and that of plugins that have not ended."""
        self.status, self.details = status, details or status
        for plugin in self.plugins:
            if plugin.status not in TERMINAL:
                plugin.status = {"Delayed": "Pending", "Cancelling": "InProgress"}.get(status, status)
                plugin.details = self.details if plugin.status in TERMINAL else plugin.status


@dataclass
class Command:
    """One SendCommand that was accepted."""

    id: str
    document: str
    version: Version
    shown_version: str
    sent: float
    timeout: int
    steps: list[dict[str, Any]]  # the filled-in inputs of each step, not yet with stored parameters
    execution_seconds: int
    invocations: list[Invocation]
    request: Mapping[str, Any]
    cancelled: bool = False
    seen: tuple[float, float] = (0.0, 0.0)  # the service's and the scripts' time when the heart last looked
    overdue_since: float | None = None  # in scripts' time: when TimeoutSeconds were over
    duplicates_left: dict[str, int] = field(default_factory=dict)

    @property
    def expires(self) -> float:
        """Give when the service stops waiting."""
        return self.sent + self.timeout + self.execution_seconds

    @property
    def ended(self) -> bool:
        """Tell whether all invocations have ended."""
        return all(invocation.ended for invocation in self.invocations)

    def of(self, instance: str) -> Invocation | None:
        """Give the invocation on an instance."""
        return next((each for each in self.invocations if each.instance == instance), None)

    def count(self, *details: str) -> int:
        """Count the invocations that show one of these details."""
        return sum(1 for each in self.invocations if each.details in details)

    @property
    def errors(self) -> int:
        """Give the number that counts against MaxErrors."""
        return self.count("Failed", "ExecutionTimedOut")

    @property
    def error_limit(self) -> int:
        """Give how many errors are allowed: the one after them stops the command."""
        return share(self.request.get("MaxErrors", "0"), len(self.invocations))

    @property
    def concurrency(self) -> int:
        """Give on how many instances it may be at once."""
        return max(1, share(self.request.get("MaxConcurrency", "50"), len(self.invocations)))


def share(limit: str, targets: int) -> int:
    """Read a number, or a percentage of the targets rounded down."""
    return targets * int(limit[:-1]) // 100 if limit.endswith("%") else int(limit)


def status_of(command: Command) -> tuple[str, str]:
    """Derive a command's status and details."""
    if not command.invocations:
        return "Success", "NoInstancesInTag"
    if not command.ended:
        return _unfinished(command)
    allowed, targets = command.error_limit, len(command.invocations)
    if command.count("Terminated") or command.errors > allowed:
        return "Failed", "Failed"
    if command.cancelled and command.count("Cancelled"):
        return "Cancelled", "Cancelled"
    if command.count("DeliveryTimedOut") > allowed:
        return "TimedOut", "DeliveryTimedOut"
    not_reached = command.count(*NOT_REACHED)
    if not_reached == targets:
        return "Failed", "Failed"
    if command.count("Success") + not_reached == targets:
        return "Success", "Success"
    return "Failed", "Incomplete"


def _unfinished(command: Command) -> tuple[str, str]:
    statuses = {each.status for each in command.invocations}
    if "Cancelling" in statuses:
        return "Cancelling", "Cancelling"
    if statuses == {"Pending"}:
        return "Pending", "Pending"
    if statuses <= {"Pending", "Delayed"}:
        return "Pending", "Delayed"
    return "InProgress", "InProgress"
