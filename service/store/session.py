"""Engines: how connections are opened, and the promises that are checked when they are."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.domain.errors import ConfigInvalid
from service.domain.known_secrets import KNOWN

#: Readers wait this long for SQLite, which only makes them when a log is recovered or reset.
_READER_PATIENCE_MS = 4000
#: The writer asks again by itself: SQLite's own back-off sleeps up to 100 ms and starves beside a busy process.
_WRITER_PATIENCE_MS = 20
_SYNCHRONOUS_FULL = 2
# A paused process must not keep the others from writing: the server ends its transaction.
_POSTGRES_SETTINGS = (
    "SET timezone = 'UTC'",
    "SET synchronous_commit = 'on'",
    "SET lock_timeout = '3s'",
    "SET idle_in_transaction_session_timeout = '5s'",
)


@dataclass(frozen=True)
class Database:
    """The two ways to one database: the writer has a single connection, readers have many."""

    url: URL
    writer: Engine
    reader: Engine

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.writer.dispose()
        self.reader.dispose()


def open_database(url: str) -> Database:
    """Make the engines; a SQLite file is made when there is none, for its owner alone.

    Raises ConfigInvalid when the URL or the file cannot be used. Nothing is asked of a server yet; the first
    connection raises ConfigInvalid when its database has another encoding than UTF8.
    """
    parsed = parse_url(url)
    if is_sqlite(parsed):
        protect_file(sqlite_file(parsed))
        return Database(parsed, _sqlite_engine(parsed, writes=True), _sqlite_engine(parsed, writes=False))
    return Database(parsed, _postgres_engine(parsed, writes=True), _postgres_engine(parsed, writes=False))


def parse_url(url: str) -> URL:
    """Read the URL of a database; ConfigInvalid for one that the service does not work on."""
    way_out = "Set UNSTICK_DATABASE_URL to sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME."
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigInvalid("The database URL cannot be read.", way_out) from error
    KNOWN.learn(str(parsed.password or ""), *(str(one) for one in (parsed.query.get("password"),) if one))
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if not parsed.database or parsed.database.startswith(":") or parsed.query:
            raise ConfigInvalid("SQLite needs a file, and nothing behind its name.", way_out)
        return parsed
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigInvalid(f"There is no store for {parsed.drivername}.", way_out)


def is_sqlite(url: URL) -> bool:
    """Whether the database is a file of this machine."""
    return url.get_backend_name() == "sqlite"


def sqlite_file(url: URL) -> Path:
    """Return the file of a SQLite database, under one name however many links lead to it."""
    # Unlike Path.resolve it raises nothing for links that go in a circle; whoever opens the file is told.
    return Path(os.path.realpath(url.database or ""))


def protect_file(path: Path) -> None:
    """Make the file when there is none, and take it from everybody but its owner; ConfigInvalid when it cannot be."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigInvalid(
            f"The database file {path} cannot be opened: {error.strerror}.", "Check the folder and its owner."
        ) from error
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
    except PermissionError as error:
        raise ConfigInvalid(f"Others may read {path}, and it is not ours.", f"chmod 0600 {path}") from error
    finally:
        os.close(descriptor)


def insist_on_utf8(engine: Engine) -> None:
    """Let each new connection raise ConfigInvalid when the database of PostgreSQL has another encoding.

    One in SQL_ASCII takes any bytes and gives text back as bytes; one in LATIN1 takes no other letters.
    """

    def look(connection: Any, _record: Any) -> None:
        # The server says it unasked (protocol-flow, "ParameterStatus" in PostgreSQL's manual); a pooler may not.
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in (None, "UTF8"):
            name = connection.info.dbname
            connection.close()
            raise ConfigInvalid(
                f"The database {name} has the encoding {encoding}; the record needs UTF8.",
                f"Make another and name it in UNSTICK_DATABASE_URL: createdb -E UTF8 -T template0 {name}_utf8",
            )

    # First of all, since SQLAlchemy itself asks for text when it has a connection.
    event.listen(engine, "connect", look, insert=True)


def _sqlite_engine(url: URL, *, writes: bool) -> Engine:
    patience = _WRITER_PATIENCE_MS if writes else _READER_PATIENCE_MS
    pool: dict[str, Any] = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 8, "max_overflow": 56}
    engine = create_engine(url, **pool, connect_args={"timeout": patience / 1000, "check_same_thread": False})

    def connect(connection: Any, _record: Any) -> None:
        # Otherwise the driver begins by itself, late and deferred, and a read that turns into a write is locked out.
        connection.isolation_level = None
        _set_pragmas(connection, patience=patience, writes=writes)

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)
    return engine


def _set_pragmas(connection: Any, *, patience: int, writes: bool) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {patience}")
    mode = cursor.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.execute("PRAGMA journal_size_limit = 67108864")
    synchronous = cursor.execute("PRAGMA synchronous").fetchone()[0]
    foreign_keys = cursor.execute("PRAGMA foreign_keys").fetchone()[0]
    if not writes:
        cursor.execute("PRAGMA query_only = ON")
    cursor.close()
    if (mode, synchronous, foreign_keys) != ("wal", _SYNCHRONOUS_FULL, 1):
        raise ConfigInvalid(
            f"SQLite did not take its settings (journal_mode {mode}, synchronous {synchronous}, "
            f"foreign_keys {foreign_keys}), so nothing would be safe.",
            "Put the database on a local file system, or use PostgreSQL.",
        )


def _postgres_engine(url: URL, *, writes: bool) -> Engine:
    # A dead server must be noticed inside the budget of a write; times in seconds, tcp_user_timeout in ms.
    patience = {"connect_timeout": 3, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    named: dict[str, Any] = patience | {"tcp_user_timeout": 5000, "application_name": "unstick"}
    for name in url.query:
        named.pop(name, None)
    pool: dict[str, Any] = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 8, "max_overflow": 24}
    engine = create_engine(
        url,
        **pool,
        pool_timeout=5,
        connect_args=named,
        isolation_level="READ COMMITTED" if writes else "REPEATABLE READ",
        execution_options={} if writes else {"postgresql_readonly": True},
    )

    def connect(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute("; ".join(_POSTGRES_SETTINGS))
        connection.autocommit = False

    insist_on_utf8(engine)
    event.listen(engine, "connect", connect)
    return engine
