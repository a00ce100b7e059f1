"""What the use cases need of the world; `main.py` builds what fulfils it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from service.app.alert_ports import AlertReader, AlertWriter
from service.app.notice_ports import NoticeReader, NoticeWriter
from service.app.paging import Page as Page
from service.app.rights_ports import RightsReader
from service.app.session_ports import SessionReader, SessionWriter
from service.app.sweep_ports import SweepReader, SweepWriter
from service.domain.alert import Parsed
from service.domain.audit import AuditEvent, Fact
from service.domain.node import Endpoint, Inventory
from service.domain.person import Token
from service.domain.plan import Plan, PlannedScript
from service.domain.rule import AlertSource, RuleSet
from service.domain.run import Attempt, Gate, GateState, History, Hold, NodeRun, NodeRunState, Resolution, Run
from service.domain.runbook import Runbook
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptOrder, Stream

T = TypeVar("T")


class Clock(Protocol):
    """The only source of time and of ids."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""

    def new_id(self) -> str:
        """Return an id that is not given again."""


class Executor(Protocol):
    """How a script reaches one kind of machine. Expected failures are reports, never errors."""

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        """Start the script once and follow it until it ends or the link is lost."""

    def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """Ask how an attempt stands; never starts anything, and closes the door to a late start."""

    def stop(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """End the script of an attempt."""

    def close(self) -> None:
        """Give up connections."""


class Executors(Protocol):
    """The executor of each endpoint."""

    def of(self, endpoint: Endpoint) -> Executor:
        """Return the executor that reaches this endpoint."""

    def close(self) -> None:
        """Give up every connection."""


class InventorySource(Protocol):
    """Where nodes come from."""

    def current(self) -> Inventory:
        """Return the inventory as it is now; ConfigInvalid when the file is wrong and none was good before."""


@dataclass(frozen=True)
class RunbookSource:
    """The text that a runbook was made from."""

    name: str
    text: str
    prelude: str
    revision: str


class Runbooks(Protocol):
    """The runbooks that are offered."""

    def get(self, name: str) -> tuple[Runbook, RunbookSource]:
        """Return a runbook and its text; NotFound, or RunbookInvalid with its findings."""

    def all(self) -> Sequence[Runbook]:
        """Return every good runbook, by name."""

    def invalid(self) -> Sequence[tuple[str, str]]:
        """Return file and reason of every bad one."""


class RuleSource(Protocol):
    """Where the sources of alerts and the rules come from."""

    def current(self) -> RuleSet:
        """Return the rules as they are now; ConfigInvalid when the file is wrong and none was good before."""


class Receivers(Protocol):
    """How deliveries of each kind of source are proven and read. Names of headers are in lower case."""

    def token(self, headers: Mapping[str, str]) -> str:
        """Return the token that came with a request, as bearer or as password; Unauthenticated without one."""

    def verify(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> None:
        """Return when a signature proves that the source has sent it, else raise Unauthenticated; the reason is ours.

        Raises Unavailable when it cannot be found out now, as without the certificate of a signature.
        """

    def parse(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Parsed:
        """Return what a delivery says; InvalidInput for a body that is none of its kind."""


@dataclass(frozen=True)
class RunFilter:
    """Which runs a list shows."""

    runbook: str | None = None
    node: str | None = None
    state: NodeRunState | None = None
    dry_run: bool | None = None
    requested_by: str | None = None


@dataclass(frozen=True)
class AuditFilter:
    """Which events a list shows."""

    run_id: str | None = None
    node: str | None = None
    person: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class RunHead:
    """What a list shows of a run beside its request: cheap to read, however many nodes there are."""

    state: NodeRunState
    #: The first nodes by position, at most `RUN_HEAD_NODES`.
    first_nodes: tuple[str, ...]
    #: Whether there are more than these.
    more_nodes: bool


RUN_HEAD_NODES = 3


@dataclass(frozen=True)
class Backlog:
    """What is open at this moment, in numbers."""

    #: Node runs in each open state; a state that nothing is in may be absent.
    node_runs: Mapping[NodeRunState, int]
    open_gates: int


class Reader(AlertReader, NoticeReader, RightsReader, SessionReader, SweepReader, Protocol):
    """Reads; inside a write it sees what that write has done."""

    def run(self, run_id: str) -> Run:
        """Return a run; NotFound."""

    def runs(self, which: RunFilter, *, cursor: str | None, limit: int) -> Page[Run]:
        """Return runs, newest first, by keyset."""

    def run_by_key(self, person: str, key: str) -> Run | None:
        """Return the run that this person requested with this idempotency key."""

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, RunHead]:
        """Return state and first nodes of these runs, in a bounded number of queries; unknown ids are left out."""

    def runbook_source(self, run_id: str) -> RunbookSource:
        """Return the runbook's text as it was planned; NotFound."""

    def scripts(self, run_id: str, node: str) -> tuple[PlannedScript, ...]:
        """Return the scripts that were planned for a node."""

    def node_run(self, node_run_id: str) -> NodeRun:
        """Return a node run; NotFound."""

    def node_runs(self, run_id: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a run, by position."""

    def history(self, node_run_id: str) -> History:
        """Return everything recorded of a node run; NotFound."""

    def histories(self, run_id: str) -> tuple[History, ...]:
        """Return everything recorded of each node run of a run, by position, in a bounded number of queries."""

    def backlog(self) -> Backlog:
        """Return how many node runs are open, by state, and how many gates."""

    def due(self, now: datetime, *, limit: int) -> tuple[NodeRun, ...]:
        """Return unclaimed node runs in an open state whose `wake_at` has come, oldest first."""

    def next_wake(self) -> datetime | None:
        """Return the earliest `wake_at` of an unclaimed open node run."""

    def owned_by_others(self, owner: str) -> tuple[NodeRun, ...]:
        """Return open node runs that some other owner has claimed."""

    def holder(self, node: str) -> NodeRun | None:
        """Return the acting node run that has this node to itself."""

    def open_acting(self, *, runbook: str | None = None, node: str | None = None) -> tuple[NodeRun, ...]:
        """Return acting node runs in an open state, by creation."""

    def acting_on_nodes(self, runbook: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a runbook that have their nodes to themselves."""

    def rollout(self, run_id: str, *, canary: int) -> tuple[NodeRun, ...]:
        """Return what decides over the rest of a run: its first `canary` node runs, and those that failed."""

    def asleep(self, node_run: NodeRun, *, now: datetime) -> tuple[str, ...]:
        """Return the queued node runs that may wait for this one and are not due by themselves, by id.

        These are the others of its run and, when it acts, the acting ones of its runbook and of its node.
        """

    def states(self, run_id: str) -> frozenset[NodeRunState]:
        """Return the states that node runs of a run have."""

    def attempt(self, attempt_id: str) -> Attempt:
        """Return an attempt; NotFound."""

    def output(self, attempt_id: str, stream: Stream, *, offset: int = 0) -> bytes:
        """Return what is kept of a stream, live or ended, from an offset on."""

    def gate(self, gate_id: str) -> Gate:
        """Return a gate; NotFound."""

    def gates(self, state: GateState | None, *, cursor: str | None, limit: int) -> Page[Gate]:
        """Return gates, newest first."""

    def hold(self, node: str) -> Hold | None:
        """Return the hold on a node, past ones left out by the caller's clock."""

    def holds(self) -> tuple[Hold, ...]:
        """Return every hold that was not released."""

    def token_by_sha256(self, digest: str) -> Token | None:
        """Return the token with this digest."""

    def tokens(self) -> tuple[Token, ...]:
        """Return every token."""

    def audit(self, which: AuditFilter, *, cursor: str | None, limit: int) -> Page[AuditEvent]:
        """Return audit events, newest first."""

    def audit_after(self, seq: int, *, run_id: str | None, limit: int) -> tuple[AuditEvent, ...]:
        """Return audit events with a greater seq, oldest first."""


class Transaction(Reader, AlertWriter, NoticeWriter, SessionWriter, SweepWriter, Protocol):
    """Reads and writes, in one piece."""

    def append(self, fact: Fact) -> None:
        """Append a fact to the audit; it gets its place in the chain at commit."""

    def add_run(self, run: Run, *, source: RunbookSource, plan: Plan, node_runs: Sequence[NodeRun]) -> None:
        """Add a run with its plan; Conflict when the idempotency key was used."""

    def claim(self, node_run_id: str, *, owner: str, now: datetime) -> NodeRun | None:
        """Take a due and unclaimed open node run, with epoch + 1; None when somebody was faster."""

    def take_from(self, node_run: NodeRun, *, owner: str) -> NodeRun | None:
        """Take the claim of an owner that is gone, with epoch + 1; None when it has changed hands."""

    def save_node_run(self, node_run: NodeRun) -> None:
        """Write a node run whose epoch is still the given one; EpochLost.

        Raises Conflict when another acting node run has the node.
        """

    def release(self, node_run: NodeRun) -> None:
        """Write a node run and give up its claim; EpochLost."""

    def add_attempt(self, attempt: Attempt) -> None:
        """Add an attempt."""

    def save_attempt(self, attempt: Attempt) -> None:
        """Write an attempt."""

    def add_output(self, chunk: OutputChunk) -> None:
        """Keep some output; bytes that are there already are left as they are."""

    def seal_output(self, attempt_id: str) -> str:
        """Turn the output of an ended attempt into one blob, stdout before stderr; return its SHA-256."""

    def drop_outputs(self, before: datetime, *, limit: int) -> int:
        """Drop the oldest outputs that were sealed before a time, say so in the audit, and return how many."""

    def add_gate(self, gate: Gate) -> None:
        """Add a gate."""

    def save_gate(self, gate: Gate) -> None:
        """Write a gate that is open; Conflict when it was decided meanwhile.

        An approved gate may still become void.
        """

    def add_resolution(self, resolution: Resolution) -> None:
        """Add what a person said of a stuck node run."""

    def put_hold(self, hold: Hold) -> None:
        """Hold a node, in place of an earlier hold."""

    def remove_hold(self, node: str) -> None:
        """Release a node."""

    def request_cancel(self, node_run_id: str, *, by: str, reason: str) -> None:
        """Note that a person wants an open node run to end; needs no claim."""

    def wake(self, node_run_ids: Sequence[str], *, at: datetime) -> None:
        """Make open node runs due at a time, needs no claim."""

    def add_token(self, token: Token) -> None:
        """Add a token; Conflict when the name is taken."""

    def save_token(self, token: Token) -> None:
        """Write a token."""


class Store(Protocol):
    """The record. `write` is the only way to change it, and returns when it is durable."""

    def write(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in a transaction and return what it returns, once committed.

        It may be run again after it was undone, so it does nothing but use its argument. What it
        raises undoes all of it and comes back. Unavailable when it cannot be written.
        """

    def read(self, look: Callable[[Reader], T]) -> T:
        """Run `look` on one consistent state."""

    def audit_events(self) -> Iterator[AuditEvent]:
        """Yield the whole chain from seq 1 on, in bounded memory."""

    def close(self) -> None:
        """Stop writing."""
