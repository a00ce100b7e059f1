"""What people are told, who is told, and how far that has come. The words of it are in `notice_words`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from service.domain.audit import AuditEvent

#: Gates of one step that open within this time are told together.
GATHERING = timedelta(seconds=5)
#: Pauses between the tries of one telling; after the last one it is given up, half a day later.
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 14400))
#: More notices of one kind than these that are due together become one message of a chat.
MOST_SINGLE = 3
#: So many notices are told in one message at most.
MOST_TOGETHER = 200


class NoticeKind(StrEnum):
    """What it is about."""

    #: A gate is open: somebody must answer.
    GATE = "gate"
    #: A run has ended.
    ENDED = "ended"
    #: The outcome of an acting script is unknown: somebody must look.
    STUCK = "stuck"
    #: A breaker has latched, or was reset.
    BREAKER = "breaker"
    #: Alerts were paused, or resumed.
    PAUSE = "pause"
    #: A gate was overridden: everybody is told, whatever the rules say.
    OVERRIDE = "override"


class ReceiverKind(StrEnum):
    """How a receiver is reached."""

    #: A chat, mail or pager: text for people.
    CHAT = "chat"
    #: A program: signed JSON.
    WEBHOOK = "webhook"


class TellingState(StrEnum):
    """How far it is with one notice for one receiver."""

    PENDING = "pending"
    SENT = "sent"
    #: Tried for the last time.
    GIVEN_UP = "given_up"
    #: No longer true, or for nobody: it was not sent any more.
    LEFT_OUT = "left_out"


@dataclass(frozen=True)
class Notice:
    """One thing that people are told."""

    id: str
    kind: NoticeKind
    #: When it happened.
    at: datetime
    #: Notices of one key that are still gathering are one notice.
    key: str
    #: What it tells, as JSON; text of others stands in it on one line, bounded and without secrets.
    facts: Mapping[str, Any]
    #: Empty where it is about no run.
    run_id: str = ""
    runbook: str = ""
    nodes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    #: Whether an alert has begun it.
    by_alert: bool = False
    #: Until then more may come into it; None: it is whole.
    gathers_until: datetime | None = None

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the ids of the gates that it tells of."""
        return tuple(gate["id"] for gate in self.facts.get("gates", ()))

    def with_gates_of(self, other: "Notice") -> "Notice":
        """Return it with the gates, nodes and pools of another in it."""
        facts = {**self.facts, "gates": [*self.facts["gates"], *other.facts["gates"]]}
        return replace(
            self, facts=facts, nodes=_joined(self.nodes, other.nodes), pools=_joined(self.pools, other.pools)
        )

    def only_gates(self, open_gates: Collection[str]) -> "Notice":
        """Return it with those of its gates alone that are open."""
        gates = [gate for gate in self.facts.get("gates", ()) if gate["id"] in open_gates]
        return replace(self, facts={**self.facts, "gates": gates}, nodes=tuple(gate["node"] for gate in gates))


@dataclass(frozen=True)
class Telling:
    """One notice on its way to one receiver."""

    notice_id: str
    receiver: str
    #: That of the notice.
    at: datetime
    state: TellingState = TellingState.PENDING
    attempts: int = 0
    #: When it is tried (again); None: it has ended.
    next_at: datetime | None = None
    ended_at: datetime | None = None
    #: Why the last try failed, or why it was left out; no secret is in it.
    reason: str = ""

    @property
    def id(self) -> str:
        """Return what a receiver knows it by: the same at every try, so that it can drop what comes twice."""
        return f"{self.notice_id}.{self.receiver}"

    def sent(self, now: datetime) -> "Telling":
        """Return it as sent."""
        done = replace(self, state=TellingState.SENT, attempts=self.attempts + 1, next_at=None, ended_at=now)
        return replace(done, reason="")

    def failed(self, reason: str, *, now: datetime, final: bool) -> "Telling":
        """Return it after a try that failed: to be tried again after a pause, or given up."""
        tried = replace(self, attempts=self.attempts + 1, reason=reason)
        if final or self.attempts >= len(PAUSES):
            return replace(tried, state=TellingState.GIVEN_UP, next_at=None, ended_at=now)
        return replace(tried, next_at=now + PAUSES[self.attempts])

    def left_out(self, reason: str, *, now: datetime) -> "Telling":
        """Return it as left out."""
        return replace(self, state=TellingState.LEFT_OUT, next_at=None, ended_at=now, reason=reason)


