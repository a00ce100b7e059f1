"""The chain: nothing of it can be changed, and whoever changes it all the same is found."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from service.app.ports import AuditFilter
from service.domain.audit import FIRST_HASH, AuditEvent, Fact, first_fault
from service.domain.audit import append as follow
from service.store.sql_store import SqlStore
from service.store.tables import audit_events
from tests.store.made import NOON, TestClock, append, behind, fact

pytest_plugins = ["lab.fixtures"]

COLUMNS = ", ".join(column.name for column in audit_events.c)


@pytest.fixture
def chain(store: SqlStore) -> SqlStore:
    append(store, *(fact(number) for number in range(1, 6)))
    return store


def test_an_event_has_its_place_its_time_and_its_fact(store: SqlStore) -> None:
    first = Fact("gate.approved", "gate/g1", "ann", "bob", "r1", "gpu-01", "abort", {"b": [1, None], "a": "ü"})
    append(store, first, fact(2))

    events = list(store.audit_events())

    assert [one.seq for one in events] == [1, 2]
    assert events[0] == follow(first, seq=1, at=events[0].at, previous_hash=FIRST_HASH)
    assert events[0].body == '{"a":"ü","b":[1,null]}'
    assert events[1].previous_hash == events[0].hash
    assert NOON <= events[0].at < NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_events SET person = 'eve' WHERE seq = 2",
        "UPDATE audit_events SET person = 'eve' WHERE seq = 99",
        "DELETE FROM audit_events WHERE seq = 5",
        "DELETE FROM audit_events",
        f"INSERT INTO audit_events ({COLUMNS}) SELECT {COLUMNS} FROM audit_events WHERE seq = 3",
        # A gap, and a fork.
        f"INSERT INTO audit_events ({COLUMNS}) SELECT 7, "
        + ", ".join(column.name for column in audit_events.c if column.name not in ("seq", "previous_hash", "hash"))
        + ", hash, 'x' FROM audit_events WHERE seq = 5",
        f"INSERT INTO audit_events ({COLUMNS}) SELECT 6, "
        + ", ".join(column.name for column in audit_events.c if column.name not in ("seq", "previous_hash", "hash"))
        + ", 'elsewhere', 'x' FROM audit_events WHERE seq = 5",
    ],
)
def test_the_audit_takes_nothing_but_its_next_event(chain: SqlStore, url: str, statement: str, kind: str) -> None:
    before = list(chain.audit_events())
    if kind == "sqlite" and "seq = 99" in statement:
        # SQLite has triggers for rows only, and there is no such row.
        return

    with pytest.raises(DBAPIError, match="audit_events"), behind(url) as connection:
        connection.execute(text(statement))

    assert list(chain.audit_events()) == before


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE", "UPDATE OR REPLACE"])
def test_replace_does_not_get_around_the_triggers(chain: SqlStore, url: str, verb: str) -> None:
    before = list(chain.audit_events())
    values = "2, at, action, about, 'eve', on_behalf_of, run_id, node, step, body, body_sha256, previous_hash, hash"
    statement = f"{verb} INTO audit_events ({COLUMNS}) SELECT {values} FROM audit_events WHERE seq = 2"
    if verb.startswith("UPDATE"):
        statement = f"{verb} audit_events SET seq = 2 WHERE seq = 3"

    with pytest.raises(DBAPIError, match="audit_events"), behind(url) as connection:
        connection.execute(text(statement))

    assert list(chain.audit_events()) == before


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE audit_events"],
        ["SET session_replication_role = 'replica'", "DELETE FROM audit_events"],
        ["SET session_replication_role = 'replica'", "TRUNCATE audit_events"],
        ["SET session_replication_role = 'replica'", "UPDATE audit_events SET person = 'eve'"],
    ],
)
def test_postgres_has_no_way_around_the_triggers(chain: SqlStore, url: str, statements: list[str]) -> None:
    before = list(chain.audit_events())

    with pytest.raises(DBAPIError, match="append-only"), behind(url) as connection:
        connection.execute(text("; ".join(statements)))

    assert list(chain.audit_events()) == before


def without_triggers(connection: Connection) -> None:
    """Do what somebody does who has the whole database in his hands."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE audit_events DISABLE TRIGGER ALL"))
        return
    for name in ("next", "no_update", "no_delete"):
        connection.execute(text(f"DROP TRIGGER audit_events_{name}"))


def changed(column: str, value: str) -> Callable[[Connection], None]:
    def change(connection: Connection) -> None:
        connection.execute(text(f"UPDATE audit_events SET {column} = :value WHERE seq = 3"), {"value": value})

    return change


def removed(connection: Connection) -> None:
    connection.execute(text("DELETE FROM audit_events WHERE seq = 3"))


def removed_at_the_beginning(connection: Connection) -> None:
    connection.execute(text("DELETE FROM audit_events WHERE seq = 1"))


def removed_and_closed_up(connection: Connection) -> None:
    removed(connection)
    connection.execute(text("UPDATE audit_events SET seq = 3 WHERE seq = 4"))
    connection.execute(text("UPDATE audit_events SET seq = 4 WHERE seq = 5"))


def reordered(connection: Connection) -> None:
    for old, new in ((3, 99), (4, 3), (99, 4)):
        connection.execute(text("UPDATE audit_events SET seq = :new WHERE seq = :old"), {"old": old, "new": new})


