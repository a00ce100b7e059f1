"""What a sweep finds is an alert like any other: rules and rails decide, gates stay, and fine is resolved."""

from dataclasses import replace
from datetime import timedelta

from service.app.drive import drive
from service.app.hold_node import hold_node, release_node
from service.app.pause_alerts import pause_alerts
from service.app.replay_alert import replay_alert
from service.app.sweep_due import play_due_sweeps
from service.app.sweep_request import run_sweep
from service.domain.alert import AlertStatus
from service.domain.condition import compile_condition
from service.domain.delivery import AlertVerdict, HeldBy, RecordedAlert
from service.domain.person import Person, Role
from service.domain.replay import Setting, replay
from service.domain.rule import RULE_NAMES, AttemptBudget, Rule
from service.domain.run import NodeRunState, Trigger, TriggerKind, Verdict
from service.domain.script import NotStarted, Report, ReportState
from service.domain.sweep import Finding
from service.executors.scripted import Answer, exits
from tests.app.alerting import WIDE, every, rule, run_of, verdicts
from tests.app.conftest import Make
from tests.app.sweeping import come, found, last_run, look, row, schedule, sweep, turn
from tests.support.world import OPERATOR

ADMIN = Person("admin", frozenset({Role.ADMIN}))

RAN, SAME, NO_RULE, RESOLVED = (
    AlertVerdict.RAN,
    AlertVerdict.DEDUPLICATED,
    AlertVerdict.NO_RULE,
    AlertVerdict.RESOLVED,
)
FIRING, OVER = AlertStatus.FIRING, AlertStatus.RESOLVED
ILL = exits(0, targets=["it"])
WELL = exits(77)
DARK = Answer(Report(ReportState.NOT_STARTED, not_started=NotStarted.UNREACHABLE, reason="No answer."))


def promote(**changed: object) -> Rule:
    """Return a rule that starts the cure where a sweep found something, behind its gate."""
    node = compile_condition("alert.labels.node", RULE_NAMES)
    made = rule("promote", "alert.labels.sweep == 'nightly'", node=node, sources=("sweep",), waive=())
    return replace(made, **changed)  # type: ignore[arg-type]


def nodes_that(*checks: Answer) -> dict[str, list[Answer]]:
    """Return a node whose check answers so, one after the other, and whose cure works."""
    return {"cure.check": list(checks), "cure.run": [exits(0)], "cure.verify": [exits(0)]}


def told(alerts: list[RecordedAlert]) -> list[tuple[AlertStatus, AlertVerdict | None]]:
    return [(one.status, one.verdict) for one in alerts]


def test_what_is_found_starts_the_cure_behind_its_gate_and_is_resolved_when_it_is_seen_fine(make: Make) -> None:
    world = schedule(make(nodes_that(ILL, ILL, WELL)), sweep(), rules=(promote(),))

    look(world)
    alert = every(world)[0]
    run = run_of(world, alert)
    waits = [one.state for one in world.node_runs(run)]
    cured = world.play(run)
    look(world)

    assert (alert.source, alert.labels) == (
        "sweep",
        {
            "alertname": "SweepFinding",
            "sweep": "nightly",
            "runbook": "cure",
            "node": "gpu-01",
            "step": "cure",
            "finding": "needs",
        },
    )
    assert (run.trigger, run.requested_by, run.dry_run) == (
        Trigger(TriggerKind.ALERT, "promote"),
        "sweep:nightly",
        False,
    )
    assert (waits, [one.verdict for one in cured]) == ([NodeRunState.WAITING], [Verdict.CURED])
    assert told(every(world)) == [(FIRING, RAN), (OVER, RESOLVED)]
    assert every(world)[1].reason == f"It is resolved; run {run.id} had ended before: cured."
    assert (found(world), row(world).since) == (Finding.FINE, {})
    assert world.chain_holds()


def test_seen_fine_while_the_gate_is_open_cancels_the_run(make: Make) -> None:
    world = schedule(make(nodes_that(ILL, ILL, WELL)), sweep(), rules=(promote(),))
    look(world)
    run = run_of(world, every(world)[0])

    look(world)

    assert [one.state for one in world.node_runs(run)] == [NodeRunState.CANCELLED]


def test_what_nobody_answers_is_told_once_and_stands_in_the_fleet(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep())

    for _ in range(4):
        look(world)

    assert told(every(world)) == [(FIRING, NO_RULE)]
    assert (found(world), row(world).since) == (Finding.NEEDS, {"cure": every(world)[0].starts_at})


def test_a_fault_that_is_days_old_is_promoted_when_a_rule_comes(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(cron="0 3 * * *"))
    for _ in range(4):
        look(world)

    schedule(world, sweep(cron="0 3 * * *"), rules=(promote(max_age=timedelta(minutes=30)),))
    look(world)
    first, again = every(world)

    assert told([first, again]) == [(FIRING, NO_RULE), (FIRING, RAN)]
    assert again.starts_at == first.starts_at
    assert again.received_at - first.starts_at > timedelta(days=3)


def test_what_has_started_a_run_is_not_said_again_while_it_stays(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(), rules=(promote(),))
    look(world)
    run = run_of(world, every(world)[0])

    look(world)
    look(world)

    assert told(every(world)) == [(FIRING, RAN)]
    assert [one.state for one in world.node_runs(run)] == [NodeRunState.WAITING]


