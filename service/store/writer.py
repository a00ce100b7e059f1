"""The one writer of a process: many changes share one commit, and each is undone by itself.

Several sessions that write at once are slow on SQLite and need care on PostgreSQL; one thread that
takes what has queued up makes one fsync of it (group commit). A change runs in a savepoint. What it
raises undoes it and goes back to its caller; its neighbours are committed.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.app.ports import Clock
from service.domain.audit import Fact
from service.domain.errors import BrokenRule, Unavailable, UnstickError
from service.store.audit import extend_chain
from service.store.faults import Fault, fault_of, refusal, unavailable
from service.store.transaction import SqlTransaction

T = TypeVar("T")

#: Changes in one transaction: enough to share an fsync among all callers, few enough to keep locks short.
BATCH = 64
#: How long a write waits for a lock or for the server before it is refused.
PATIENCE = timedelta(seconds=4)


@dataclass(eq=False)
class _Pending(Generic[T]):
    """A change on its way, and what became of it."""

    change: Callable[[SqlTransaction], T]
    result: T | None = None
    error: BaseException | None = None
    facts: Sequence[Fact] = ()
    settled: threading.Event = field(default_factory=threading.Event)

    def refuse(self, error: BaseException) -> None:
        self.error = error
        self.settled.set()


class _CommitFailedError(Exception):
    """The commit itself failed; the error of the database is its cause."""


class Writer:
    """Takes changes from any thread and commits them in its own."""

    def __init__(self, engine: Engine, *, clock: Clock, patience: timedelta = PATIENCE) -> None:
        """Start the thread. The engine's transactions must lock at their beginning on SQLite."""
        self._engine = engine
        self._clock = clock
        self._patience = patience.total_seconds()
        self._queue: queue.SimpleQueue[_Pending[Any] | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="store-writer", daemon=True)
        self._thread.start()

    def write(self, change: Callable[[SqlTransaction], T]) -> T:
        """Run a change and return what it returns, once it is durable; what it raises comes back.

        Raises Unavailable when it cannot be written, BrokenRule inside another write.
        """
        self.refuse_inside()
        pending = _Pending(change)
        with self._gate:
            if self._closed:
                raise Unavailable(
                    "The service is stopping; nothing was recorded.", "Ask again when it is back: /readyz says so."
                )
            self._queue.put(pending)
        pending.settled.wait()
        if pending.error is not None:
            raise pending.error
        return cast(T, pending.result)

    def refuse_inside(self) -> None:
        """Raise BrokenRule in the writer's own thread, where waiting for it would never end."""
        if threading.current_thread() is self._thread:
            raise BrokenRule("The store was asked inside a write.", "Use the transaction that the write was given.")

    def close(self) -> None:
        """Commit what has been accepted, then stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        while True:
            batch, more = self._next_batch()
            if batch:
                self._settle(batch, deadline=time.monotonic() + self._patience)
            if not more:
                return

    def _next_batch(self) -> tuple[list[_Pending[Any]], bool]:
        batch: list[_Pending[Any]] = []
        while len(batch) < BATCH:
            try:
                pending = self._queue.get(block=not batch)
            except queue.Empty:
                break
            if pending is None:
                return batch, False
            batch.append(pending)
        return batch, True

    def _settle(self, batch: Sequence[_Pending[Any]], *, deadline: float) -> None:
        """Play a batch until it is committed, or tell each caller that it cannot be."""
        while True:
            try:
                self._play(batch, deadline=deadline)
            except _CommitFailedError as lost:
                _refuse(batch, cast(SQLAlchemyError, lost.__cause__), committing=True)
                return
            except SQLAlchemyError as error:
                fault = fault_of(error)
                if time.monotonic() >= deadline or (len(batch) == 1 and fault not in (Fault.CONTENTION, Fault.GONE)):
                    _refuse(batch, error)
                    return
                if len(batch) > 1 and fault is not Fault.GONE:
                    for pending in batch:
                        self._settle([pending], deadline=deadline)
                    return
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - apart from the other process, not secret
            else:
                for pending in batch:
                    pending.settled.set()
                return

    def _play(self, batch: Sequence[_Pending[Any]], *, deadline: float) -> None:
        with self._engine.connect() as connection:
            self._begin(connection, deadline=deadline)
            for pending in batch:
                self._play_one(connection, pending)
            facts = [fact for pending in batch for fact in pending.facts]
            extend_chain(connection, facts, at=self._clock.now())
            try:
                connection.commit()
            except SQLAlchemyError as error:
                raise _CommitFailedError from error

    def _begin(self, connection: Connection, *, deadline: float) -> None:
        while True:
            try:
                connection.begin()
            except SQLAlchemyError as error:
                if fault_of(error) is not Fault.CONTENTION or time.monotonic() >= deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.004))  # noqa: S311 - see above
            else:
                return

    def _play_one(self, connection: Connection, pending: _Pending[Any]) -> None:
        transaction = SqlTransaction(connection, clock=self._clock)
        pending.result, pending.facts = None, ()
        # Plain text: SQLAlchemy's own savepoints are compiled anew each time, a third of a small change's cost.
        connection.exec_driver_sql("SAVEPOINT change")
        with _Caught() as caught:
            pending.result = pending.change(transaction)
        pending.error = caught.error
        if isinstance(caught.error, SQLAlchemyError):
            if fault_of(caught.error) is not Fault.REFUSED:
                raise caught.error
            pending.error = _because(refusal(caught.error), caught.error)
        if pending.error is None:
            connection.exec_driver_sql("RELEASE SAVEPOINT change")
            pending.facts = transaction.facts
        else:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT change")
            connection.exec_driver_sql("RELEASE SAVEPOINT change")


class _Caught:
    """Keeps whatever a change raises for the thread that asked for it; it is raised again there."""

    error: BaseException | None = None

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return error is not None


def _refuse(batch: Sequence[_Pending[Any]], error: SQLAlchemyError, *, committing: bool = False) -> None:
    for pending in batch:
        pending.refuse(_because(unavailable(error, committing=committing), error))


def _because(refused: UnstickError, cause: SQLAlchemyError) -> UnstickError:
    refused.__cause__ = cause
    return refused
