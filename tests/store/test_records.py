"""Attempts, gates, resolutions, holds, tokens: each comes back as it was written."""

from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import Table

from service.app.ports import AuditFilter, Transaction
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.person import Role, Token
from service.domain.reach import Reach
from service.domain.run import (
    Attempt,
    AttemptState,
    Gate,
    GateState,
    History,
    Hold,
    NodeRun,
    Resolution,
    ResolveAs,
    Run,
)
from service.domain.script import NotStarted, ScriptKind
from service.store import tables
from service.store.sql_store import SqlStore
from tests.store.made import NOON, add, append, attempt, fact, gate, node_run, run

pytest_plugins = ["lab.fixtures"]

LATER = NOON + timedelta(minutes=1)
TOKEN = Token("t1", "laptop", "ann", frozenset({Role.OPERATOR, Role.VIEWER}), "a" * 64, NOON)
FULL = attempt(
    acting=True,
    kind=ScriptKind.RUN,
    state=AttemptState.NOT_STARTED,
    not_after=LATER,
    boot_id="boot-1",
    targets=("42 /mnt/a b", "", "stück", "half \udce9 and zero \0"),
    not_started=NotStarted.HELD,
    reason="held by another",
    exit_code=-1,
    signal=9,
    pid=2**31,
    wchan="fuse_simple_request",
    asked_at=LATER,
    answered_at=LATER,
    ended_by_us=True,
    started_at=NOON + timedelta(microseconds=1),
    finished_at=LATER,
    stdout_bytes=2**40,
    stderr_bytes=1,
    output_sha256="b" * 64,
    truncated=True,
)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (Attempt, tables.attempts),
        (Gate, tables.gates),
        (Hold, tables.holds),
        (NodeRun, tables.node_runs),
        (Resolution, tables.resolutions),
        (Token, tables.tokens),
        (Run, tables.runs),
    ],
)
def test_every_field_of_the_domain_has_a_column(kind: type, table: Table) -> None:
    missing = {field.name for field in fields(kind)} - set(table.c.keys())

    # These are kept as several columns.
    assert missing == ({"trigger"} if kind is Run else {"reach"} if kind is Token else set())


def test_an_attempt_comes_back_as_it_was_written(store: SqlStore) -> None:
    add(store, run())

    store.write(lambda transaction: transaction.add_attempt(FULL))
    assert store.read(lambda reader: reader.attempt(FULL.id)) == FULL

    changed = attempt(state=AttemptState.FINISHED, exit_code=0)
    store.write(lambda transaction: transaction.save_attempt(changed))
    assert store.read(lambda reader: reader.attempt(FULL.id)) == changed


def test_the_number_of_an_attempt_is_used_once(store: SqlStore) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_attempt(attempt()))

    with pytest.raises(Conflict):
        store.write(lambda transaction: transaction.add_attempt(replace(attempt(), id="another")))


def test_an_attempt_that_was_not_intended_is_not_saved(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        store.write(lambda transaction: transaction.save_attempt(attempt()))


def test_a_history_has_everything_in_order(store: SqlStore) -> None:
    other = node_run("r1", "gpu-02", position=1)
    add(store, run(), node_run(), other)
    attempts = [attempt(number=number) for number in (1, 2, 10)]
    gates = [gate(round_=round_, opened_at=NOON + timedelta(minutes=round_)) for round_ in (1, 2)]
    resolutions = [
        Resolution(f"s{n}", "r1-gpu-01", ResolveAs.RETRY, "ann", "again", NOON + timedelta(minutes=9 - n), n)
        for n in (1, 2)
    ]

    def record(transaction: Transaction) -> None:
        for one in (*reversed(attempts), attempt("r1-gpu-02")):
            transaction.add_attempt(one)
        for one_gate in reversed(gates):
            transaction.add_gate(one_gate)
        for resolution in resolutions:
            transaction.add_resolution(resolution)

    store.write(record)

    expected = History(node_run(), tuple(attempts), tuple(gates), tuple(reversed(resolutions)))
    assert store.read(lambda reader: reader.history("r1-gpu-01")) == expected
    histories = store.read(lambda reader: reader.histories("r1"))
    assert histories == (expected, History(other, (attempt("r1-gpu-02"),)))


def answer(store: SqlStore, state: GateState, *, by: str = "bob") -> None:
    changed = gate(state=state, decided_by=by, decided_at=LATER, reason="seen")
    store.write(lambda transaction: transaction.save_gate(changed))


def test_an_open_gate_is_answered_once(store: SqlStore) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_gate(gate()))

    answer(store, GateState.APPROVED)
    with pytest.raises(Conflict, match="is approved already by bob"):
        answer(store, GateState.DENIED, by="eve")
    with pytest.raises(Conflict):
        answer(store, GateState.APPROVED, by="eve")

    expected = gate(state=GateState.APPROVED, decided_by="bob", decided_at=LATER, reason="seen")
    assert store.read(lambda reader: reader.gate(gate().id)) == expected


@pytest.mark.parametrize("first", [GateState.APPROVED, GateState.WAIVED, GateState.OVERRIDDEN])
@pytest.mark.parametrize("second", [GateState.VOID, GateState.EXPIRED])
def test_a_gate_that_lets_run_may_still_become_void(store: SqlStore, first: GateState, second: GateState) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_gate(gate(state=first)))

    answer(store, second)

    assert store.read(lambda reader: reader.gate(gate().id)).state is second


@pytest.mark.parametrize("final", [GateState.DENIED, GateState.EXPIRED, GateState.VOID])
def test_a_final_answer_stays(store: SqlStore, final: GateState) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_gate(gate(state=final)))

    for state in GateState:
        with pytest.raises(Conflict):
            answer(store, state)

    assert store.read(lambda reader: reader.gate(gate().id)).state is final


