"""The real service without its web: a real store, real use cases, and executors that a test chooses."""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from service.app.decide import Decision, decide
from service.app.drive import drive
from service.app.guard import GuardedExecutor
from service.app.load_runbooks import RunbookFolder
from service.app.ports import Executor, Executors
from service.app.request_run import RunRequest, request_run
from service.app.service import Service
from service.domain.agreement import Compared
from service.domain.audit import first_fault
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.person import Person, Role
from service.domain.run import Gate, GateState, History, NodeRun, NodeRunState, Run, StepOutcome
from service.domain.script import Stream, sha256
from service.executors.envelope import node_runner
from service.executors.scripted import ScriptedExecutor
from service.store.sql_store import SqlStore
from tests.support.database import prepare

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
#: It only stops a hang of a run on a real node.
PATIENCE = 240.0
OPERATOR = Person("operator", frozenset({Role.OPERATOR}))
SECOND = Person("second", frozenset({Role.APPROVER}))
#: The same person with a token that requests and holds, too.
ON_CALL = Person("second", frozenset({Role.OPERATOR, Role.APPROVER}))


class SteppedClock:
    """A clock that a test moves; each question adds a millisecond, so that no two moments are the same."""

    def __init__(self, start: datetime = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)) -> None:
        """Begin at a moment."""
        self.at = start
        self._ids = itertools.count(1)

    def now(self) -> datetime:
        """Return the time."""
        self.at += timedelta(milliseconds=1)
        return self.at

    def new_id(self) -> str:
        """Return the next id."""
        return f"id{next(self._ids):06d}"


class RealClock:
    """The machine's clock."""

    def __init__(self) -> None:
        """Number ids from one."""
        self._ids = itertools.count(1)
        self._begun = datetime.now(UTC).strftime("%H%M%S%f")

    def now(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC)

    def new_id(self) -> str:
        """Return an id that no other world of this machine gives."""
        return f"t{self._begun}x{next(self._ids):04d}"


@dataclass
class FixedInventory:
    """An inventory that a test writes down."""

    inventory: Inventory

    def current(self) -> Inventory:
        """Return it."""
        return self.inventory


@dataclass
class OneExecutor:
    """The same executor for every endpoint, behind the guard."""

    executor: Executor

    def of(self, endpoint: Endpoint) -> Executor:
        """Return it."""
        return GuardedExecutor(self.executor)

    def close(self) -> None:
        """Close it."""
        self.executor.close()


def local_nodes(
    *names: str, view: View = View.PRIVATE, attributes: Mapping[str, str] | None = None, pool: str = "lab"
) -> Inventory:
    """Return an inventory of nodes that this machine plays, each with a controller."""
    nodes = {}
    for name in names:
        endpoint = Endpoint(name, ExecutorKind.LOCAL, name, view=view)
        nodes[name] = Node(name, endpoint, (pool,), "head", dict(attributes or {}))
    head = Controller("head", Endpoint("head", ExecutorKind.LOCAL, "head", view=view), {"CLUSTER": "lab"})
    return Inventory(nodes, {"head": head})


def outcomes(node_run: NodeRun) -> dict[str, StepOutcome | None]:
    """Return the outcome of each step."""
    return {result.step: result.outcome for result in node_run.results}


