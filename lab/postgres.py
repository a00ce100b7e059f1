"""A PostgreSQL server of one's own: Debian's binaries, a temporary folder, a free port on loopback.

The distribution's own cluster is neither used nor started.
"""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from lab import leftovers
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.ports import free_port
from lab.process import Process, wait_until

BINARIES = Path("/usr/lib/postgresql")
ADMINISTRATOR = "postgres"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # in the data folder, which goes away with the server
    "log_timezone": "UTC",
    "timezone": "UTC",
}
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
ATTEMPTS = 5


class Postgres(Closing):
    """One running server; the fsyncs are off unless it is made `durable` (for what measures commits)."""

    def __init__(self, *, durable: bool = False) -> None:
        """Make the data folder and start the server; RuntimeError with its log if it does not come up."""
        self._name = f"postgres-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = leftovers.run_folder() / self._name
        self._record = guarded_record(self._name)
        self._record.folders.append(str(self._folder))
        self._record.save()
        self._password = secrets.token_hex(16)
        self._settings = SETTINGS if durable else SETTINGS | NOT_DURABLE
        self._as_owner = []
        self._folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            # The server refuses to run as root.
            self._as_owner = ["setpriv", f"--reuid={ADMINISTRATOR}", f"--regid={ADMINISTRATOR}", "--clear-groups", "--"]
            shutil.chown(self._folder, user=ADMINISTRATOR, group=ADMINISTRATOR)
        self._init()
        for remaining in reversed(range(ATTEMPTS)):
            self.port = free_port()
            self._server = self._start()
            if self._answers():
                return
            if remaining == 0:
                reason = (self._folder / "log").read_text()[-2000:]
                self.close()
                raise RuntimeError(f"PostgreSQL did not start: {reason}")

    @property
    def data(self) -> Path:
        """Give the data folder."""
        return self._folder / "data"

    def url(self, database: str = "postgres") -> str:
        """Give the address of a database as SQLAlchemy reads it."""
        return f"postgresql+psycopg://{ADMINISTRATOR}:{self._password}@127.0.0.1:{self.port}/{database}"

    def create(self, *, template: str = "template0", encoding: str = "UTF8") -> str:
        """Create a fresh database and return its address; `template` names one to copy that nobody is connected to."""
        name = f"t{secrets.token_hex(6)}"
        order = sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING {}").format(
            sql.Identifier(name), sql.Identifier(template), sql.Literal(encoding)
        )
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(order)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop a database by its address, and the connections to it."""
        order = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(url.rpartition("/")[2]))
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(order)

    def kill(self) -> None:
        """Kill the server with SIGKILL, as a power cut would."""
        self._server.kill()
        self._server.wait()

    def restart(self) -> None:
        """Start it again on the same data and the same port, after `kill`."""
        self._server = self._start()
        if not self._answers():
            raise RuntimeError(f"PostgreSQL did not come back: {(self._folder / 'log').read_text()[-2000:]}")

    def close(self) -> None:
        """Stop the server and remove its data."""
        self._record.undo()
        self._server.wait()

    def _conninfo(self) -> str:
        return self.url().replace("+psycopg", "", 1)

    def _init(self) -> None:
        password = self._folder / "password"
        password.write_text(self._password)
        password.chmod(0o600)
        if self._as_owner:
            shutil.chown(password, user=ADMINISTRATOR)
        command = [binary("initdb"), "-D", str(self.data), "-U", ADMINISTRATOR, "--no-sync", "-E", "UTF8"]
        command += ["--no-locale", "--auth=scram-sha-256", f"--pwfile={password}"]
        made = subprocess.run([*self._as_owner, *command], capture_output=True, text=True, check=False, cwd="/")
        if made.returncode != 0:
            self._record.undo()
            raise RuntimeError(f"initdb failed: {made.stderr}")

    def _start(self) -> "subprocess.Popen[bytes]":
        settings = [f"--{name}={value}" for name, value in (self._settings | {"port": str(self.port)}).items()]
        command = [*self._as_owner, binary("postgres"), "-D", str(self.data), *settings]
        with (self._folder / "log").open("ab") as log:
            server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        self._record.databases = [Process.of(server.pid)]
        self._record.save()
        return server

    def _answers(self) -> bool:
        """Wait until the server answers; False if it ended instead."""

        def settled() -> bool:
            return self._server.poll() is not None or self._accepts()

        wait_until(settled, "PostgreSQL answers", seconds=60)
        return self._server.poll() is None

    def _accepts(self) -> bool:
        try:
            psycopg.connect(self._conninfo(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def binary(name: str) -> str:
    """Give the newest installed server program of this name; FileNotFoundError says what to install."""
    found = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise FileNotFoundError(f"no {name} below {BINARIES}: apt-get install postgresql")
    return str(found[-1])
