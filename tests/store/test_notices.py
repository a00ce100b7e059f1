"""Notices on both databases: what is written comes back, the place in the audit moves once, lists go page by page."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from service.app.notice_ports import TellingBacklog, TellingFilter
from service.domain.errors import Conflict
from service.domain.notice import Notice, NoticeKind, Telling, TellingState, Told
from service.store.sql_store import SqlStore
from tests.store.made import NOON

pytest_plugins = ["lab.fixtures"]


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def notice(number: int = 1, **changed: Any) -> Notice:
    facts = {"why": "é\u2400", "gates": [{"id": f"g{number}", "node": "gpu-01", "targets": ["it"]}]}
    made = Notice(
        f"n{number}", NoticeKind.GATE, later(number), "k", facts, "r1", "cure", ("gpu-01",), ("h100",), by_alert=True
    )
    return replace(made, gathers_until=later(number + 1), **changed)


def put(store: SqlStore, one: Notice, *receivers: str) -> list[Telling]:
    tellings = [Telling(one.id, name, one.at, next_at=later(10)) for name in receivers]
    store.write(lambda transaction: transaction.add_notice(one, tellings))
    return tellings


def save(store: SqlStore, *some: Telling) -> None:
    store.write(lambda transaction: transaction.save_tellings(some))


def listed(store: SqlStore, **which: Any) -> list[str]:
    page = store.read(lambda reader: reader.tellings(TellingFilter(**which), cursor=None, limit=50))
    return [one.telling.id for one in page.items]


def test_the_place_in_the_audit_is_moved_by_whoever_knows_where_it_stands(store: SqlStore) -> None:
    def move(before: int | None, after: int | None) -> None:
        store.write(lambda transaction: transaction.move_notice_cursor(before, after))

    assert store.read(lambda reader: reader.notice_cursor()) is None
    move(None, 5)
    for before, after in ((None, 9), (4, 9), (4, None)):
        with pytest.raises(Conflict):
            move(before, after)
    move(5, 9)

    assert store.read(lambda reader: reader.notice_cursor()) == 9
    move(9, None)
    assert store.read(lambda reader: reader.notice_cursor()) is None


def test_what_is_told_comes_back_when_it_is_due_and_what_has_ended_stays_so(store: SqlStore) -> None:
    one = notice()
    chat, hook = put(store, one, "oncall", "hook")

    assert store.read(lambda reader: reader.due_tellings("oncall", later(9), limit=9)) == ()
    assert store.read(lambda reader: reader.due_tellings("oncall", later(10), limit=9)) == (Told(chat, one),)
    assert store.read(lambda reader: reader.pending_receivers()) == {"oncall", "hook"}
    sent = chat.sent(later(11))
    save(store, sent)
    save(store, chat.failed("too late", now=later(12), final=False))
    found = store.read(lambda reader: reader.tellings(TellingFilter(receiver="oncall"), cursor=None, limit=9)).items
    assert found == (Told(sent, one),)
    assert store.read(lambda reader: reader.pending_receivers()) == {"hook"}
    left = store.write(lambda transaction: transaction.leave_out(["hook"], reason="gone", now=later(12)))
    assert (left, listed(store, state=TellingState.LEFT_OUT)) == (1, [hook.id])


def test_gates_come_into_a_notice_while_it_gathers(store: SqlStore) -> None:
    one = notice()
    put(store, one, "oncall")
    grown = one.with_gates_of(notice(2, nodes=("gpu-02",)))

    store.write(lambda transaction: transaction.save_gathered(grown))

    assert store.read(lambda reader: reader.gathering("k", later(1.5))) == grown
    assert store.read(lambda reader: reader.gathering("k", later(2))) is None
    assert store.read(lambda reader: reader.gathering("other", later(1.5))) is None
    assert (grown.gates, grown.nodes) == (("g1", "g2"), ("gpu-01", "gpu-02"))


def test_lists_go_page_by_page_and_numbers_are_by_receiver(store: SqlStore) -> None:
    for number in range(1, 6):
        chat, hook = put(store, notice(number), "oncall", "hook")
        save(store, hook.failed("500", now=later(number), final=True))
        if number > 2:
            save(store, chat.sent(later(20)))

    ids, cursor = [], None
    while True:
        page = store.read(lambda reader, at=cursor: reader.tellings(TellingFilter(), cursor=at, limit=3))  # type: ignore[misc]
        ids += [one.telling.id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert ids == [f"n{number}.{name}" for number in range(5, 0, -1) for name in ("oncall", "hook")]
    assert listed(store, state=TellingState.GIVEN_UP, kind=NoticeKind.GATE) == [f"n{n}.hook" for n in range(5, 0, -1)]
    assert listed(store, kind=NoticeKind.STUCK) == []
    assert store.read(lambda reader: reader.telling_backlog(later(3))) == {
        "hook": TellingBacklog(0, None, 3),
        "oncall": TellingBacklog(2, later(1), 0),
    }


def test_the_oldest_notices_are_let_go_first(store: SqlStore) -> None:
    for number in range(1, 5):
        put(store, notice(number), "oncall")

    dropped = [
        store.write(lambda transaction: transaction.drop_notices(later(4), limit=2)),
        store.write(lambda transaction: transaction.drop_notices(later(4), limit=2)),
    ]

    assert (dropped, listed(store)) == ([2, 1], ["n4.oncall"])