def inserted(connection: Connection) -> None:
    for old in (5, 4, 3):
        connection.execute(text("UPDATE audit_events SET seq = seq + 1 WHERE seq = :old"), {"old": old})
    row = connection.execute(text("SELECT * FROM audit_events WHERE seq = 2")).mappings().one()
    forged = dict(row) | {"seq": 3, "person": "eve", "previous_hash": "forged"}
    names = ", ".join(forged)
    connection.execute(
        text(f"INSERT INTO audit_events ({names}) VALUES ({', '.join(':' + name for name in forged)})"), forged
    )


def forged_whole(connection: Connection) -> None:
    """Change an event and give it the hash that fits: the next one tells."""
    rows = connection.execute(text("SELECT seq, hash FROM audit_events WHERE seq = 2")).one()
    forged = follow(fact(3, person="eve"), seq=3, at=NOON, previous_hash=rows.hash)
    at = NOON if connection.dialect.name == "postgresql" else "2026-03-01T12:00:00.000000Z"
    connection.execute(
        text("UPDATE audit_events SET person = 'eve', at = :at, hash = :hash WHERE seq = 3"),
        {"hash": forged.hash, "at": at},
    )


@pytest.mark.parametrize(
    ("tamper", "seq", "reason"),
    [
        (changed("person", "eve"), 3, "hash does not fit"),
        (changed("body", '{"n":4}'), 3, "body was changed"),
        (changed("body", "no json"), 3, "body was changed"),
        (changed("body_sha256", "0" * 64), 3, "body was changed"),
        (changed("hash", "0" * 64), 3, "hash does not fit"),
        (changed("previous_hash", "0" * 63), 3, "previous hash"),
        (changed("at", "2020-01-01T00:00:00.000000Z"), 3, "hash does not fit"),
        (changed("action", "node.released"), 3, "hash does not fit"),
        (removed, 3, "seq 3 is missing"),
        (removed_at_the_beginning, 1, "seq 1 is missing"),
        (removed_and_closed_up, 3, "previous hash"),
        (reordered, 3, "previous hash"),
        (inserted, 3, "previous hash"),
        (forged_whole, 4, "previous hash"),
    ],
)
def test_s19_tampering_is_found_at_its_seq(
    chain: SqlStore, url: str, tamper: Callable[[Connection], None], seq: int, reason: str
) -> None:
    assert first_fault(chain.audit_events()) is None

    with behind(url) as connection:
        without_triggers(connection)
        tamper(connection)

    fault = first_fault(chain.audit_events())
    assert fault is not None
    assert (fault.seq, reason in fault.reason) == (seq, True), fault


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("column", "value"), [("at", "yesterday"), ("at", "7"), ("person", b"\xff"), ("body", b"\xff")]
)
def test_a_row_that_cannot_be_read_is_a_fault_and_no_crash(
    chain: SqlStore, url: str, column: str, value: str | bytes
) -> None:
    with behind(url) as connection:
        without_triggers(connection)
        connection.execute(text(f"UPDATE audit_events SET {column} = :value WHERE seq = 3"), {"value": value})

    fault = first_fault(chain.audit_events())

    assert fault is not None
    assert fault.seq == 3


def test_a_chain_longer_than_one_piece_is_read_whole(store: SqlStore) -> None:
    append(store, *(fact(number) for number in range(2050)))

    events = store.audit_events()
    begun = next(events)
    append(store, fact(9999))
    rest = list(events)

    # It ends where the chain ended when it was asked for.
    assert [begun.seq, *(one.seq for one in rest)] == list(range(1, 2051))


@pytest.fixture
def varied(store: SqlStore, clock: TestClock) -> SqlStore:
    for number in range(12):
        append(
            store,
            fact(
                number,
                run_id=f"r{number % 2}",
                node=f"gpu-0{number % 3}",
                person=("ann", "bob")[number % 2],
                action=("node.held", "node.released")[number // 6],
            ),
        )
    return store


def seqs(store: SqlStore, which: AuditFilter) -> list[int]:
    """Read all pages of three."""
    found: list[AuditEvent] = []
    cursor: str | None = None
    while True:
        at = cursor
        page = store.read(lambda reader: reader.audit(which, cursor=at, limit=3))  # noqa: B023
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return [one.seq for one in found]


def test_events_are_found_by_each_filter_newest_first(varied: SqlStore) -> None:
    events = list(varied.audit_events())

    assert seqs(varied, AuditFilter()) == list(range(12, 0, -1))
    assert seqs(varied, AuditFilter(run_id="r0")) == [11, 9, 7, 5, 3, 1]
    assert seqs(varied, AuditFilter(node="gpu-00")) == [10, 7, 4, 1]
    assert seqs(varied, AuditFilter(person="bob")) == [12, 10, 8, 6, 4, 2]
    assert seqs(varied, AuditFilter(action="node.held")) == [6, 5, 4, 3, 2, 1]
    assert seqs(varied, AuditFilter(run_id="r1", node="gpu-00", action="node.held")) == [4]
    assert seqs(varied, AuditFilter(since=events[3].at, until=events[7].at)) == [7, 6, 5, 4]
    assert seqs(varied, AuditFilter(person="eve")) == []


def test_events_after_a_seq_come_oldest_first(varied: SqlStore) -> None:
    every = varied.read(lambda reader: reader.audit_after(9, run_id=None, limit=9))
    of_run = varied.read(lambda reader: reader.audit_after(3, run_id="r0", limit=2))

    assert [one.seq for one in every] == [10, 11, 12]
    assert [one.seq for one in of_run] == [5, 7]
