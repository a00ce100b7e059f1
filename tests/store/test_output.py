"""Output: chunks while a script runs, one blob afterwards; what is sent twice is kept once."""

import random
from datetime import timedelta

import pytest
from sqlalchemy import text

from service.app.ports import Transaction
from service.domain.audit import first_fault
from service.domain.script import OutputChunk, Stream, sha256
from service.store.sql_store import SqlStore
from tests.store.made import NOON, add, attempt, behind, run

pytest_plugins = ["lab.fixtures"]

ID = "r1-gpu-01-a1"
OUT, ERR = Stream.STDOUT, Stream.STDERR


@pytest.fixture
def ready(store: SqlStore) -> SqlStore:
    add(store, run())
    for number in (1, 2):
        made = attempt(number=number)
        store.write(lambda transaction, made=made: transaction.add_attempt(made))  # type: ignore[misc]
    return store


def put(store: SqlStore, offset: int, data: bytes, *, stream: Stream = OUT, attempt_id: str = ID) -> None:
    store.write(lambda transaction: transaction.add_output(OutputChunk(attempt_id, stream, offset, data)))


def kept(store: SqlStore, stream: Stream = OUT, *, offset: int = 0, attempt_id: str = ID) -> bytes:
    return store.read(lambda reader: reader.output(attempt_id, stream, offset=offset))


def seal(store: SqlStore, attempt_id: str = ID) -> str:
    return store.write(lambda transaction: transaction.seal_output(attempt_id))


def test_streams_are_read_while_they_are_written(ready: SqlStore) -> None:
    put(ready, 0, b"one\n\x00\xff")
    put(ready, 0, b"oops", stream=ERR)
    put(ready, 6, b"two\n")

    assert (kept(ready), kept(ready, ERR)) == (b"one\n\x00\xfftwo\n", b"oops")
    assert (kept(ready, offset=6), kept(ready, offset=99), kept(ready, offset=-1)) == (
        b"two\n",
        b"",
        b"one\n\x00\xfftwo\n",
    )


def test_sealing_makes_one_blob_and_loses_nothing(ready: SqlStore) -> None:
    put(ready, 0, b"out")
    put(ready, 0, b"err", stream=ERR)

    digest = seal(ready)

    assert digest == sha256(b"outerr")
    assert (kept(ready), kept(ready, ERR), kept(ready, ERR, offset=1)) == (b"out", b"err", b"rr")


def test_an_attempt_without_output_is_sealed_too(ready: SqlStore) -> None:
    assert seal(ready) == sha256(b"")
    assert (kept(ready), kept(ready, ERR)) == (b"", b"")


def test_equal_outputs_share_a_blob(ready: SqlStore) -> None:
    other = "r1-gpu-01-a2"
    put(ready, 0, b"ab")
    put(ready, 0, b"a", attempt_id=other)
    put(ready, 0, b"b", stream=ERR, attempt_id=other)

    assert seal(ready) == seal(ready, other)
    assert (kept(ready), kept(ready, ERR)) == (b"ab", b"")
    assert (kept(ready, attempt_id=other), kept(ready, ERR, attempt_id=other)) == (b"a", b"b")


def test_bytes_that_come_again_are_kept_once(ready: SqlStore) -> None:
    text = bytes(range(256)) * 2
    choice = random.Random(7)
    pieces = [(start, min(start + choice.randint(20, 90), 512)) for start in range(0, 512, 20)]
    choice.shuffle(pieces)

    def all_of_them(transaction: Transaction) -> None:
        for start, end in pieces * 2:
            transaction.add_output(OutputChunk(ID, OUT, start, text[start:end]))

    ready.write(all_of_them)

    assert kept(ready) == text


def test_the_first_bytes_at_a_place_stay(ready: SqlStore) -> None:
    put(ready, 0, b"abc")
    put(ready, 1, b"XYZ")

    assert kept(ready) == b"abcZ"


def test_a_gap_where_bytes_were_dropped_is_closed(ready: SqlStore) -> None:
    put(ready, 0, b"head")
    put(ready, 1000, b"tail")

    assert kept(ready) == b"headtail"
    seal(ready)
    put(ready, 1002, b"ilend")
    assert kept(ready) == b"headtailend"


def test_what_comes_after_the_seal_is_kept_and_sealed_again(ready: SqlStore) -> None:
    put(ready, 0, b"one")
    put(ready, 0, b"err", stream=ERR)
    first = seal(ready)

    put(ready, 0, b"one two")
    assert (kept(ready), kept(ready, ERR)) == (b"one two", b"err")
    second = seal(ready)

    assert (first, second) == (sha256(b"oneerr"), sha256(b"one twoerr"))
    assert (kept(ready), kept(ready, ERR)) == (b"one two", b"err")


def test_sealing_twice_changes_nothing(ready: SqlStore) -> None:
    put(ready, 0, b"out")
    put(ready, 0, b"err", stream=ERR)

    assert seal(ready) == seal(ready)
    assert (kept(ready), kept(ready, ERR)) == (b"out", b"err")


def test_old_outputs_are_dropped_in_batches_and_the_chain_stays(ready: SqlStore, url: str) -> None:
    other = "r1-gpu-01-a2"
    for number in range(3, 8):
        made = attempt(number=number)
        ready.write(lambda transaction, made=made: transaction.add_attempt(made))  # type: ignore[misc]
        put(ready, 0, f"output {number}".encode(), attempt_id=made.id)
        seal(ready, made.id)
    put(ready, 0, b"shared")
    seal(ready)
    with behind(url) as connection:
        moment = "2020-01-01T00:00:00.000000Z"
        connection.execute(text("UPDATE outputs SET sealed_at = :moment"), {"moment": moment})
    put(ready, 0, b"shared", attempt_id=other)
    seal(ready, other)

    assert ready.drop_outputs(NOON - timedelta(days=1), batch=2) == 6
    assert ready.drop_outputs(NOON - timedelta(days=1)) == 0

    assert (kept(ready), kept(ready, attempt_id="r1-gpu-01-a3"), kept(ready, attempt_id=other)) == (b"", b"", b"shared")
    with behind(url) as connection:
        assert connection.execute(text("SELECT sha256 FROM blobs")).scalars().all() == [sha256(b"shared")]
    facts = [one.fact for one in ready.audit_events()]
    assert [one.action for one in facts] == ["output.dropped"] * 3
    assert sorted(entry[0] for one in facts for entry in one.body["outputs"]) == [
        f"r1-gpu-01-a{number}" for number in (1, 3, 4, 5, 6, 7)
    ]
    assert first_fault(ready.audit_events()) is None