@dataclass
class World:
    """One service and the hands of its persons."""

    service: Service
    clock: SteppedClock | RealClock
    #: The scripted executor behind it, where a test has one.
    scripted: ScriptedExecutor = field(default_factory=lambda: ScriptedExecutor({}))

    @classmethod
    def build(
        cls,
        url: str,
        executor: Executor | Executors,
        *,
        inventory: Inventory,
        runbooks: Path = RUNBOOKS,
        clock: SteppedClock | RealClock | None = None,
    ) -> "World":
        """Build a service on a database."""
        chosen = clock or SteppedClock()
        executors = cast(Executors, executor) if hasattr(executor, "of") else OneExecutor(executor)
        service = Service(
            store=SqlStore.open(prepare(url), chosen),
            runbooks=RunbookFolder(runbooks),
            inventory=FixedInventory(inventory),
            executors=executors,
            clock=chosen,
            envelope_sha256=sha256(node_runner()),
            service_id="tests",
        )
        return cls(service, chosen)

    def request(self, runbook: str, *nodes: str, person: Person = OPERATOR, **more: object) -> Run:
        """Request a run."""
        request = RunRequest(runbook, person.name, tuple(nodes), **more)  # type: ignore[arg-type]
        return request_run(self.service, request, person=person)

    def step(self) -> bool:
        """Drive every node run that is due; False when none was."""
        store, now = self.service.store, self.clock.now()
        due = store.read(lambda reader: reader.due(now, limit=100))
        for node_run in due:
            claimed = store.write(_claimer(node_run, now))
            if claimed is not None:
                drive(self.service, claimed)
        return bool(due)

    def settle(self, *, past_waits: bool = True) -> None:
        """Drive until nothing is due any more; a stepped clock jumps over waits, not over open gates."""
        for _ in range(2000):
            if self.step():
                continue
            at = self.service.store.read(lambda reader: reader.next_wake())
            if at is None or not past_waits or isinstance(self.clock, RealClock) or self._only_gates():
                return
            self.clock.at = max(self.clock.at, at)
        raise AssertionError("it does not come to rest")

    def play(self, run: Run, *, approve: bool = True, by: Person = SECOND, deny: tuple[str, ...] = ()) -> list[NodeRun]:
        """Drive a run to its end, answering each gate as it opens."""
        for _ in range(100):
            self.settle()
            gates = [gate for gate in self.open_gates() if gate.run_id == run.id]
            if not gates or not approve:
                break
            for gate in gates:
                self.answer(gate, by=by, approve=gate.step not in deny)
        return self.node_runs(run)

    def play_to_end(self, run: Run) -> NodeRun:
        """Answer every gate and wait, by the real clock, until the first node run has ended or is stuck."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            node_run = self.play(run)[0]
            if node_run.state.ended or node_run.state is NodeRunState.STUCK:
                return node_run
            time.sleep(0.2)
        raise AssertionError(f"it does not end: {node_run}")

    def answer(self, gate: Gate, *, by: Person = SECOND, approve: bool = True, reason: str = "seen") -> Gate:
        """Answer one gate."""
        return decide(self.service, Decision(gate.id, gate.digest, approve, reason), person=by)

    def open_gates(self) -> list[Gate]:
        """Return the open gates."""
        page = self.service.store.read(lambda reader: reader.gates(GateState.OPEN, cursor=None, limit=200))
        return list(page.items)

    def node_runs(self, run: Run) -> list[NodeRun]:
        """Return the node runs of a run."""
        return list(self.service.store.read(lambda reader: reader.node_runs(run.id)))

    def history(self, node_run: NodeRun) -> History:
        """Return the record of a node run."""
        return self.service.store.read(lambda reader: reader.history(node_run.id))

    def told(self, node_run: NodeRun) -> str:
        """Return what the record holds of a node run: for a test that failed, to say why."""
        lines = [f"{node_run.state} {node_run.verdict}: {node_run.reason}"]
        for one in self.history(node_run).attempts:
            lines.append(f"{one.step} {one.kind} {one.state} exit {one.exit_code} {one.reason}")
            for stream in (Stream.STDOUT, Stream.STDERR):
                output = self.service.store.read(lambda reader, a=one.id, s=stream: reader.output(a, s))  # type: ignore[misc]
                lines += [f"  {line}" for line in output.decode(errors="replace")[-3000:].splitlines()]
        return "\n".join(lines)

    def facts(self, run: Run) -> list[str]:
        """Return the actions of the audit events of a run, in order."""
        events = self.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=10_000))
        return [event.fact.action for event in events]

    def chain_holds(self) -> bool:
        """Whether the audit chain is whole, and the rows of runs say what it says."""
        store = self.service.store
        rows = [*store.row_faults(Compared())] if isinstance(store, SqlStore) else []
        return first_fault(store.audit_events()) is None and rows == []

    def move_to(self, moment: datetime) -> None:
        """Move a stepped clock."""
        assert isinstance(self.clock, SteppedClock)
        self.clock.at = moment

    def close(self) -> None:
        """Close store and executors."""
        self.service.executors.close()
        self.service.store.close()

    def _only_gates(self) -> bool:
        at = self.service.store.read(lambda reader: reader.next_wake())
        return any(gate.expires_at == at for gate in self.open_gates())


def _claimer(node_run: NodeRun, now: datetime):  # type: ignore[no-untyped-def]
    return lambda transaction: transaction.claim(node_run.id, owner="tests", now=now)
