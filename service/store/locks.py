"""The lock of the engine: one service at a time acts on a database."""

import fcntl
import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from service.domain.errors import ConfigInvalid, Conflict
from service.store.faults import unavailable
from service.store.session import insist_on_utf8, is_sqlite, parse_url, sqlite_file

#: The first half of every advisory lock of ours on PostgreSQL: `unst` in ASCII.
SPACE = 0x756E7374
#: The second halves.
CHAIN, ENGINE, MIGRATION = 1, 2, 3
#: The first half of locks on the names of nodes and runbooks.
NAMES = SPACE + 1

_WAY_OUT = "Stop that process first, or work on another database."


class EngineLock(Protocol):
    """Held while a service acts on a database; goes with the process, however it ends."""

    def still_held(self) -> bool:
        """Whether nobody else can have it; False once the database has closed the session that held it."""

    def release(self) -> None:
        """Give it up."""


def acquire(url: str, *, name: str, wait: timedelta = timedelta(0)) -> EngineLock:
    """Take the lock of the engine for what `name` says (`serve`, `worker`, `migrate`).

    Raises Conflict, which says who has it, after waiting in vain; Unavailable without a database, ConfigInvalid
    for one that cannot be used.
    """
    parsed = parse_url(url)
    if is_sqlite(parsed):
        return _FileLock(Path(f"{sqlite_file(parsed)}.lock"), name=name, wait=wait)
    engine = create_engine(
        parsed, poolclass=NullPool, connect_args={"connect_timeout": 5}, isolation_level="AUTOCOMMIT"
    )
    insist_on_utf8(engine)
    try:
        return _SessionLock(engine, name=name, wait=wait)
    except SQLAlchemyError as error:
        raise unavailable(error) from error


class _FileLock:
    """`flock` on a file beside the database; the kernel drops it when the process is gone."""

    def __init__(self, path: Path, *, name: str, wait: timedelta) -> None:
        """Take it; Conflict."""
        deadline = time.monotonic() + wait.total_seconds()
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigInvalid(f"{path} cannot be opened: {error.strerror}.", "Check the folder.") from error
        while not self._try():
            if time.monotonic() >= deadline:
                holder = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                os.close(self._descriptor)
                raise Conflict(f"{path.name.removesuffix('.lock')} is in use by {holder}.", _WAY_OUT)
            time.sleep(0.05)
        # The words are for people; the lock itself is the kernel's. A full disk must not hinder it.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"unstick {name} (pid {os.getpid()})\n".encode(), 0)

    def still_held(self) -> bool:
        """Return True until it is released: a file lock is not lost."""
        return self._descriptor >= 0

    def release(self) -> None:
        """Give it up; the file stays, since removing it would race with the next one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _try(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class _SessionLock:
    """An advisory lock of a session that is kept open for nothing else."""

    def __init__(self, engine: Engine, *, name: str, wait: timedelta) -> None:
        """Take it; Conflict."""
        self._engine = engine
        self._connection: Connection | None = engine.connect()
        try:
            self._take(self._connection, name=name, wait=wait)
        except (SQLAlchemyError, Conflict):
            self.release()
            raise

    def still_held(self) -> bool:
        """Ask the session that holds it; False for ever once the session was lost."""
        if self._connection is None:
            return False
        try:
            self._connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            self.release()
            return False
        return True

    def release(self) -> None:
        """End the session, and the lock with it."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(SQLAlchemyError):
                connection.close()
            self._engine.dispose()

    def _take(self, connection: Connection, *, name: str, wait: timedelta) -> None:
        label = f"unstick {name} (pid {os.getpid()})"
        connection.execute(text("SELECT set_config('application_name', :name, false)"), {"name": label})
        deadline = time.monotonic() + wait.total_seconds()
        while not self._try(connection):
            if time.monotonic() >= deadline:
                raise Conflict(f"{self._engine.url.database} is in use by {self._holder(connection)}.", _WAY_OUT)
            time.sleep(0.1)

    @staticmethod
    def _try(connection: Connection) -> bool:
        query = text("SELECT pg_try_advisory_lock(:space, :engine)")
        return bool(connection.execute(query, {"space": SPACE, "engine": ENGINE}).scalar())

    @staticmethod
    def _holder(connection: Connection) -> str:
        query = text(
            "SELECT application_name, coalesce(host(client_addr), 'this machine') AS address FROM pg_locks"
            " JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted"
            " AND classid::bigint = :space AND objid::bigint = :engine"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        row = connection.execute(query, {"space": SPACE, "engine": ENGINE}).first()
        return "another process" if row is None else f"{row.application_name} from {row.address}"
