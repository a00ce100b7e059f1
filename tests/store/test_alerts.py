"""Deliveries and alerts on both databases: what is written comes back, once, and what the rails ask is answered."""

from dataclasses import replace
from typing import Any

import pytest
from alembic import command
from sqlalchemy import text

from service.app.alert_ports import AlertFilter
from service.app.ports import Transaction
from service.domain.alert import AlertStatus
from service.domain.delivery import (
    AlertVerdict,
    Breaker,
    HeldBy,
    Pause,
    RecordedAlert,
)
from service.domain.errors import Conflict, NotFound
from service.domain.rails import Earlier, PastRun
from service.domain.run import AttemptState, NodeRunState, Trigger, TriggerKind, Verdict
from service.store import migrate
from service.store.session import open_database
from service.store.sql_store import SqlStore
from tests.store.alerts_made import alert, delivery, later
from tests.store.made import NOON, TestClock, add, attempt, behind, node_run, run

pytest_plugins = ["lab.fixtures"]


def put(store: SqlStore, *alerts: RecordedAlert, **changed: Any) -> None:
    store.write(lambda transaction: transaction.add_deliveries([delivery(**changed)], alerts))


def save(store: SqlStore, changed: RecordedAlert) -> None:
    store.write(lambda transaction: transaction.save_alert(changed))


def held(one: RecordedAlert, by: HeldBy = HeldBy.BUSY, **changed: Any) -> RecordedAlert:
    more = {"node": "gpu-01", "judged_at": NOON, "wake_at": later(60), **changed}
    return replace(one, verdict=AlertVerdict.HELD, held_by=by, **more)


def ids(found: tuple[RecordedAlert, ...]) -> list[int]:
    return [one.index for one in found]


def test_a_delivery_and_its_alerts_come_back_as_they_were(store: SqlStore) -> None:
    judged = alert(
        1, verdict=AlertVerdict.RAN, judged_at=NOON, rule="r", node="n", run_id="r1", reason="x", wake_at=None
    )
    put(store, alert(0), judged)

    assert store.read(lambda reader: reader.delivery("d1")) == delivery()
    assert store.read(lambda reader: reader.delivery_by_key("prom", "key-d1")) == delivery()
    assert store.read(lambda reader: reader.delivery_by_key("graf", "key-d1")) is None
    assert store.read(lambda reader: reader.alert("d1-00000")) == alert(0)
    assert store.read(lambda reader: reader.alert("d1-00001")) == judged
    for look in ("delivery", "alert"):
        with pytest.raises(NotFound):
            store.read(lambda reader, name=look: getattr(reader, name)("none"))  # type: ignore[misc]


def test_a_key_counts_once_for_its_source_and_none_is_no_key(store: SqlStore) -> None:
    put(store)
    with pytest.raises(Conflict):
        put(store, alert(0, "d2"), name="d2", delivery_key="key-d1")
    put(store, name="d3", delivery_key="key-d1", source="graf")
    put(store, name="d4", delivery_key=None)
    put(store, name="d5", delivery_key=None)

    with pytest.raises(NotFound):
        store.read(lambda reader: reader.alert("d2-00000"))


def test_alerts_are_due_oldest_first_until_they_are_decided(store: SqlStore) -> None:
    put(store, *(alert(index) for index in range(4)))
    save(store, replace(alert(1), verdict=AlertVerdict.STALE, wake_at=None))
    save(store, held(alert(2)))

    assert ids(store.read(lambda reader: reader.due_alerts(later(3), limit=9))) == [0, 3]
    assert ids(store.read(lambda reader: reader.due_alerts(later(60), limit=9))) == [0, 3, 2]
    assert store.read(lambda reader: reader.next_alert_wake()) == NOON
    assert [store.read(lambda reader, n=most: reader.waiting_alerts(most=n)) for most in (1, 9)] == [1, 2]  # type: ignore[misc]
    with pytest.raises(Conflict, match="was judged already"):
        save(store, replace(alert(1), verdict=AlertVerdict.RAN))


