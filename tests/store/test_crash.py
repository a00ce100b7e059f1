"""What happens to the record when processes are killed, disks are full and servers are gone."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, text

from lab.postgres import Postgres
from service.app.ports import Transaction
from service.domain.audit import first_fault
from service.domain.errors import Unavailable
from service.domain.run import Hold, NodeRunState
from service.store import migrate
from service.store.sql_store import SqlStore
from tests.store.made import NOON, SOURCE, TestClock, Together, add, append, behind, fact, node_run, plan, run

pytest_plugins = ["lab.fixtures"]

ROOT = Path(__file__).resolve().parents[2]


class WritingProcess:
    """A real process that writes to the store, and what it was told is durable."""

    def __init__(self, url: str, name: str, count: int) -> None:
        command = [sys.executable, "-m", "tests.store.writing", url, name, str(count)]
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.durable: list[str] = []

    def begin(self) -> None:
        self._input.write("\n")
        self._input.flush()

    def until(self, number: int) -> None:
        while len(self.durable) < number:
            line = self._output.readline()
            assert line, "the process ended early"
            self.durable.append(f"attempt/{self.name}-{line.strip()}")

    def finish(self, *, kill: bool) -> int:
        if self._output.closed:
            return self._process.wait(60)
        if kill:
            self._process.kill()
        # What it has said before its end counts too; half a line does not.
        self.durable += [f"attempt/{self.name}-{line.strip()}" for line in self._output if line.endswith("\n")]
        self._input.close()
        self._output.close()
        return self._process.wait(60)


@contextmanager
def writing(url: str, *names: str, count: int) -> Iterator[list[WritingProcess]]:
    processes = [WritingProcess(url, name, count) for name in names]
    try:
        yield processes
    finally:
        for process in processes:
            process.finish(kill=True)


def recorded(store: SqlStore) -> list[str]:
    return [one.fact.about for one in store.audit_events()]


def test_kill_9_loses_nothing_that_was_acknowledged(store: SqlStore, url: str) -> None:
    add(store, run(), node_run("r1", "w"))

    with writing(url, "w", count=100_000) as (process,):
        process.begin()
        process.until(40)
        process.finish(kill=True)

    found = recorded(store)
    assert found[: len(process.durable)] == process.durable
    assert first_fault(store.audit_events()) is None
    # A row and its event are there together or not at all.
    attempts = store.read(lambda reader: reader.history("r1-w")).attempts
    assert [f"attempt/{one.id}" for one in attempts] == found


def test_processes_that_write_together_keep_one_chain(store: SqlStore, url: str) -> None:
    add(store, run(), node_run("r1", "a"), node_run("r1", "b"))

    with writing(url, "a", "b", count=60) as processes:
        for process in processes:
            process.begin()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: append(store, fact(number, about=f"mine/{number}")), range(60)))
        for process in processes:
            process.until(60)
        assert [process.finish(kill=False) for process in processes] == [0, 0]

    found = recorded(store)
    expected = [about for process in processes for about in process.durable]
    assert sorted(found) == sorted([*expected, *(f"mine/{number}" for number in range(60))])
    assert first_fault(store.audit_events()) is None


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_database_that_stays_locked_is_unavailable_and_a_short_lock_is_waited_for(store: SqlStore, url: str) -> None:
    let_go, locked = threading.Event(), threading.Event()

    def hold() -> None:
        with behind(url) as connection:
            connection.execute(text("UPDATE tokens SET name = name"))
            locked.set()
            assert let_go.wait(60)

    store._writer._patience = 0.2
    holding = threading.Thread(target=hold)
    holding.start()
    locked.wait(60)
    with pytest.raises(Unavailable, match="locked by another process"):
        append(store, fact(1))
    assert store.read(lambda reader: reader.holds()) == ()

    store._writer._patience = 60
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(append, store, fact(2))
        let_go.set()
        waiting.result(60)
    holding.join()

    assert [one.fact.body["n"] for one in store.audit_events()] == [2]


# Runs in a mount namespace of its own, on a file system that is too small for what is written.
FULL_DISK = """
import sys
from pathlib import Path
from service.app.ports import Transaction
from service.domain.audit import first_fault
from service.domain.errors import Unavailable
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, add, append, attempt, fact, run
from service.domain.script import OutputChunk, Stream

