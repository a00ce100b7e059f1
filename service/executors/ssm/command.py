"""One SendCommand: what is sent, and what is kept of it until each invocation is over."""

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from service.domain.node import Endpoint
from service.executors.ssm.statuses import Meaning

#: The shortest that SSM takes: an acting script that does not start at once shall not start later by itself.
SHORTEST_DELIVERY = 30
#: A look may come when a node that was away is back.
LOOK_DELIVERY = 60
#: Within this the envelope answers after its wait is over: a lock, a busy node, the end of a group by TERM and KILL.
ANSWER_SLACK = 40
#: The most that the envelope waits for a script; the next question attaches.
LONGEST_WAIT = 45
_COMMENT_CHARACTERS = 100


@dataclass(frozen=True)
class Command:
    """What goes to one node, or the same line to several of one place and document."""

    endpoints: tuple[Endpoint, ...]
    line: str
    #: The id of the attempt, or of the first of several.
    attempt_id: str
    #: TimeoutSeconds: what has not started by then does not start any more.
    delivery: int
    #: executionTimeout of the carrier, not of the script; the document's default is an hour.
    execution: int

    def parameters(self) -> dict[str, object]:
        """Return the parameters of SendCommand."""
        first, several = self.endpoints[0], len(self.endpoints) > 1
        words: dict[str, object] = {
            "InstanceIds": [endpoint.address for endpoint in self.endpoints],
            "DocumentName": first.document,
            "Parameters": {"commands": [self.line], "executionTimeout": [str(self.execution)]},
            "TimeoutSeconds": max(SHORTEST_DELIVERY, self.delivery),
            "Comment": self.comment,
        }
        if first.document_hash is not None:
            words |= {"DocumentHash": first.document_hash, "DocumentHashType": "Sha256"}
        if several:
            # So that SSM never stops by itself: what fails on one node says nothing of the others.
            words |= {"MaxConcurrency": "100%", "MaxErrors": "100%"}
        return words

    @property
    def comment(self) -> str:
        """Return by what the command is found again."""
        more = f" +{len(self.endpoints) - 1}" if len(self.endpoints) > 1 else ""
        return f"{self.attempt_id[: _COMMENT_CHARACTERS - len(more)]}{more}"


@dataclass(frozen=True)
class Accepted:
    """What SSM said of a command that it has taken."""

    command_id: str
    #: By the clock of AWS.
    requested_at: datetime
    #: When the request went out, on the clock of time.monotonic; SSM may have taken it then, and told it seconds later.
    asked_at: float = math.inf


@dataclass(frozen=True)
class Landing:
    """How the way of one invocation ended, as far as SSM knows."""

    meaning: Meaning
    #: The standard output of the carrier: the envelope's frames, cut or whole.
    output: str = ""


@dataclass(eq=False)
class Flight:
    """One invocation under way."""

    command: Command
    accepted: Accepted
    endpoint: Endpoint
    #: When it was known to be taken, on the clock of time.monotonic.
    sent_at: float
    #: Whether the short output that a listing shows is all of the answer, so that nobody needs to ask for more.
    enough: Callable[[str], bool]
    #: What a second of AWS takes; less than 1 in tests.
    pace: float = 1.0
    #: Whether SSM ever said that it may have begun.
    begun: bool = False
    #: When SSM was last asked and said that it had not.
    seen_waiting: float | None = None
    landed: "Future[Landing]" = field(default_factory=Future)

    @property
    def instance(self) -> str:
        """Return the id of the instance."""
        return self.endpoint.address

    @property
    def key(self) -> tuple[str, str]:
        """Return what names the invocation."""
        return self.accepted.command_id, self.instance

    def never_begun(self, now: float, *, margin: float) -> bool:
        """Tell whether it is proven that the agent never began it, when SSM says at `now` that it was not delivered.

        SSM says so at the total timeout, of what nobody took and of what was taken and never ended. What has not
        started within TimeoutSeconds does not start any more; so it is proven by a sight of it waiting after that,
        and by an end that comes before what had started could have used up its time.
        """
        if self.begun:
            return False
        delivery = max(SHORTEST_DELIVERY, self.command.delivery) * self.pace
        if self.seen_waiting is not None and self.seen_waiting >= self.sent_at + delivery + margin:
            return True
        taken_at = min(self.accepted.asked_at, self.sent_at)
        return now < taken_at + delivery + self.command.execution * self.pace - margin

    def last_word_by(self, beyond: float) -> float:
        """Return until when SSM must have told an end."""
        total = max(SHORTEST_DELIVERY, self.command.delivery) + self.command.execution
        return self.sent_at + total * self.pace + beyond


def execution_seconds(wait: float) -> int:
    """Return the executionTimeout for an envelope that waits so long."""
    return math.ceil(wait) + ANSWER_SLACK
