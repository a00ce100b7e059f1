"""Who is told, how often it is tried, and what becomes one message."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.domain.notice import (
    PAUSES,
    Notice,
    NoticeKind,
    NoticeRule,
    NotifyConfig,
    Receiver,
    ReceiverKind,
    Telling,
    TellingState,
    Told,
    together,
)

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
CHAT = Receiver("oncall", ReceiverKind.CHAT)
HOOK = Receiver("hook", ReceiverKind.WEBHOOK)


def notice(name: str = "n1", kind: NoticeKind = NoticeKind.GATE, **changed: Any) -> Notice:
    made = Notice(name, kind, NOW, "k", {}, "r1", "cure", ("gpu-01",), ("h100",))
    return replace(made, **changed)


def due(*kinds: NoticeKind) -> list[Told]:
    return [Told(Telling(f"n{number}", "oncall", NOW), notice(f"n{number}", kind)) for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        (NoticeRule(("a",)), True),
        (NoticeRule(("a",), on=frozenset({NoticeKind.ENDED})), False),
        (NoticeRule(("a",), runbooks=frozenset({"cure"})), True),
        (NoticeRule(("a",), runbooks=frozenset({"other"})), False),
        (NoticeRule(("a",), pools=frozenset({"h100", "a100"})), True),
        (NoticeRule(("a",), pools=frozenset({"a100"})), False),
        (NoticeRule(("a",), only_alerts=True), False),
    ],
)
def test_a_rule_means_a_notice_by_kind_runbook_pool_and_what_began_it(rule: NoticeRule, meant: bool) -> None:
    assert rule.means(notice()) is meant


def test_a_breaker_is_for_everybody_who_is_told_of_breakers_whatever_the_runbook_or_pool() -> None:
    rule = NoticeRule(("a",), runbooks=frozenset({"x"}), pools=frozenset({"y"}), only_alerts=True)

    assert rule.means(notice(kind=NoticeKind.BREAKER, run_id="", runbook="", pools=()))


def test_who_is_meant_by_two_rules_is_told_once() -> None:
    both = NotifyConfig(rules=(NoticeRule(("a", "b")), NoticeRule(("b", "c"))))

    assert both.receivers_of(notice()) == ("a", "b", "c")


def test_a_telling_is_tried_again_after_longer_and_longer_pauses_and_then_given_up() -> None:
    telling, moments = Telling("n1", "oncall", NOW, next_at=NOW), []
    while telling.state is TellingState.PENDING:
        moments.append(telling.next_at)
        telling = telling.failed("it answered 500", now=NOW, final=False)

    assert moments == [NOW, *(NOW + pause for pause in PAUSES)]
    assert telling == Telling(
        "n1", "oncall", NOW, TellingState.GIVEN_UP, len(PAUSES) + 1, None, ended_at=NOW, reason="it answered 500"
    )
    assert sum(PAUSES, timedelta()) < timedelta(hours=13)


def test_a_receiver_that_wants_nothing_more_is_not_asked_again() -> None:
    assert Telling("n1", "hook", NOW).failed("410", now=NOW, final=True).state is TellingState.GIVEN_UP


def test_a_chat_gets_few_notices_one_by_one_and_many_of_a_kind_as_one() -> None:
    gate, ended = NoticeKind.GATE, NoticeKind.ENDED
    few, many = due(gate, gate, ended), due(gate, ended, gate, gate, gate)

    assert together(few, CHAT, most=20) == tuple((one,) for one in few)
    assert together(many, CHAT, most=20) == ((many[0], *many[2:]), (many[1],))


def test_where_there_is_room_for_few_messages_notices_of_a_kind_go_together() -> None:
    some = due(NoticeKind.GATE, NoticeKind.GATE, NoticeKind.ENDED)

    assert together(some, CHAT, most=1) == ((some[0], some[1]),)
    assert together(some, CHAT, most=0) == ()


def test_a_program_gets_each_by_itself() -> None:
    many = due(*[NoticeKind.GATE] * 9)

    assert together(many, HOOK, most=7) == tuple((one,) for one in many[:7])
