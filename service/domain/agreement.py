"""Whether the rows of a run say what its events say: a row can be changed behind the record's back, the chain cannot.

What is compared are the words that decide: who asked for what, how it ended, what was approved by whom. Times of the
engine, claims and texts that tell of waiting have no event of their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from service.domain.audit import AuditEvent, Fact
from service.domain.run import OPEN_STATES, GateState, NodeRunState, Verdict

#: Every action that says something of a row; other events need not be read.
TELLING = (
    "run.requested",
    "run.ended",
    "node_run.stuck",
    "node_run.resolved",
    "node_run.ended",
    "gate.opened",
    *(f"gate.{state}" for state in GateState if state is not GateState.OPEN),
)
#: Some state in which a node run goes on; which one has no event.
_OPEN = "open"
_REQUESTED = ("runbook", "digest", "dry_run", "reason", "params", "requesters", "waived")
_CAME_FROM = ("retry_of", "escalated_from", "from_step")


@dataclass(frozen=True)
class Row:
    """The comparable words of one row, as JSON has them."""

    #: What the events of this row are about, such as `gate/ID`.
    about: str
    words: Mapping[str, Any]


@dataclass(frozen=True)
class RowFault:
    """A row that does not say what the record says."""

    run_id: str
    #: The row, such as `gate/ID`.
    about: str
    #: What is wrong with it, without a full stop.
    reason: str


@dataclass
class Compared:
    """How much was compared."""

    runs: int = 0
    node_runs: int = 0
    gates: int = 0
    #: Words that events of an earlier version did not carry.
    not_comparable: int = 0


@dataclass
class Tale:
    """What the events of one run say of its rows, in their order."""

    run_id: str
    #: For each row the words that it must have, each with the seq of the event that said so.
    _said: dict[str, dict[str, tuple[Any, int]]] = field(default_factory=dict)
    _nodes: list[str] | None = None
    #: Words that the events of an earlier version did not carry.
    not_comparable: int = 0

    def hear(self, event: AuditEvent) -> None:
        """Take the next event; one that says nothing of a row is left out."""
        said = self._said.setdefault(event.fact.about, {})
        body = event.fact.body
        match event.fact.action.split("."):
            case ["run", "requested"]:
                words = self._requested(event.fact)
            case ["run", "ended"]:
                words = {"state": body.get("state")}
            case ["node_run", "ended"]:
                words = {name: body.get(name) for name in ("state", "verdict", "reason", "steps")}
            case ["node_run", "stuck"]:
                words = {"state": NodeRunState.STUCK, "verdict": Verdict.UNKNOWN}
            case ["node_run", "resolved"]:
                words = {"state": _OPEN}
                said.pop("verdict", None)
            case ["gate", verb]:
                words = self._gate(event.fact, verb)
            case _:
                return
        said |= {name: (value, event.seq) for name, value in words.items()}

    def _requested(self, fact: Fact) -> dict[str, Any]:
        trigger = fact.body.get("trigger") or {}
        self._nodes = list(fact.body.get("nodes") or ())
        words = {name: fact.body.get(name) for name in (*_REQUESTED, *_CAME_FROM)}
        words |= {"trigger_kind": trigger.get("kind"), "trigger_name": trigger.get("name")}
        return words | {"requested_by": fact.person, "state": _OPEN}

    def _gate(self, fact: Fact, verb: str) -> dict[str, Any]:
        state = GateState.OPEN if verb == "opened" else verb
        words: dict[str, Any] = {"state": state, "digest": fact.body.get("digest")}
        match verb:
            case "opened" | "waived":
                words |= {name: fact.body.get(name) for name in ("kind", "boot_id", "targets")}
                words |= {"node": fact.node, "step": fact.step, "answered_by": None, "reason": ""}
                later = {name: fact.body[name] for name in ("expires_at", "check_attempt_id") if name in fact.body}
                self.not_comparable += 2 - len(later)
                words |= later
            case "approved" | "denied" | "overridden":
                # What was typed on a node is told by whoever brought the journal.
                answered_by = fact.body.get("decided_by", fact.person)
                words |= {"answered_by": answered_by, "reason": fact.body.get("reason", "")}
            case _:
                words |= {"reason": fact.body.get("reason", "")}
        return words

    def faults(self, run: Row, node_runs: Iterable[Row], gates: Iterable[Row]) -> Iterator[RowFault]:
        """Yield where the rows of the run differ from what was heard, a row too many or too few among it."""
        nodes: list[Any] = []
        there: set[str] = set()
        for row in (run, *node_runs, *gates):
            there.add(row.about)
            if row.about.startswith("node_run/"):
                nodes.append(row.words.get("node"))
            differences = [*self._differences(row)]
            if differences:
                yield self._fault(row.about, "; ".join(differences))
        for about, said in self._said.items():
            if about not in there and said:
                yield self._fault(about, f"the row is gone, and seq {max(seq for _, seq in said.values())} tells of it")
        if self._nodes is not None and nodes != self._nodes:
            asked, found = ", ".join(map(str, self._nodes)), ", ".join(map(str, nodes))
            yield self._fault(run.about, f"its nodes are {found or 'none'}, and {asked} were asked for")

    def _differences(self, row: Row) -> Iterator[str]:
        said = self._said.get(row.about, {})
        is_part = row.about.startswith("node_run/")
        if not said and not is_part:
            yield "no event tells of this row"
            return
        if is_part and ("state" not in said or said["state"][0] == _OPEN):
            yield from _unfinished(row, told=bool(said))
        for name, (wanted, seq) in said.items():
            found = row.words.get(name)
            is_open = name == "state" and wanted == _OPEN and found in OPEN_STATES
            if not is_open and found != wanted:
                yield f"its {name.replace('_', ' ')} is {_shown(found)}, and seq {seq} says {_shown(wanted)}"

    def _fault(self, about: str, reason: str) -> RowFault:
        return RowFault(self.run_id, about, reason)


def _unfinished(row: Row, *, told: bool) -> Iterator[str]:
    """Judge a node run whose end no event has told: it goes on, without a verdict."""
    state, verdict = row.words.get("state"), row.words.get("verdict")
    if not told and (state == NodeRunState.STUCK or state not in OPEN_STATES):
        yield f"its state is {_shown(state)}, and no event says so"
    if verdict is not None and state != NodeRunState.STUCK:
        yield f"its verdict is {_shown(verdict)}, and no event says so"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
