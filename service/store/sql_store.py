"""The store: one writer, many readers, one database."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from service.app.ports import Clock, Reader, Transaction
from service.domain.agreement import Compared, RowFault
from service.domain.audit import AuditEvent
from service.store import agreement, audit
from service.store.faults import Fault, fault_of, refusal, unavailable
from service.store.locks import EngineLock
from service.store.migrate import require_current
from service.store.reader import SqlReader
from service.store.session import Database, open_database
from service.store.writer import Writer

T = TypeVar("T")


class SqlStore:
    """The record, on SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        """Begin to write; the tables are those of this version."""
        self._database = database
        self._writer = Writer(database.writer, clock=clock)

    @classmethod
    def open(cls, url: str, clock: Clock, *, lock: EngineLock | None = None) -> "SqlStore":
        """Open a database. SQLite is migrated (under the engine's lock, unless the caller has it).

        Raises ConfigInvalid for a URL or file that cannot be used, Conflict when the database is
        of another version, Unavailable when it does not answer.
        """
        require_current(url, lock=lock)
        return cls(open_database(url), clock=clock)

    def write(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in a transaction and return what it returns, once committed.

        `change` runs in the writer's thread beside those of others, and again when the database
        made it lose: it does nothing but use its argument. What it raises undoes it and comes back.
        Raises Unavailable when it cannot be written, BrokenRule inside another write.
        """
        return self._writer.write(change)

    def read(self, look: Callable[[Reader], T]) -> T:
        """Run `look` on one consistent state; again, once, when the server was restarted meanwhile."""
        self._writer.refuse_inside()
        try:
            return self._look(look)
        except SQLAlchemyError as error:
            match fault_of(error):
                case Fault.REFUSED:
                    raise refusal(error) from error
                case Fault.GONE:
                    return self._look_again(look)
                case _:
                    raise unavailable(error) from error

    def audit_events(self) -> Iterator[AuditEvent]:
        """Yield the chain from seq 1 to its present end, in bounded memory."""
        try:
            yield from audit.events(self._database.reader)
        except SQLAlchemyError as error:
            raise unavailable(error) from error

    def row_faults(self, compared: Compared) -> Iterator[RowFault]:
        """Yield each row of a run, node run or gate that differs from what the events say; count what was compared."""
        try:
            yield from agreement.faults(self._database.reader, compared)
        except SQLAlchemyError as error:
            raise unavailable(error) from error

    def drop_outputs(self, before: datetime, *, batch: int = 50) -> int:
        """Drop the outputs that were sealed before a time, in small transactions; return how many.

        The audit keeps all it had, and says what was dropped.
        """
        dropped = 0
        while found := self._writer.write(lambda transaction: transaction.drop_outputs(before, limit=batch)):
            dropped += found
        return dropped

    def close(self) -> None:
        """Commit what was accepted, then stop writing."""
        self._writer.close()
        self._database.close()

    def _look(self, look: Callable[[Reader], T]) -> T:
        with self._database.reader.connect() as connection, connection.begin():
            return look(SqlReader(connection))

    def _look_again(self, look: Callable[[Reader], T]) -> T:
        try:
            return self._look(look)
        except SQLAlchemyError as error:
            raise unavailable(error) from error