def test_who_could_not_be_looked_at_neither_fires_nor_is_resolved(make: Make) -> None:
    world = schedule(make(nodes_that(ILL, DARK, ILL)), sweep())

    for _ in range(3):
        look(world)

    assert told(every(world)) == [(FIRING, NO_RULE)]
    assert row(world).since == {"cure": every(world)[0].starts_at}


def test_what_comes_back_after_a_cure_is_another_occasion(make: Make) -> None:
    rules = (promote(waive=("cure",), dedup=timedelta(seconds=1)),)
    world = schedule(make(nodes_that(ILL)), sweep(), rules=rules)
    look(world)

    look(world)
    first, second = every(world)

    assert told([first, second]) == [(FIRING, RAN), (FIRING, RAN)]
    assert second.starts_at > first.starts_at
    assert first.run_id != second.run_id


def test_what_is_seen_on_another_boot_is_another_occasion(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep())
    look(world)
    world.scripted.boot_id = "11111111-1111-4111-8111-111111111111"
    look(world)

    schedule(world, sweep(), rules=(promote(),))
    look(world)

    first, second, third = every(world)
    assert verdicts(every(world)) == [NO_RULE, NO_RULE, RAN]
    assert first.starts_at < second.starts_at == third.starts_at


def test_a_cure_that_came_between_look_and_word_keeps_the_word_from_starting_another(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(), rules=(promote(),))
    come(world)
    looking, now = world.node_runs(last_run(world))[0], world.clock.now()
    claimed = world.service.store.write(lambda transaction: transaction.claim(looking.id, owner="tests", now=now))
    assert claimed is not None

    drive(world.service, claimed, keep_on=iter((True, False)).__next__)
    cured = world.play(world.request("cure", "gpu-01"))
    drive(world.service, world.node_runs(last_run(world))[0])
    turn(world)

    assert [one.verdict for one in cured] == [Verdict.CURED]
    assert verdicts(every(world)) == [AlertVerdict.STALE]
    assert "It began before cure cured gpu-01" in every(world)[0].reason


def test_a_finding_on_a_held_node_waits_and_is_judged_again(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(), rules=(promote(),))
    hold_node(world.service, "gpu-01", person=OPERATOR, reason="the vendor looks at it")

    look(world)
    held = every(world)[0]
    release_node(world.service, "gpu-01", person=OPERATOR)
    turn(world)

    assert (held.verdict, held.held_by) == (AlertVerdict.HELD, HeldBy.HOLD)
    assert verdicts(every(world)) == [RAN]


def test_a_pause_stops_no_look_and_holds_what_is_found(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(), rules=(promote(),))
    pause_alerts(world.service, person=ADMIN, reason="a rule is wrong")

    look(world)

    assert found(world) is Finding.NEEDS
    assert [(one.verdict, one.held_by) for one in every(world)] == [(AlertVerdict.HELD, HeldBy.PAUSE)]


def test_who_plays_a_sweep_by_hand_has_asked_for_what_it_starts(make: Make) -> None:
    world = schedule(make(nodes_that(ILL)), sweep(), rules=(promote(),))

    run_sweep(world.service, "nightly", person=OPERATOR)
    turn(world)

    assert run_of(world, every(world)[0]).requesters == ("operator",)


def test_many_looks_do_not_hide_what_a_rule_has_tried(make: Make) -> None:
    rules = (promote(waive=("cure",), attempts=AttemptBudget(1, timedelta(days=7)), dedup=timedelta(seconds=1)),)
    world = schedule(make(nodes_that(ILL)), sweep(), rules=rules)
    look(world)
    look(world)

    past = world.service.store.read(lambda reader: reader.past_runs("gpu-01", limit=1))
    assert [one.rule for one in past] == ["promote"]
    assert verdicts(every(world)) == [RAN, AlertVerdict.REFUSED]


def test_what_sweeps_found_can_be_replayed_and_backtested(make: Make) -> None:
    world = schedule(make(nodes_that(ILL, ILL, ILL, WELL)), sweep(cron="0 3 * * *"))
    for _ in range(4):
        look(world)
    schedule(world, sweep(cron="0 3 * * *"), rules=(promote(),))
    first = every(world)[0]

    run = replay_alert(world.service, first.id, person=OPERATOR)
    setting = Setting(world.service.rules.current(), WIDE, world.service.inventory.current(), {"cure": True})
    verdict = [one.verdict for one in replay(every(world), setting)]

    assert (run.dry_run, run.runbook) == (True, "cure")
    assert verdict == [RAN, RESOLVED]


def test_a_look_from_before_the_clock_was_set_back_hides_no_later_one(make: Make) -> None:
    world = schedule(make(nodes_that(ILL, WELL)), sweep(), rules=(promote(),))
    began = world.clock.now()
    world.move_to(began + timedelta(days=400))
    assert play_due_sweeps(world.service) == 1
    turn(world)
    before = found(world)

    world.move_to(began)
    play_due_sweeps(world.service)
    look(world)

    seen = row(world).look
    assert seen is not None
    assert (before, seen.finding, seen.looked_at < began + timedelta(hours=1)) == (Finding.NEEDS, Finding.FINE, True)
    assert sorted(told(every(world))) == [(FIRING, RAN), (OVER, RESOLVED)]
