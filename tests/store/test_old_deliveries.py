"""What monitors sent goes after a while; what has run, or is still to be judged, stays."""

from datetime import timedelta

import pytest

from service.app.alert_ports import AlertFilter
from service.domain.delivery import AlertVerdict, HeldBy
from service.domain.errors import NotFound
from service.domain.rails import Earlier
from service.store.sql_store import SqlStore
from tests.store.alerts_made import alert, delivery
from tests.store.made import NOON

pytest_plugins = ["lab.fixtures"]


def test_old_deliveries_go_and_what_has_run_or_is_still_to_be_judged_stays(store: SqlStore) -> None:
    old = NOON - timedelta(days=100)
    decided = {"judged_at": old, "wake_at": None, "received_at": old}
    kept_of_one = alert(0, "ran", verdict=AlertVerdict.RAN, run_id="r1", **decided)
    rest_of_it = alert(1, "ran", verdict=AlertVerdict.DEDUPLICATED, run_id="r1", **decided)
    held = alert(0, "held", verdict=AlertVerdict.HELD, held_by=HeldBy.PAUSE, received_at=old)
    new = alert(0, "new", verdict=AlertVerdict.NO_RULE, judged_at=NOON, wake_at=None)
    for name, moment, alerts in (
        ("ran", old, [kept_of_one, rest_of_it]),
        ("held", old, [held, alert(1, "held", verdict=AlertVerdict.NO_RULE, **decided)]),
        ("unjudged", old, [alert(0, "unjudged", received_at=old)]),
        ("seen", old, [alert(0, "seen", verdict=AlertVerdict.NO_RULE, **decided)]),
        ("empty", old, []),
        ("new", NOON, [new]),
    ):
        made = delivery(name, received_at=moment)
        store.write(lambda transaction, made=made, alerts=alerts: transaction.add_deliveries([made], alerts))  # type: ignore[misc]
    before = NOON - timedelta(days=90)

    assert store.read(lambda reader: reader.has_old(before, before))
    dropped = [store.write(lambda transaction: transaction.drop_deliveries(before, limit=2)) for _ in range(3)]

    assert dropped == [2, 1, 0]
    assert not store.read(lambda reader: reader.has_old(before, before))
    page = store.read(lambda reader: reader.alerts(AlertFilter(), cursor=None, limit=100))
    assert sorted(one.id for one in page.items) == [
        "held-00000",
        "held-00001",
        "new-00000",
        "ran-00000",
        "unjudged-00000",
    ]
    assert store.read(lambda reader: reader.delivery("ran")) == delivery("ran", received_at=old, body=b"")
    assert store.read(lambda reader: reader.delivery("held").body) == delivery("held").body
    for gone in ("seen", "empty"):
        with pytest.raises(NotFound):
            store.read(lambda reader, gone=gone: reader.delivery(gone))  # type: ignore[misc]
    facts = [one.fact for one in store.audit_events()]
    assert [(one.action, one.body["deliveries"], one.body["alerts"]) for one in facts] == [
        ("delivery.dropped", 1, 1),
        ("delivery.dropped", 1, 1),
    ]


def test_an_alert_that_has_run_is_known_again_after_its_delivery_was_dropped(store: SqlStore) -> None:
    old = NOON - timedelta(days=100)
    ran = alert(0, "ran", verdict=AlertVerdict.RAN, run_id="r1", judged_at=old, wake_at=None, received_at=old)
    store.write(lambda transaction: transaction.add_deliveries([delivery("ran", received_at=old)], [ran]))

    store.write(lambda transaction: transaction.drop_deliveries(NOON, limit=50))

    said_again = alert(0, "again")
    assert store.read(lambda reader: reader.earlier(said_again)) == Earlier("ran-00000", AlertVerdict.RAN, "r1")