def test_deliveries_are_added_together_or_not_at_all(store: SqlStore) -> None:
    both = [delivery("d1"), delivery("d2", delivery_key=None)]
    same = [delivery("d3"), delivery("d4", delivery_key="key-d1")]

    store.write(lambda transaction: transaction.add_deliveries(both, [alert(0), alert(0, of="d2"), alert(1, of="d2")]))
    with pytest.raises(Conflict):
        store.write(lambda transaction: transaction.add_deliveries(same, [alert(0, of="d3")]))

    kept = store.read(lambda reader: reader.alerts(AlertFilter(), cursor=None, limit=9))
    assert [one.id for one in kept.items] == ["d2-00001", "d2-00000", "d1-00000"]
    assert store.read(lambda reader: [reader.delivery(one.id) for one in both]) == both


def test_a_list_of_alerts_pages_and_is_filtered(store: SqlStore) -> None:
    put(store, *(alert(index, node=f"gpu-{index % 2}") for index in range(5)))

    first = store.read(lambda reader: reader.alerts(AlertFilter(), cursor=None, limit=3))
    rest = store.read(lambda reader: reader.alerts(AlertFilter(), cursor=first.next_cursor, limit=3))
    of_node = store.read(lambda reader: reader.alerts(AlertFilter(node="gpu-1", source="prom"), cursor=None, limit=9))
    since = store.read(lambda reader: reader.alerts_since(later(1), after=None, limit=2))
    on = store.read(lambda reader: reader.alerts_since(later(1), after=since[-1], limit=9))

    assert (ids(first.items), ids(rest.items), rest.next_cursor) == ([4, 3, 2], [1, 0], None)
    assert ids(of_node.items) == [3, 1]
    assert (ids(since), ids(on)) == ([1, 2], [3, 4])


def test_what_is_known_of_a_fault_is_found(store: SqlStore) -> None:
    put(
        store,
        alert(0),
        alert(1),
        alert(2, fingerprint="f2"),
        alert(3, starts_at=later(9)),
        alert(4, status=AlertStatus.RESOLVED, starts_at=later(5)),
        alert(5, verdict=AlertVerdict.SET_ASIDE),
    )
    save(store, held(alert(0)))
    known = store.read(lambda reader: [reader.earlier(alert(1)), reader.heard_at(alert(0))])
    save(store, replace(alert(1), verdict=AlertVerdict.RAN, run_id="r1", wake_at=None))

    assert known == [Earlier("d1-00000", AlertVerdict.HELD), later(1)]
    assert store.read(lambda reader: reader.earlier(alert(9))) == Earlier("d1-00001", AlertVerdict.RAN, "r1")
    assert store.read(lambda reader: reader.earlier(alert(2, fingerprint="f2"))) is None
    of_another = alert(9, source="graf")
    assert store.read(lambda reader: [reader.earlier(of_another), reader.resolved_at(of_another)]) == [None, None]
    assert store.read(lambda reader: reader.resolved_at(alert(0))) == later(4)
    assert store.read(lambda reader: reader.resolved_at(alert(3, starts_at=later(9)))) is None
    assert ids(store.read(lambda reader: reader.of_fault(alert(4, starts_at=later(5))))) == [1, 0]
    assert ids(store.read(lambda reader: reader.alerts_of_run("r1"))) == [1]


def test_held_alerts_are_woken_by_what_they_wait_for(store: SqlStore) -> None:
    put(store, *(alert(index) for index in range(4)))
    save(store, held(alert(0)))
    save(store, held(alert(1), node="gpu-02"))
    save(store, held(alert(2), HeldBy.BLAST_RADIUS))
    save(store, held(alert(3), HeldBy.BLAST_RADIUS))

    def wake(transaction: Transaction) -> tuple[int, int]:
        busy = transaction.wake_alerts(at=later(5), node="gpu-01", held_by=HeldBy.BUSY)
        return busy, transaction.wake_alerts(at=later(5), held_by=HeldBy.BLAST_RADIUS, most=1)

    assert store.write(wake) == (1, 1)
    assert ids(store.read(lambda reader: reader.due_alerts(later(5), limit=9))) == [0, 2]


