"""The writer: many changes share a commit, none of them suffers for another."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NoReturn

import pytest
from sqlalchemy import event, text

from service.app.ports import Reader, Transaction
from service.domain.audit import first_fault
from service.domain.errors import BrokenRule, Conflict, NotFound, Unavailable
from service.store.sql_store import SqlStore
from tests.store.made import NOON, SOURCE, TestClock, Together, add, append, attempt, fact, node_run, plan, run

pytest_plugins = ["lab.fixtures"]


def adds(name: str) -> object:
    def change(transaction: Transaction) -> str:
        transaction.append(fact(about=name))
        return name

    return change


def abouts(store: SqlStore) -> list[str]:
    return [one.fact.about for one in store.audit_events()]


def test_one_that_fails_does_not_fail_its_neighbours(store: SqlStore) -> None:
    add(store, run())
    store.write(lambda transaction: transaction.add_attempt(attempt()))

    def breaks_a_key(transaction: Transaction) -> None:
        transaction.append(fact(about="lost"))
        transaction.add_attempt(attempt())

    def refers_to_nothing(transaction: Transaction) -> None:
        transaction.append(fact(about="lost"))
        transaction.add_attempt(attempt("nobody"))

    def refuses(transaction: Transaction) -> None:
        transaction.append(fact(about="lost"))
        transaction.add_run(run("r2"), source=SOURCE, plan=plan(), node_runs=[node_run("r2")])
        raise NotFound("no such thing")

    def is_broken(transaction: Transaction) -> None:
        transaction.append(fact(about="lost"))
        raise ZeroDivisionError

    with Together(store) as together:
        together.add("a", adds("a"))
        together.add("key", breaks_a_key)
        together.add("b", adds("b"))
        together.add("reference", refers_to_nothing)
        together.add("refusal", refuses)
        together.add("defect", is_broken)
        together.add("c", adds("c"))

    outcomes = together.outcomes
    assert (outcomes["a"], outcomes["b"], outcomes["c"]) == ("a", "b", "c")
    assert isinstance(outcomes["key"], Conflict)
    assert isinstance(outcomes["reference"], BrokenRule)
    assert isinstance(outcomes["refusal"], NotFound)
    assert isinstance(outcomes["defect"], ZeroDivisionError)
    assert abouts(store) == ["a", "b", "c"]
    assert first_fault(store.audit_events()) is None
    with pytest.raises(NotFound):
        store.read(lambda reader: reader.run("r2"))


def test_changes_that_wait_together_share_a_commit(store: SqlStore) -> None:
    commits: list[object] = []
    event.listen(store._database.writer, "commit", commits.append)

    with Together(store) as together:
        for number in range(20):
            together.add(str(number), adds(str(number)))

    assert abouts(store) == [str(number) for number in range(20)]
    assert len(commits) == 2


def test_a_statement_that_breaks_the_transaction_fails_alone(store: SqlStore, kind: str) -> None:
    # SQLite undoes the whole transaction; PostgreSQL gives an error that no constraint explains.
    spoil = "ROLLBACK" if kind == "sqlite" else "SELECT pg_terminate_backend(pg_backend_pid())"
    tries = []

    def spoils(transaction: Transaction) -> None:
        tries.append(1)
        transaction.append(fact(about="lost"))
        if kind == "sqlite" or len(tries) < 3:
            transaction._connection.execute(text(spoil))  # type: ignore[attr-defined]
        else:
            transaction._connection.execute(text("SELECT nothing_of_this_name"))  # type: ignore[attr-defined]

    with Together(store) as together:
        together.add("a", adds("a"))
        together.add("spoils", spoils)
        together.add("b", adds("b"))

    assert (together.outcomes["a"], together.outcomes["b"]) == ("a", "b")
    assert isinstance(together.outcomes["spoils"], Unavailable)
    assert abouts(store) == ["a", "b"]


def test_a_write_inside_a_write_is_a_broken_rule_and_no_deadlock(store: SqlStore) -> None:
    def nested(_: Transaction) -> None:
        store.write(adds("inner"))  # type: ignore[arg-type]

    def reads(_: Transaction) -> None:
        store.read(lambda reader: reader.holds())

    with pytest.raises(BrokenRule):
        store.write(nested)
    with pytest.raises(BrokenRule):
        store.read(lambda _: store.write(reads))

    assert store.write(lambda _: 7) == 7


def test_two_hundred_threads_keep_the_chain_gapless(store: SqlStore) -> None:
    with ThreadPoolExecutor(200) as pool:
        list(pool.map(lambda number: append(store, fact(number), fact(-number)), range(600)))

    events = list(store.audit_events())

    assert [one.seq for one in events] == list(range(1, 1201))
    assert first_fault(events) is None
    assert sorted(one.fact.body["n"] for one in events) == sorted([*range(600), *(-number for number in range(600))])
    assert len({one.previous_hash for one in events}) == 1200


def test_what_was_written_is_seen_by_the_next_read(store: SqlStore) -> None:
    seen = []
    for number in range(20):
        append(store, fact(number))
        seen.append(len(store.read(lambda reader: reader.audit_after(0, run_id=None, limit=100))))

    assert seen == list(range(1, 21))


def test_a_read_sees_one_state_throughout(store: SqlStore) -> None:
    append(store, fact(1))

    def look(reader: Reader) -> tuple[int, int]:
        before = len(reader.audit_after(0, run_id=None, limit=9))
        append(store, fact(2))
        return before, len(reader.audit_after(0, run_id=None, limit=9))

    assert store.read(look) == (1, 1)
    assert len(list(store.audit_events())) == 2


def test_what_was_accepted_is_written_before_it_closes(url: str, clock: TestClock) -> None:
    store = SqlStore.open(url, clock)
    with Together(store) as together:
        for number in range(5):
            together.add(str(number), adds(str(number)))
        closing = threading.Thread(target=store.close)
        closing.start()
    closing.join(60)
    again = SqlStore.open(url, clock)

    assert abouts(again) == ["0", "1", "2", "3", "4"]
    assert [together.outcomes[str(number)] for number in range(5)] == ["0", "1", "2", "3", "4"]
    with pytest.raises(Unavailable):
        append(store, fact())
    again.close()
    again.close()


def test_a_fact_that_is_not_json_fails_its_caller_alone(store: SqlStore) -> None:
    with Together(store) as together:
        together.add("a", adds("a"))
        together.add("bad", lambda transaction: transaction.append(fact(body={"at": NOON})))
        together.add("b", adds("b"))

    assert isinstance(together.outcomes["bad"], BrokenRule)
    assert abouts(store) == ["a", "b"]


def test_a_time_without_a_zone_is_a_broken_rule(store: SqlStore) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the case itself

    with pytest.raises(BrokenRule):
        store.write(lambda transaction: transaction.wake(["x"], at=naive))


def test_what_a_change_raises_undoes_all_of_it(store: SqlStore) -> None:
    def change(transaction: Transaction) -> NoReturn:
        transaction.add_run(run(), source=SOURCE, plan=plan(), node_runs=[node_run()])
        transaction.append(fact())
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        store.write(change)

    assert store.read(lambda reader: reader.node_runs("r1")) == ()
    assert list(store.audit_events()) == []
