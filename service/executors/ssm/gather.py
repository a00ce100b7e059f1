"""Scripts that only read and come together go as one command, up to fifty nodes of one place and document.

Each node gets its own envelope; what is common to them is on the wire once. A script that acts, a question about an
attempt and a stop are commands of their own and never come here.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.domain.errors import BrokenRule
from service.domain.script import NotStarted, ScriptOrder
from service.executors import envelope
from service.executors.envelope import OneAnswer
from service.executors.not_sent import NotSent
from service.executors.ssm import wire
from service.executors.ssm.command import LOOK_DELIVERY, SHORTEST_DELIVERY, Accepted, Command, execution_seconds
from service.executors.ssm.gateway import Place, place_of
from service.executors.ssm.sender import MayHaveArrived, RefusedOfOne

#: API reference, SendCommand: InstanceIds. botocore does not look.
MOST_NODES = 50


@dataclass(frozen=True)
class Sent:
    """A command that SSM has taken."""

    command: Command
    accepted: Accepted


@dataclass(frozen=True)
class _Kind:
    """What must be the same for all nodes of a command."""

    place: Place
    document: str
    document_hash: str | None
    within: OneAnswer


@dataclass(eq=False)
class _Member:
    order: ScriptOrder
    sent: "Future[Sent]" = field(default_factory=Future)


class Gatherer:
    """Puts starts together. Safe for many threads: the one that comes first waits a moment and sends for all."""

    def __init__(
        self,
        send: Callable[[Command], Accepted],
        *,
        now: Callable[[], datetime],
        seconds: float,
        closing: threading.Event,
    ) -> None:
        """Take what sends, the clock that orders are dated by, and how long the first one waits for others."""
        self._send = send
        self._now = now
        self._seconds = seconds
        self._closing = closing
        self._lock = threading.Lock()
        self._open: dict[_Kind, list[_Member]] = {}

    def start(self, order: ScriptOrder, within: OneAnswer) -> Sent:
        """Send an order that only reads, perhaps with others; NotSent, MayHaveArrived."""
        member = _Member(order)
        endpoint = order.endpoint
        kind = _Kind(place_of(endpoint), endpoint.document, endpoint.document_hash, within)
        if not self._join(kind, member):
            return member.sent.result()
        self._closing.wait(self._seconds)
        with self._lock:
            members = self._open.pop(kind)
        try:
            for part in _distinct(members):
                self._send_all(part, within)
        finally:
            for one in members:
                if not one.sent.done():
                    one.sent.set_exception(MayHaveArrived("whoever sent it for several nodes was interrupted"))
        return member.sent.result()

    def _join(self, kind: _Kind, member: _Member) -> bool:
        """Add one that waits; True for the first, who sends."""
        with self._lock:
            members = self._open.get(kind)
            if members is None:
                self._open[kind] = [member]
                return True
            members.append(member)
            return False

    def _send_all(self, members: Sequence[_Member], within: OneAnswer) -> None:
        """Send one command, or two halves where it is too long or one node spoils it; everybody learns the result."""
        try:
            command = look_command([one.order for one in members], within, now=self._now())
            if len(command.line) > wire.MOST_CHARACTERS and len(members) == 1:
                raise too_long(members[0].order, command)
            if len(command.line) <= wire.MOST_CHARACTERS:
                sent = Sent(command, self._send(command))
                for one in members:
                    one.sent.set_result(sent)
                return
        except RefusedOfOne as refused:
            if len(members) == 1:
                members[0].sent.set_exception(refused)
                return
        except (NotSent, MayHaveArrived, BrokenRule) as error:
            for one in members:
                one.sent.set_exception(error)
            return
        middle = len(members) // 2
        self._send_all(members[:middle], within)
        self._send_all(members[middle:], within)


def look_command(orders: Sequence[ScriptOrder], within: OneAnswer, *, now: datetime) -> Command:
    """Return the command that starts scripts which only read, dated now."""
    dated = [replace(order, sent_at=now) for order in orders]
    if len(dated) == 1:
        return start_command(dated[0], within, now=now)
    first = dated[0]
    data = envelope.for_starts({order.endpoint.address: order for order in dated}, within)
    line = wire.for_many(
        data,
        attempts={order.endpoint.address: order.attempt_id for order in dated},
        endpoint=first.endpoint,
    )
    endpoints = tuple(order.endpoint for order in dated)
    return Command(endpoints, line, first.attempt_id, LOOK_DELIVERY, execution_seconds(within.wait))


def start_command(order: ScriptOrder, within: OneAnswer, *, now: datetime) -> Command:
    """Return the command that starts one script, dated now: it may have waited for its turn."""
    dated = replace(order, sent_at=now)
    line = wire.for_one(envelope.for_start(dated, within), attempt_id=order.attempt_id, endpoint=order.endpoint)
    delivery = SHORTEST_DELIVERY if order.acting else LOOK_DELIVERY
    return Command((order.endpoint,), line, order.attempt_id, delivery, execution_seconds(within.wait))


def too_long(order: ScriptOrder, command: Command) -> NotSent:
    """Return the refusal of a script that does not fit into a command."""
    return NotSent(
        NotStarted.REFUSED,
        f"The {order.kind} of step {order.step} with its targets is {len(command.line)} characters long on the way to "
        f"SSM, which takes {wire.MOST_CHARACTERS}; nothing was started on {order.endpoint.name}.",
        "Shorten the script or its prelude, name fewer targets, or reach the node by SSH.",
    )


def _distinct(members: Sequence[_Member]) -> list[list[_Member]]:
    """Return the members in parts in which no instance stands twice and that are not too many for a command."""
    parts: list[list[_Member]] = []
    for member in members:
        address = member.order.endpoint.address
        for part in parts:
            if len(part) < MOST_NODES and all(one.order.endpoint.address != address for one in part):
                part.append(member)
                break
        else:
            parts.append([member])
    return parts