@dataclass(frozen=True)
class Told:
    """A telling and what it tells."""

    telling: Telling
    notice: Notice


@dataclass(frozen=True)
class Receiver:
    """Where notices go. Addresses and secrets that nobody may read stand in files of their own."""

    name: str
    kind: ReceiverKind
    #: An address that may be read by everybody; else `url_file` names the file that holds it.
    url: str = ""
    url_file: str = ""
    secret_files: tuple[str, ...] = ()
    #: So many messages a minute at most.
    per_minute: int = 20


@dataclass(frozen=True)
class NoticeRule:
    """Who is told what. Empty: all of them."""

    to: tuple[str, ...]
    on: frozenset[NoticeKind] = frozenset()
    runbooks: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    #: Only what an alert has begun.
    only_alerts: bool = False

    def means(self, notice: Notice) -> bool:
        """Whether it is for this notice. What is about alerts as a whole is for every runbook and pool."""
        if self.on and notice.kind not in self.on:
            return False
        if not notice.run_id:
            return True
        of_runbook = not self.runbooks or notice.runbook in self.runbooks
        of_pool = not self.pools or not self.pools.isdisjoint(notice.pools)
        return of_runbook and of_pool and (notice.by_alert or not self.only_alerts)


@dataclass(frozen=True)
class NotifyConfig:
    """Who is told what, and where the pages of the service are. Empty: nobody is told anything."""

    base_url: str = ""
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    rules: tuple[NoticeRule, ...] = ()

    def receivers_of(self, notice: Notice) -> tuple[str, ...]:
        """Return the names of all who are told, each once."""
        if notice.kind is NoticeKind.OVERRIDE:
            return tuple(self.receivers)
        return _joined((), tuple(name for rule in self.rules if rule.means(notice) for name in rule.to))


_KINDS: Mapping[str, NoticeKind] = {
    "gate.opened": NoticeKind.GATE,
    "run.ended": NoticeKind.ENDED,
    "node_run.stuck": NoticeKind.STUCK,
    "breaker.latched": NoticeKind.BREAKER,
    "breaker.reset": NoticeKind.BREAKER,
    "alerts.paused": NoticeKind.PAUSE,
    "alerts.resumed": NoticeKind.PAUSE,
    "gate.overridden": NoticeKind.OVERRIDE,
}


def kind_of(event: AuditEvent) -> NoticeKind | None:
    """Return what kind of notice an event may make; None: none."""
    if event.fact.action == "gate.opened" and "by_hand" in event.fact.body:
        # It was answered on the node before the journal came here.
        return None
    return _KINDS.get(event.fact.action)


def together(due: Sequence[Told], receiver: Receiver, *, most: int) -> tuple[tuple[Told, ...], ...]:
    """Return what is due for a receiver as messages, at most so many of them, in the order in which they are due.

    For a chat, more than `MOST_SINGLE` notices of one kind are one message, as is all that is left when there is
    room for one message alone: a storm must not bury what counts. A program gets each by itself.
    """
    by_kind: dict[NoticeKind, list[Told]] = {}
    for told in due:
        by_kind.setdefault(told.notice.kind, []).append(told)
    bundled = {
        kind
        for kind, some in by_kind.items()
        if receiver.kind is ReceiverKind.CHAT and (len(some) > MOST_SINGLE or (len(due) > most and len(some) > 1))
    }
    messages: list[tuple[Told, ...]] = []
    for told in due:
        if told.notice.kind not in bundled:
            messages.append((told,))
        elif told is by_kind[told.notice.kind][0]:
            messages.append(tuple(by_kind[told.notice.kind][:MOST_TOGETHER]))
    return tuple(messages[: max(0, most)])


def _joined(some: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *more)))
