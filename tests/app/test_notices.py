"""People are told what the record says: nothing is lost over a stop, nothing old is told as new, and no secret."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from service.app.notice_ports import Outgoing, TellingFilter
from service.app.notify import KEPT_FOR, Follower, drop_old_notices
from service.app.notify_tell import deliver, leave_out_strangers, parcels
from service.app.pause_alerts import pause_alerts
from service.app.ports import Store
from service.domain.audit import Fact
from service.domain.errors import ConfigInvalid, NotTold, Unavailable
from service.domain.notice import PAUSES, NoticeKind, NoticeRule, NotifyConfig, Receiver, TellingState
from service.domain.person import Person, Role
from service.domain.script import Report, ReportState
from service.engine.local import _fault_of
from service.engine.notifying import Notifying
from service.executors.scripted import Answer
from tests.app.alerting import alert, rule, say
from tests.app.alerting import follow as obey
from tests.app.conftest import Make, works
from tests.support.notices import BASE, HOOK, ONCALL, Fixed, Kept, config, every, follow, listen, states, tell
from tests.support.world import World

ADMIN = Person("root", frozenset({Role.ADMIN}))
NODES = tuple(f"gpu-{number:02}" for number in range(1, 6))
UNKILLABLE = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))
#: It only stops a hang.
LONG = 60


def told(world: World) -> list[tuple[str, str, str]]:
    """Return the kind, state and reason of every telling."""
    return [(one.notice.kind.value, one.telling.state.value, one.telling.reason) for one in every(world)]


def test_a_gate_and_the_end_of_its_run_are_told(make: Make) -> None:
    world = make(works("cure"))
    follower, kept = listen(world)

    run = world.request("cure", "gpu-01", reason="readers hang")
    world.settle()
    follow(follower)
    tell(world)
    world.play(run)
    follow(follower)
    tell(world)

    assert kept.titles == ["Gate open: cure, step cure, on gpu-01", "Ended succeeded: cure on gpu-01"]
    assert kept.texts[1] == (
        f"In all: 1 node cured\nWhy it ran: operator asked for it: readers hang\nType: unstick show {run.id}"
    )
    assert states(world) == ["sent", "sent"]


def test_a_stuck_node_and_a_pause_are_told_and_a_dry_run_of_a_person_is_not(make: Make) -> None:
    world = make(works("cure") | {"cure.run": [UNKILLABLE]})
    follower, kept = listen(world)

    world.play(world.request("cure", "gpu-01", dry_run=True))
    world.play(world.request("cure", "gpu-01"))
    pause_alerts(world.service, person=ADMIN, reason="a rule is wrong")
    follow(follower)
    tell(world)

    assert kept.titles == ["Stuck: cure on gpu-01", "Alerts were paused by root"]


def test_what_an_alert_began_says_which_and_waived_gates_are_not_told(make: Make) -> None:
    world = obey(make(works("cure")), rule())
    follower, kept = listen(world, config(NoticeRule(("oncall",), only_alerts=True)))

    say(world, alert(world))
    world.settle()
    world.play(world.request("cure", "gpu-01"))
    follow(follower)
    tell(world)

    assert [text.splitlines()[1] for text in kept.texts] == [
        "Why it ran: rule ghost: Alert Ghost of prom, firing since 2026-11-29 02:59:00 UTC."
    ]


def test_a_dry_run_that_an_alert_began_says_what_it_would_change(make: Make) -> None:
    world = obey(make(works("cure")), rule(dry_run=True))
    follower, kept = listen(world)

    say(world, alert(world))
    world.settle()
    follow(follower)
    tell(world)

    assert kept.titles == ["Ended succeeded: dry run of cure on gpu-01"]
    assert kept.texts[0].splitlines()[2] == "It would change gpu-01 (step cure); nothing was changed."


def test_gates_that_open_within_seconds_are_one_notice(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    follower, kept = listen(world)
    world.request("cure", *NODES)
    while world.step():
        # As if they opened one after the other: each is seen by itself.
        follow(follower)

    tell(world)

    assert kept.titles == ["5 gates open: cure, step cure, on gpu-01, gpu-02, gpu-03 and 2 more"]
    assert [one.notice.gates for one in every(world)] == [tuple(gate.id for gate in reversed(world.open_gates()))]


def test_a_fresh_installation_tells_nothing_of_the_past_and_who_joins_later_is_not_told_it(make: Make) -> None:
    world = make(works("cure"))
    world.play(world.request("cure", "gpu-01"))
    follower, kept = listen(world)
    follow(follower)

    world.service = replace(world.service, notify=Fixed(NotifyConfig()))
    Follower(world.service).follow()
    world.play(world.request("cure", "gpu-01"))
    follower, later = listen(world)
    follow(follower)
    tell(world)

    assert (kept.titles, later.titles) == ([], [])


def test_after_a_stop_nothing_is_lost_and_nothing_is_told_twice(make: Make) -> None:
    world = make(works("cure") | works("strike"))
    follower, kept = listen(world)
    world.play(world.request("cure", "gpu-01"), approve=False)
    follow(follower)
    world.play(world.request("stronger", "gpu-01", take_over=True), approve=False)

    follow(Follower(world.service))
    tell(world)
    follow(Follower(world.service))
    tell(world)

    assert sorted(kept.titles) == ["Ended cancelled: cure on gpu-01", "Gate open: stronger, step strike, on gpu-01"]
    assert [one for one in told(world) if one[1] != "sent"] == [
        ("gate", "left_out", "The gate is void already."),
    ]


def test_a_gate_that_somebody_has_answered_meanwhile_is_left_out_with_what_became_of_it(make: Make) -> None:
    world = make(works("cure"), nodes=NODES[:2])
    follower, kept = listen(world)
    run = world.request("cure", *NODES[:2])
    world.settle()
    follow(follower)
    first, second = reversed(world.open_gates())
    world.answer(first)

    tell(world)
    kept.told.clear()
    world.answer(second)
    follow(Follower(world.service))
    world.play(run)
    other = world.request("cure", "gpu-01")
    world.settle()
    follow(follower)
    world.play(other)
    follow(follower)
    tell(world)

    assert (first.node, second.node) == NODES[:2]
    assert kept.titles == ["Ended succeeded: cure on gpu-01, gpu-02", "Ended succeeded: cure on gpu-01"]
    assert [one for one in told(world) if one[1] == "left_out"] == [
        ("gate", "left_out", "The gate is approved already by second.")
    ]


@dataclass
class Failing:
    """A store in front of another, of which the nth write is done and its answer lost, or not done at all."""

    store: Store
    fails: int
    after: bool

    def write(self, change: Callable[[Any], Any]) -> Any:
        self.fails -= 1
        if self.fails == 0 and not self.after:
            raise Unavailable("The disk is full.")
        found = self.store.write(change)
        if self.fails == 0:
            raise Unavailable("The answer was lost.")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.mark.parametrize("after", [False, True])
def test_a_store_that_fails_loses_no_notice_and_makes_none_twice(make: Make, after: bool) -> None:
    world = make(works("cure"))
    _, kept = listen(world)
    world.play(world.request("cure", "gpu-01"))
    failing = Follower(replace(world.service, store=Failing(world.service.store, 1, after)))

    with pytest.raises(Unavailable):
        failing.follow()
    follow(failing)
    tell(world)

    assert kept.titles == ["Ended succeeded: cure on gpu-01"]


def test_what_was_sent_and_not_recorded_is_sent_again_under_the_same_id(make: Make) -> None:
    world = make(works("cure"))
    follower, kept = listen(world, config(NoticeRule(("hook",)), receivers=(HOOK,)))
    world.play(world.request("cure", "gpu-01"))
    follow(follower)
    world.move_to(world.clock.now() + timedelta(seconds=10))
    lost = replace(world.service, store=Failing(world.service.store, 1, after=False))
    parcel = [
        one for one in parcels(world.service, HOOK, base_url=BASE, most=9) if one.outgoing.message.kind == "ended"
    ]

    with pytest.raises(Unavailable):
        deliver(lost, parcel[0])
    tell(world)

    assert [outgoing.id for _, outgoing in kept.told] == [parcel[0].tellings[0].id] * 2


def test_a_receiver_that_refuses_is_tried_again_and_given_up_while_others_are_told(make: Make) -> None:
    world = make(works("cure"))
    both = config(NoticeRule(("oncall", "hook"), frozenset({NoticeKind.ENDED})), receivers=(ONCALL, HOOK))
    follower, kept = listen(world, both)
    kept.broken["hook"] = NotTold("It answered 500.")
    world.play(world.request("cure", "gpu-01"))
    follow(follower)

    for _ in range(len(PAUSES) + 3):
        tell(world, after=PAUSES[-1].total_seconds())

    assert [name for name, _ in kept.told] == ["oncall"]
    assert sorted(
        (one.telling.receiver, one.telling.state, one.telling.attempts, one.telling.reason) for one in every(world)
    ) == [
        ("hook", TellingState.GIVEN_UP, len(PAUSES) + 1, "It answered 500."),
        ("oncall", TellingState.SENT, 1, ""),
    ]
    backlog = world.service.store.read(lambda reader: reader.telling_backlog(world.clock.now() - timedelta(days=1)))
    assert {name: (one.pending, one.given_up) for name, one in backlog.items()} == {"hook": (0, 1)}


def test_a_storm_is_one_message_and_what_is_too_much_for_a_minute_waits(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    follower, kept = listen(world)
    for node in NODES:
        world.play(world.request("cure", node))
    follow(follower)

    tell(world, most=0)
    held_back = list(kept.told)
    tell(world)

    assert held_back == []
    assert [title for title in kept.titles if title.startswith("5")] == ["5 runs have ended"]
    assert set(states(world)) == {"sent", "left_out"}


def test_what_is_pending_for_a_receiver_that_is_gone_is_left_out(make: Make) -> None:
    world = make(works("cure"))
    follower, kept = listen(world)
    kept.broken["oncall"] = NotTold("It answered 500.")
    world.play(world.request("cure", "gpu-01"))
    follow(follower)
    tell(world)

    left = leave_out_strangers(world.service, config(NoticeRule(("hook",)), receivers=(HOOK,)))

    assert left == 1
    assert ("ended", "left_out", "The receiver is not named in notify.yaml any more.") in told(world)


def test_notices_are_let_go_when_their_time_is_over(make: Make) -> None:
    world = make(works("cure"))
    follower, _ = listen(world)
    world.play(world.request("cure", "gpu-01"))
    follow(follower)
    assert len(every(world)) == 2

    world.move_to(world.clock.now() + KEPT_FOR + timedelta(days=1))

    assert (drop_old_notices(world.service), every(world)) == (2, [])


@dataclass
class Slow(Kept):
    """A sender in which one receiver never comes back."""

    stop: threading.Event = None  # type: ignore[assignment]

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        if receiver.name == "hook":
            self.stop.wait(LONG)
            return
        super().tell(receiver, outgoing, now=now)


def test_a_receiver_that_hangs_keeps_no_other_waiting_and_is_tried_again(make: Make) -> None:
    world = make(works("cure"))
    ended = NoticeRule(("hook", "oncall"), frozenset({NoticeKind.ENDED}))
    follower, _ = listen(world, config(ended, receivers=(HOOK, ONCALL)))
    slow = Slow(stop=threading.Event())
    world.service = replace(world.service, sender=slow)
    world.play(world.request("cure", "gpu-01"))
    follow(follower)
    notifying = Notifying(world.service, fault_of=_fault_of, patience=1.0, tick=0.01)

    notifying.start()
    try:
        waited = threading.Event()
        for _ in range(LONG * 100):
            found = {one.telling.receiver: one.telling for one in every(world)}
            if found["oncall"].state is TellingState.SENT and found["hook"].attempts:
                break
            waited.wait(0.01)
    finally:
        slow.stop.set()
        notifying.stop(LONG)

    assert (found["hook"].state, found["hook"].attempts) == (TellingState.PENDING, 1)
    assert found["hook"].reason == "It has not taken it within 1 seconds."
    assert slow.titles == ["Ended succeeded: cure on gpu-01"]


def test_an_event_that_no_notice_can_be_made_of_is_left_out_and_the_next_is_told(make: Make) -> None:
    world = make(works("cure"))
    _, kept = listen(world, config(NoticeRule(("oncall",), frozenset({NoticeKind.ENDED}))))
    world.service.store.write(lambda transaction: transaction.append(Fact("run.ended", "run/none", "x", run_id="none")))
    world.play(world.request("cure", "gpu-01"))
    notifying = Notifying(world.service, fault_of=_fault_of)

    for _ in range(5):
        notifying._follow()
    tell(world)

    assert kept.titles == ["Ended succeeded: cure on gpu-01"]
    assert (
        world.service.store.read(
            lambda reader: reader.tellings(TellingFilter(receiver="nobody"), cursor=None, limit=5)
        ).items
        == ()
    )


@dataclass
class Broken:
    """A file that was never good."""

    def current(self) -> NotifyConfig:
        raise ConfigInvalid("notify.yaml:1: The file is empty.")


def test_while_a_file_is_wrong_nothing_is_lost_and_the_log_says_it_once(
    make: Make,
) -> None:
    world = make(works("cure"))
    _, kept = listen(world)
    listened = world.service
    world.service = replace(listened, notify=Broken())
    notifying = Notifying(world.service, fault_of=_fault_of)
    world.play(world.request("cure", "gpu-01"))
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            notifying._follow()
            notifying._begin_rounds()

    world.service = listened
    follow(Follower(listened))
    tell(world)

    assert [(one["event"], one["reason"]) for one in logs] == [
        ("notices.file_unusable", "notify.yaml:1: The file is empty.")
    ]
    assert kept.titles == ["Ended succeeded: cure on gpu-01"]


def test_no_more_messages_are_sent_in_a_minute_than_a_receiver_may_get(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    slow = replace(HOOK, per_minute=2)
    follower, kept = listen(world, config(NoticeRule(("hook",), frozenset({NoticeKind.ENDED})), receivers=(slow,)))
    for node in NODES:
        world.play(world.request("cure", node))
    follow(follower)
    notifying = Notifying(world.service, fault_of=_fault_of)

    for _ in range(3):
        notifying._begin_rounds()
        notifying.stop(LONG)
        notifying._ending.clear()

    assert len(kept.told) == 2
    assert sorted(states(world)) == ["pending"] * 3 + ["sent"] * 2