url = f"sqlite:///{sys.argv[1]}/unstick.db"
ballast = Path(sys.argv[1], "ballast")
ballast.write_bytes(bytes(1024 * 1024))
store = SqlStore.open(url, TestClock())
add(store, run())
store.write(lambda transaction: transaction.add_attempt(attempt()))
written = refused = 0
for number in range(200):
    chunk = OutputChunk(attempt().id, Stream.STDOUT, number * 30000, bytes(30000))

    def change(transaction):
        transaction.append(fact(number))
        transaction.add_output(chunk)

    try:
        store.write(change)
        written += 1
    except Unavailable as error:
        assert "full" in error.reason, error
        refused += 1
        if refused == 3:
            break
assert written and refused == 3, (written, refused)
assert len(list(store.audit_events())) == written
ballast.unlink()
append(store, fact(-1))
assert first_fault(store.audit_events()) is None
assert len(list(store.audit_events())) == written + 1
assert len(store.read(lambda reader: reader.output(attempt().id, Stream.STDOUT))) == written * 30000
store.close()
import sqlite3
assert sqlite3.connect(f"{sys.argv[1]}/unstick.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print("well")
"""


@pytest.mark.needs_root
def test_a_full_disk_refuses_and_the_database_is_well_afterwards(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=5m none {small} && exec "$0" -c "$1" {small}'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, FULL_DISK]

    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)

    assert (ended.returncode, ended.stdout) == (0, "well\n"), ended.stderr


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_a_server_that_is_gone_is_unavailable_and_comes_back(own_server: Postgres, clock: TestClock) -> None:
    url = own_server.create()
    migrate.upgrade(url)
    store = SqlStore.open(url, clock)
    append(store, fact(1))
    store._writer._patience = 0.5

    own_server.kill()
    with pytest.raises(Unavailable):
        append(store, fact(2))
    with pytest.raises(Unavailable):
        store.read(lambda reader: reader.holds())
    with pytest.raises(Unavailable):
        list(store.audit_events())
    with pytest.raises(Unavailable):
        SqlStore.open(url, clock)

    store._writer._patience = 60
    own_server.restart()
    append(store, fact(3))

    assert store.read(lambda reader: reader.holds()) == ()
    assert [one.fact.body["n"] for one in store.audit_events()] == [1, 3]
    assert first_fault(store.audit_events()) is None
    store.close()


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_server_that_was_restarted_is_not_noticed(store: SqlStore, url: str) -> None:
    append(store, fact(1))
    store.read(lambda reader: reader.holds())

    end_sessions(url)
    append(store, fact(2))
    assert store.read(lambda reader: reader.holds()) == ()

    assert [one.fact.body["n"] for one in store.audit_events()] == [1, 2]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_commit_that_is_lost_is_unavailable_for_all(store: SqlStore, url: str) -> None:
    append(store, fact(1))
    # The commit itself fails: a constraint that is judged at its very end.
    with behind(url) as connection:
        connection.execute(
            text(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'no commit'; END $$"
            )
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON holds DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION fail()"
            )
        )
    with Together(store) as together:
        together.add("a", lambda transaction: transaction.append(fact(2)))
        together.add("b", lambda transaction: transaction.put_hold(Hold("gpu-01", "ann", "", NOON)))
    with behind(url) as connection:
        connection.execute(text("DROP TRIGGER late ON holds"))
        connection.execute(text("DROP FUNCTION fail"))

    assert isinstance(together.outcomes["a"], Unavailable)
    assert isinstance(together.outcomes["b"], Unavailable)
    assert [one.fact.body["n"] for one in store.audit_events()] == [1]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_server_lost_during_the_commit_leaves_a_doubt_that_is_told(store: SqlStore, url: str) -> None:
    append(store, fact(1))
    event.listen(store._database.writer, "commit", lambda _: end_sessions(url), once=True)

    with pytest.raises(Unavailable, match="may or may not have been recorded"):
        append(store, fact(2))
    append(store, fact(3))

    assert first_fault(store.audit_events()) is None


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_two_services_that_lock_each_other_out_both_get_through(store: SqlStore, url: str, clock: TestClock) -> None:
    add(store, run("r1"), node_run("r1", "gpu-01"))
    add(store, run("r2"), node_run("r2", "gpu-02"))
    other = SqlStore.open(url, clock)
    meet = threading.Barrier(2)

    def crossing(mine: SqlStore, first: str, second: str) -> None:
        tries: list[int] = []

        def change(transaction: Transaction) -> None:
            tries.append(1)
            transaction.node_run(first)
            if len(tries) == 1:
                meet.wait(60)
            transaction.node_run(second)
            transaction.append(fact(about=first))

        mine.write(change)

    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(crossing, store, "r1-gpu-01", "r2-gpu-02"),
            pool.submit(crossing, other, "r2-gpu-02", "r1-gpu-01"),
        ]
        for one in asked:
            one.result(60)
    other.close()

    assert sorted(recorded(store)) == ["r1-gpu-01", "r2-gpu-02"]
    assert first_fault(store.audit_events()) is None


def test_a_run_that_two_services_end_has_ended(store: SqlStore, url: str, clock: TestClock) -> None:
    other = SqlStore.open(url, clock)
    names = [f"r{number}" for number in range(10)]
    for name in names:
        parts = [node_run(name, node, state=NodeRunState.RUNNING, acts=False) for node in ("gpu-01", "gpu-02")]
        add(store, run(name), *parts)

    def end(mine: SqlStore, node: str) -> None:
        for name in names:

            def change(transaction: Transaction, name: str = name) -> None:
                found = transaction.history(f"{name}-{node}").node_run
                transaction.save_node_run(replace(found, state=NodeRunState.SUCCEEDED))

            mine.write(change)

    at_once(lambda: end(store, "gpu-01"), lambda: end(other, "gpu-02"))
    heads = store.read(lambda reader: reader.heads(names))
    other.close()

    assert {name: head.state for name, head in heads.items()} == dict.fromkeys(names, NodeRunState.SUCCEEDED)


def test_a_limit_over_all_runs_holds_for_two_services(store: SqlStore, url: str, clock: TestClock) -> None:
    other = SqlStore.open(url, clock)
    runbooks = [f"book-{number}" for number in range(10)]

    def begin(mine: SqlStore, name: str) -> None:
        for number, runbook in enumerate(runbooks):

            def change(transaction: Transaction, run_id: str = f"{name}{number}", runbook: str = runbook) -> None:
                if not transaction.open_acting(runbook=runbook):
                    part = node_run(run_id, f"gpu-{run_id}", runbook=runbook)
                    transaction.add_run(run(run_id), source=SOURCE, plan=plan(), node_runs=[part])

            mine.write(change)

    at_once(lambda: begin(store, "a"), lambda: begin(other, "b"))
    taken = [len(store.read(lambda reader, book=book: reader.open_acting(runbook=book))) for book in runbooks]  # type: ignore[misc]
    other.close()

    assert taken == [1] * len(runbooks)


def at_once(*parts: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(parts)) as pool:
        for one in [pool.submit(part) for part in parts]:
            one.result(120)


def end_sessions(url: str) -> None:
    """End every session of a database but one's own, as a restart of the server does."""
    with psycopg.connect(re.sub(r"\+psycopg", "", url), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