def test_the_past_of_a_node_is_told_with_the_rules_that_made_it(store: SqlStore) -> None:
    by_alert = Trigger(TriggerKind.ALERT, "ghost")
    add(store, run("r1", trigger=by_alert), node_run("r1", state=NodeRunState.RUNNING, started_at=NOON))
    add(store, run("r2", at=later(5)), node_run("r2", node="gpu-02", state=NodeRunState.QUEUED))
    add(store, run("r3", at=later(6), trigger=by_alert), node_run("r3", node="gpu-03", state=NodeRunState.QUEUED))
    ended: dict[str, Any] = {
        "state": NodeRunState.SUCCEEDED,
        "verdict": Verdict.CURED,
        "started_at": later(7),
        "ended_at": later(8),
    }
    add(store, run("r4", at=later(7), trigger=by_alert, escalated_from="r1"), node_run("r4", **ended))
    rebooted = attempt("r4-gpu-01", state=AttemptState.REBOOTED, acting=True, intended_at=later(7))
    store.write(lambda transaction: transaction.add_attempt(rebooted))

    past = store.read(lambda reader: reader.past_runs("gpu-01", limit=9))

    assert [(one.run_id, one.rule, one.escalated, one.verdict) for one in past] == [
        ("r4", "ghost", True, Verdict.CURED),
        ("r1", "ghost", False, None),
    ]
    assert isinstance(past[0], PastRun)
    assert store.read(lambda reader: reader.rebooted_at("gpu-01")) == later(7)
    assert store.read(lambda reader: reader.rebooted_at("gpu-02")) is None
    assert store.read(lambda reader: reader.disrupted_nodes()) == {"gpu-01", "gpu-03"}
    assert store.read(lambda reader: reader.disrupted_since(later(5))) == {"gpu-01", "gpu-03"}
    assert store.read(lambda reader: reader.disrupted_since(later(7))) == frozenset()


def test_a_pause_and_a_breaker_come_back_and_go(store: SqlStore) -> None:
    latched = Breaker("blast-radius", NOON, "10 nodes")

    def record(transaction: Transaction) -> None:
        transaction.lock_alerts()
        transaction.put_pause(Pause("ann", "x", NOON))
        transaction.put_pause(Pause("bob", "y", NOON))
        transaction.put_breaker(Breaker("blast-radius"))
        transaction.put_breaker(latched)

    before = store.read(lambda reader: (reader.pause(), reader.breaker("blast-radius")))
    store.write(record)

    assert before == (None, Breaker("blast-radius"))
    assert store.read(lambda reader: (reader.pause(), reader.breaker("blast-radius"))) == (
        Pause("bob", "y", NOON),
        latched,
    )
    store.write(lambda transaction: transaction.remove_pause())
    assert store.read(lambda reader: reader.pause()) is None


def test_a_database_of_the_first_revision_keeps_what_it_has(empty_url: str, clock: TestClock) -> None:
    database = open_database(empty_url)
    config = migrate._config()
    with database.writer.connect() as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    database.close()
    with behind(empty_url) as connection:
        connection.execute(
            text("INSERT INTO holds VALUES ('gpu-01', 'ann', 'x', :at, NULL)"), {"at": _stored(empty_url)}
        )

    assert migrate.upgrade(empty_url) == ("0001", migrate.head())

    store = SqlStore.open(empty_url, clock)
    hold = store.read(lambda reader: reader.hold("gpu-01"))
    put(store, alert(0))
    assert (hold is not None and hold.by, store.read(lambda reader: reader.alert("d1-00000"))) == ("ann", alert(0))
    store.close()


def _stored(url: str) -> object:
    return NOON if url.startswith("postgresql") else "2026-03-01T12:00:00.000000Z"
