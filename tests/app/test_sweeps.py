"""Sweeps: one dry run for each time, none twice, none in silence, and never in the way of a cure."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from service.app.hold_node import hold_node
from service.app.ports import Transaction
from service.app.sweep_due import play_due_sweeps
from service.app.sweep_fleet import fleet
from service.app.sweep_places import MOST_AT_ONCE, end_late, give_places
from service.app.sweep_request import run_sweep
from service.domain.errors import Conflict, NotFound, Unavailable
from service.domain.run import NodeRunState, TriggerKind
from service.domain.script import NotStarted, Report, ReportState
from service.domain.sweep import Finding, StepFinding
from service.executors.scripted import Answer, exits
from tests.app.alerting import every
from tests.app.conftest import Make, works
from tests.app.sweeping import come, found, last_run, look, row, schedule, state, sweep, turn
from tests.support.world import OPERATOR, FixedInventory, World, local_nodes

FINE = {"cure.check": [exits(77)], "cure.verify": [exits(0)]}
DARK = Answer(Report(ReportState.NOT_STARTED, not_started=NotStarted.UNREACHABLE, reason="No answer."))


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 11, 29, hour, minute, tzinfo=UTC)


def runs(world: World) -> list[str]:
    facts = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=10_000))
    return [one.fact.about for one in facts if one.fact.action == "run.requested"]


def told(world: World, action: str) -> list[dict[str, object]]:
    facts = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=10_000))
    return [dict(one.fact.body) for one in facts if one.fact.action == action]


def test_a_due_sweep_makes_one_dry_run_and_says_what_it_found(make: Make) -> None:
    world = schedule(make(works("cure"), nodes=("gpu-01", "gpu-02")), sweep())

    run = look(world)

    assert (run.dry_run, run.requested_by, run.trigger.kind) == (True, "sweep:nightly", TriggerKind.SWEEP)
    assert [one.state for one in world.node_runs(run)] == [NodeRunState.SUCCEEDED] * 2
    seen = row(world).look
    assert seen is not None
    assert seen.steps == (StepFinding("cure", Finding.NEEDS, "It would act on these targets."),)
    assert (seen.finding, seen.run_id, seen.answered_at) == (Finding.NEEDS, run.id, seen.looked_at)
    assert not any(order.acting for order in world.scripted.orders)
    assert world.chain_holds()


@pytest.mark.parametrize(
    ("check", "verify", "finding"),
    [
        (0, 0, Finding.NEEDS),
        (77, 0, Finding.FINE),
        (77, 77, Finding.NOT_WELL),
        (77, 1, Finding.NOT_WELL),
        (77, 2, Finding.COULD_NOT_LOOK),
        (2, 0, Finding.COULD_NOT_LOOK),
    ],
)
def test_what_check_and_verify_say_is_what_is_found_and_only_a_fault_fires(
    make: Make, check: int, verify: int, finding: Finding
) -> None:
    world = schedule(make({"cure.check": [exits(check, targets=["it"])], "cure.verify": [exits(verify)]}), sweep())

    look(world)

    assert (found(world), len(every(world))) == (finding, finding in (Finding.NEEDS, Finding.NOT_WELL))


def test_a_time_is_played_once(make: Make) -> None:
    world = schedule(make(FINE), sweep())

    began = [come(world), play_due_sweeps(world.service), play_due_sweeps(world.service)]

    assert (began, state(world).planned_at) == ([1, 0, 0], at(3, 20))


def test_times_that_went_by_are_played_once_and_told(make: Make) -> None:
    world = schedule(make(FINE), sweep())

    began = [come(world, late=timedelta(minutes=25)), play_due_sweeps(world.service)]

    assert (began, state(world).missed, state(world).planned_at) == ([1, 0], 2, at(3, 40))
    assert last_run(world).reason == "Sweep nightly, planned for 2026-11-29 03:10:00 UTC. 2 times were missed."
    assert told(world, "sweep.started") == [{"nodes": 1, "planned_at": at(3, 10).isoformat(), "missed": 2}]


def test_a_time_is_skipped_and_told_while_the_one_before_is_open(make: Make) -> None:
    world = schedule(make(FINE), sweep())
    come(world)
    first = last_run(world)

    began = come(world)
    skipped = state(world)
    turn(world)

    why = f"Run {first.id}, of the time before, has not ended."
    assert (began, skipped.skipped, skipped.last_run_id) == (0, why, first.id)
    assert [one["reason"] for one in told(world, "sweep.skipped")] == [why]
    assert come(world) == 1


def test_a_crash_between_run_and_next_time_makes_neither(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = schedule(make(FINE), sweep())
    store = world.service.store
    before = state(world)

    class FailingStore:
        """Fails each write at its end, as a disk that is full."""

        def write(self, change: Callable[[Transaction], object]) -> object:
            def then_fail(transaction: Transaction) -> object:
                change(transaction)
                raise Unavailable("The disk is full.")

            return store.write(then_fail)

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    whole = world.service
    world.service = replace(whole, store=FailingStore())  # type: ignore[arg-type]
    world.move_to(before.next_at)
    with pytest.raises(Unavailable):
        play_due_sweeps(world.service)
    world.service = whole

    assert (state(world), runs(world)) == (before, [])
    assert (play_due_sweeps(world.service), len(runs(world))) == (1, 1)


def test_jitter_puts_each_time_off_by_the_same_after_a_restart(make: Make) -> None:
    spread = sweep(jitter=timedelta(minutes=5))
    other = sweep("other", jitter=timedelta(minutes=5))

    offsets = [spread.due_at(at(3, minute)) - at(3, minute) for minute in (10, 20, 30)]

    assert offsets == [spread.due_at(at(3, minute)) - at(3, minute) for minute in (10, 20, 30)]
    assert all(timedelta(0) <= one < timedelta(minutes=5) for one in offsets)
    assert len({*offsets, other.due_at(at(3, 10)) - at(3, 10)}) == 4
    world = schedule(make(FINE), spread)
    assert state(world).next_at == spread.due_at(at(3, 10))


def test_a_changed_schedule_takes_hold_at_once_and_a_removed_sweep_stops(make: Make) -> None:
    world = schedule(make(FINE), sweep())

    schedule(world, sweep(cron="15 3 * * *"))
    changed = state(world).next_at
    schedule(world)
    world.move_to(at(4, 0))

    assert (changed, play_due_sweeps(world.service), runs(world)) == (at(3, 15), 0, [])


def test_a_clock_that_was_set_back_keeps_no_sweep_from_its_next_time(make: Make) -> None:
    world = schedule(make(FINE), sweep())
    look(world)
    world.move_to(datetime(2027, 11, 29, 3, 0, tzinfo=UTC))
    play_due_sweeps(world.service)
    turn(world)

    world.move_to(at(3, 30))
    play_due_sweeps(world.service)
    ahead = state(world).next_at
    world.move_to(at(3, 29))
    play_due_sweeps(world.service)

    # One time is left out, so that a small step back plays nothing twice.
    assert (ahead, state(world).next_at) == (at(3, 40), at(3, 40))


def test_what_cannot_be_planned_is_skipped_with_the_reason(make: Make) -> None:
    world = schedule(make(FINE), sweep(pool="none"), sweep("good"))

    world.move_to(state(world).next_at)
    began = play_due_sweeps(world.service)

    assert began == 1
    assert state(world).skipped.startswith("The sweep nightly finds no node that cure fits.")
    assert state(world).planned_at == at(3, 20)


def test_looking_goes_on_beside_a_hold_and_beside_failures_elsewhere(make: Make) -> None:
    answers = FINE | {"gpu-01:cure.check": [DARK]}
    world = schedule(make(answers, nodes=("gpu-01", "gpu-02", "gpu-03")), sweep(nodes_at_once=1))
    hold_node(world.service, "gpu-03", person=OPERATOR, reason="the vendor looks at it")

    look(world)

    assert [found(world, node) for node in ("gpu-01", "gpu-02", "gpu-03")] == [
        Finding.COULD_NOT_LOOK,
        Finding.FINE,
        Finding.FINE,
    ]


def test_who_could_not_be_looked_at_is_not_healthy_and_keeps_when_it_last_answered(make: Make) -> None:
    world = schedule(make(FINE | {"cure.check": [exits(77), DARK]}), sweep())
    look(world)
    first = row(world).look

    look(world)
    second = row(world).look

    assert first is not None
    assert second is not None
    assert (first.finding, second.finding) == (Finding.FINE, Finding.COULD_NOT_LOOK)
    assert second.answered_at == first.looked_at < second.looked_at


def test_a_node_that_was_never_looked_at_is_told(make: Make) -> None:
    world = schedule(make(FINE), sweep())

    rows, more = fleet(world.service)

    assert ([(one.node, one.look) for one in rows], more) == ([("gpu-01", None)], None)


def test_no_more_than_its_places_are_looked_at_together(make: Make) -> None:
    names = tuple(f"gpu-{number:02}" for number in range(12))
    world = schedule(make(FINE, nodes=names), sweep(nodes_at_once=3))
    come(world)
    most = []

    for _ in range(200):
        awake = world.service.store.read(lambda reader: reader.awake_node_runs(last_run(world).id))
        most.append(awake)
        if not world.step() and not give_places(world.service):
            break

    assert max(most) == 3
    assert {one.look.finding for one in fleet(world.service)[0] if one.look} == {Finding.FINE}
    assert len(runs(world)) == 1


def test_all_sweeps_together_leave_threads_for_cures(make: Make) -> None:
    names = tuple(f"gpu-{number:02}" for number in range(40))
    world = schedule(make(FINE, nodes=names), sweep(nodes_at_once=30), sweep("other", nodes_at_once=30))
    world.move_to(state(world).next_at)

    assert play_due_sweeps(world.service) == 2
    cure = world.request("cure", "gpu-00")
    now = world.clock.now()
    due = world.service.store.read(lambda reader: reader.due(now, limit=1000))
    more = give_places(world.service)
    turn(world)

    assert (len(due), more) == (MOST_AT_ONCE + 1, 0)
    assert [one.state for one in world.node_runs(cure)] == [NodeRunState.SUCCEEDED]
    assert found(world, "gpu-39") is found(world, "gpu-39", name="other") is Finding.FINE


def test_a_node_that_does_not_answer_in_time_ends_the_look(make: Make) -> None:
    names = ("gpu-01", "gpu-02")
    world = schedule(make(FINE, nodes=names), sweep(nodes_at_once=1, ends_within=timedelta(minutes=5)))
    come(world)

    world.move_to(at(3, 16))
    asked = end_late(world.service)
    turn(world)

    seen = row(world, "gpu-02").look
    assert (asked, end_late(world.service)) == (2, 0)
    assert seen is not None
    assert (seen.finding, seen.steps[0].reason) == (Finding.COULD_NOT_LOOK, "It has not answered within 5 min.")
    assert come(world) == 1


def test_a_person_plays_a_sweep_now_and_counts_as_who_asked(make: Make) -> None:
    world = schedule(make(FINE), sweep())

    run = run_sweep(world.service, "nightly", person=OPERATOR)
    with pytest.raises(Conflict, match="has not ended"):
        run_sweep(world.service, "nightly", person=OPERATOR)
    with pytest.raises(NotFound, match="no sweep other"):
        run_sweep(world.service, "other", person=OPERATOR)
    turn(world)

    assert (run.requested_by, state(world).last_run_id, state(world).planned_at) == ("operator", run.id, at(3, 10))
    assert found(world) is Finding.FINE


def test_a_person_cures_a_node_while_it_is_looked_at(make: Make) -> None:
    world = schedule(make(works("cure")), sweep())
    come(world)

    run = world.request("cure", "gpu-01")
    ended = world.play(run)
    turn(world)

    assert [one.state for one in ended] == [NodeRunState.SUCCEEDED]
    assert found(world) is Finding.NEEDS


def test_only_nodes_that_the_runbook_fits_are_swept(make: Make) -> None:
    world = make(FINE, nodes=("gpu-01", "gpu-02"))
    inventory = local_nodes("gpu-01", "gpu-02")
    elsewhere = replace(inventory.nodes["gpu-02"], pools=("other",), attributes={"rack": "r9"})
    known = replace(inventory, nodes={**inventory.nodes, "gpu-02": elsewhere})
    world.service = replace(world.service, inventory=FixedInventory(known))
    schedule(world, sweep(pool="lab"), sweep("rack", attributes={"rack": "r9"}))

    rows, more = fleet(world.service, limit=1)
    rest, end = fleet(world.service, limit=1, after=more)

    assert [(one.node, one.sweep) for one in (*rows, *rest)] == [("gpu-01", "nightly"), ("gpu-02", "rack")]
    assert (more, end) == ("gpu-01", None)
    assert [one.node for one in fleet(world.service, pool="other")[0]] == ["gpu-02"]
