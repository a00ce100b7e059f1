"""Values for tests of the store, and ways to look at the database behind its back."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from service.app.ports import RunbookSource, Transaction
from service.domain.audit import Fact
from service.domain.plan import Plan, PlannedScript
from service.domain.run import (
    Attempt,
    AttemptState,
    Gate,
    GateState,
    NodeRun,
    NodeRunState,
    Run,
    Trigger,
    TriggerKind,
)
from service.domain.runbook import ApprovalKind, Runbook
from service.domain.script import ScriptKind, sha256
from service.store.sql_store import SqlStore

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOURCE = RunbookSource("free-gpu", "name: free-gpu\n", "helper() { :; }\n", "abc123")


class TestClock:
    """A clock that goes on by a millisecond each time it is read, and counts ids."""

    __test__ = False

    def __init__(self) -> None:
        """Begin at noon."""
        self._ticks = itertools.count()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return NOON + timedelta(milliseconds=next(self._ticks))

    def new_id(self) -> str:
        with self._lock:
            return f"id-{next(self._ids)}"


def run(run_id: str = "r1", *, at: datetime = NOON, **changed: Any) -> Run:
    made = Run(
        id=run_id,
        runbook="free-gpu",
        digest="d" * 64,
        dry_run=False,
        requested_by="ann",
        requesters=("ann", "bob"),
        trigger=Trigger(TriggerKind.PERSON),
        params={"hold_seconds": 30, "force": False, "why": "stück"},
        created_at=at,
    )
    return replace(made, **changed)


def node_run(run_id: str = "r1", node: str = "gpu-01", **changed: Any) -> NodeRun:
    made = NodeRun(
        id=f"{run_id}-{node}",
        run_id=run_id,
        node=node,
        state=NodeRunState.QUEUED,
        position=0,
        dry_run=False,
        acts=True,
        runbook="free-gpu",
        created_at=NOON,
        wake_at=NOON,
        attributes={"name": node, "pools": ["h100"]},
    )
    return replace(made, **changed)


def attempt(node_run_id: str = "r1-gpu-01", number: int = 1, **changed: Any) -> Attempt:
    made = Attempt(
        id=f"{node_run_id}-a{number}",
        node_run_id=node_run_id,
        step="abort",
        kind=ScriptKind.CHECK,
        number=number,
        round=1,
        state=AttemptState.INTENDED,
        intended_at=NOON,
        script_sha256=sha256("script"),
    )
    return replace(made, **changed)


def gate(node_run_id: str = "r1-gpu-01", *, round_: int = 1, **changed: Any) -> Gate:
    made = Gate(
        id=f"{node_run_id}-g{round_}",
        run_id=node_run_id.partition("-")[0],
        node_run_id=node_run_id,
        node=node_run_id.partition("-")[2],
        step="abort",
        round=round_,
        kind=ApprovalKind.CONFIRM,
        state=GateState.OPEN,
        digest="e" * 64,
        boot_id="boot-1",
        targets=("42", "43"),
        opened_at=NOON,
        expires_at=NOON + timedelta(hours=1),
        check_attempt_id=f"{node_run_id}-a1",
    )
    return replace(made, **changed)


def plan(nodes: Sequence[str] = ("gpu-01",)) -> Plan:
    book = Runbook("free-gpu", "Free", "ops", "Frees it.", (), file_sha256="f" * 64)
    scripts = tuple(
        PlannedScript(node, "abort", kind, "node", f"echo {kind} ü\n", sha256(f"echo {kind} ü\n"))
        for node in nodes
        for kind in ScriptKind
    )
    return Plan(book, tuple(nodes), {}, scripts, "c" * 64, {"k8s-a": {"KUBECONFIG": "/k"}}, "d" * 64)


def fact(number: int = 0, **changed: Any) -> Fact:
    return replace(Fact("node.held", f"node/{number}", "ann", node="gpu-01", body={"n": number}), **changed)


def add(store: SqlStore, made: Run, *node_runs: NodeRun) -> None:
    """Add a run with these node runs, or with one on gpu-01."""
    parts = node_runs or (node_run(made.id),)
    planned = plan([part.node for part in parts])
    store.write(lambda transaction: transaction.add_run(made, source=SOURCE, plan=planned, node_runs=parts))


def append(store: SqlStore, *facts: Fact) -> None:
    def record(transaction: Transaction) -> None:
        for one in facts:
            transaction.append(one)

    store.write(record)


@contextmanager
def behind(url: str) -> Iterator[Connection]:
    """Give a connection past the store, which commits at the end."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


class Together:
    """Holds the writer up until several changes wait for it, so that they share one batch."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._let_go = threading.Event()
        self._begun = threading.Event()
        self._threads: list[threading.Thread] = []
        self.outcomes: dict[str, Any] = {}

    def __enter__(self) -> "Together":
        def wait(_: Transaction) -> None:
            self._begun.set()
            assert self._let_go.wait(60)

        self._start("", wait)
        assert self._begun.wait(60)
        return self

    def add(self, name: str, change: Any) -> None:
        self._start(name, change)
        writer = self._store._writer
        while writer._queue.qsize() < len(self._threads) - 1:
            self._let_go.wait(0.001)

    def __exit__(self, *_: object) -> None:
        self._let_go.set()
        for thread in self._threads:
            thread.join(60)

    def _start(self, name: str, change: Any) -> None:
        thread = threading.Thread(target=self._write, args=(name, change))
        self._threads.append(thread)
        thread.start()

    def _write(self, name: str, change: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self._store.write, change)
            self.outcomes[name] = asked.exception() or asked.result()