def test_an_answer_to_another_question_is_refused(store: SqlStore) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_gate(gate()))

    with pytest.raises(Conflict):
        store.write(
            lambda transaction: transaction.save_gate(gate(state=GateState.APPROVED, digest="0" * 64, targets=()))
        )

    assert store.read(lambda reader: reader.gate(gate().id)) == gate()


def test_a_round_has_one_gate_for_a_step(store: SqlStore) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_gate(gate(state=GateState.VOID)))

    with pytest.raises(Conflict):
        store.write(lambda transaction: transaction.add_gate(gate(id="second")))


def test_gates_are_listed_newest_first_by_state(store: SqlStore) -> None:
    add(store, run(), *[node_run("r1", f"gpu-0{n}") for n in range(5)])
    for n in range(5):
        state = GateState.DENIED if n == 2 else GateState.OPEN
        made = gate(f"r1-gpu-0{n}", state=state, opened_at=NOON + timedelta(minutes=n // 2))
        store.write(lambda transaction, made=made: transaction.add_gate(made))  # type: ignore[misc]

    first = store.read(lambda reader: reader.gates(GateState.OPEN, cursor=None, limit=3))
    rest = store.read(lambda reader: reader.gates(GateState.OPEN, cursor=first.next_cursor, limit=3))
    every = store.read(lambda reader: reader.gates(None, cursor=None, limit=9))

    assert [one.node for one in first.items] == ["gpu-04", "gpu-03", "gpu-01"]
    assert ([one.node for one in rest.items], rest.next_cursor) == (["gpu-00"], None)
    assert [one.node for one in every.items] == ["gpu-04", "gpu-03", "gpu-02", "gpu-01", "gpu-00"]


def test_a_hold_stands_until_it_is_released(store: SqlStore) -> None:
    first = Hold("gpu-01", "ann", "memtest", NOON, LATER)
    second = Hold("gpu-01", "bob", "longer", LATER)
    other = Hold("gpu-00", "bob", "", NOON)
    for hold in (first, second, other):
        store.write(lambda transaction, hold=hold: transaction.put_hold(hold))  # type: ignore[misc]

    assert store.read(lambda reader: reader.hold("gpu-01")) == second
    assert store.read(lambda reader: reader.holds()) == (other, second)

    store.write(lambda transaction: transaction.remove_hold("gpu-01"))

    assert store.read(lambda reader: reader.hold("gpu-01")) is None


def test_a_token_is_found_by_its_digest(store: SqlStore) -> None:
    reach = Reach(("node-*", "cure"), ("h100",))
    other = Token("t2", "desk", "bob", frozenset({Role.ADMIN}), "b" * 64, NOON, expires_at=LATER, reach=reach)
    store.write(lambda transaction: transaction.add_token(TOKEN))
    store.write(lambda transaction: transaction.add_token(other))

    revoked = replace(TOKEN, revoked_at=LATER, last_used_at=LATER)
    store.write(lambda transaction: transaction.save_token(revoked))

    assert store.read(lambda reader: reader.token_by_sha256("a" * 64)) == revoked
    assert store.read(lambda reader: reader.token_by_sha256("c" * 64)) is None
    assert store.read(lambda reader: reader.tokens()) == (other, revoked)


def test_a_tokens_name_is_used_once(store: SqlStore) -> None:
    store.write(lambda transaction: transaction.add_token(TOKEN))

    with pytest.raises(Conflict, match="laptop"):
        store.write(lambda transaction: transaction.add_token(replace(TOKEN, id="t2", sha256="b" * 64)))
    with pytest.raises(NotFound):
        store.write(lambda transaction: transaction.save_token(replace(TOKEN, id="t9")))


def test_times_come_back_aware_in_utc_to_the_microsecond(store: SqlStore) -> None:
    tokyo = datetime(2026, 3, 1, 21, 0, 0, 123456, tzinfo=timezone(timedelta(hours=9)))
    add(store, run(at=tokyo))

    found = store.read(lambda reader: reader.run("r1")).created_at

    assert found == tokyo
    assert found.isoformat() == "2026-03-01T12:00:00.123456+00:00"


def test_text_that_cannot_be_stored_is_shown_by_a_sign(store: SqlStore) -> None:
    add(store, run(reason="zero \0, half \ud83d"))
    odd = fact(person="a\0b", body={"text": ["x\ud83dy", {"k\ud83d": 1}], "zero": "\0"})
    append(store, odd)

    event = store.read(lambda reader: reader.audit_after(0, run_id=None, limit=1))[0]

    assert store.read(lambda reader: reader.run("r1")).reason == "zero \u2400, half ?"
    assert event.fact == replace(odd, person="a\u2400b", body={"text": ["x?y", {"k?": 1}], "zero": "\u2400"})


def test_a_key_that_cannot_be_there_is_not_an_outage(store: SqlStore) -> None:
    with pytest.raises((NotFound, InvalidInput)):
        store.read(lambda reader: reader.run("\0"))


def test_a_time_that_utc_has_no_year_for_is_refused_and_nothing_is_kept(store: SqlStore) -> None:
    beyond = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=23)))

    with pytest.raises(InvalidInput, match="after the year 9999 in UTC"):
        store.write(lambda transaction: transaction.put_hold(Hold("gpu-01", "ann", "memtest", NOON, beyond)))
    with pytest.raises(InvalidInput, match="after the year 9999 in UTC"):
        store.read(lambda reader: reader.audit(AuditFilter(since=beyond), cursor=None, limit=1))

    assert store.read(lambda reader: reader.holds()) == ()
