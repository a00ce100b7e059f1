"""What alerts start: one run for a fault, on the right node, and why not."""

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from service.app.receive_alerts import MOST_WAITING, Incoming
from service.app.resolve import resolve
from service.app.timeline import run_entries
from service.domain.alert import AlertStatus, Parsed, SetAside
from service.domain.condition import compile_condition
from service.domain.delivery import AlertVerdict, DeliveryState, HeldBy
from service.domain.errors import Unavailable
from service.domain.node import Inventory, SourceKind, SourceState
from service.domain.rule import RULE_NAMES, AttemptBudget
from service.domain.run import NodeRunState, ResolveAs, Trigger, TriggerKind, Verdict
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer, exits
from tests.app.alerting import (
    Fixed,
    alert,
    deliver,
    every,
    follow,
    judge,
    receive,
    reject,
    resolved,
    rule,
    run_of,
    say,
    verdicts,
)
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, FixedInventory, World

RAN, SAME, HELD, STALE = AlertVerdict.RAN, AlertVerdict.DEDUPLICATED, AlertVerdict.HELD, AlertVerdict.STALE
NODES = ("gpu-01", "gpu-02")


def runs(world: World) -> int:
    return len({one.run_id for one in every(world) if one.verdict is RAN})


def test_an_alert_starts_the_run_of_its_rule(make: Make) -> None:
    world = follow(make(works("cure")), rule(params={"level": compile_condition("4 + 1", RULE_NAMES)}))
    one = alert(world)

    deliver(world, one)
    recorded = judge(world)[0]

    run = run_of(world, recorded)
    assert recorded.verdict is RAN
    assert (recorded.rule, recorded.node, recorded.wake_at) == ("ghost", "gpu-01", None)
    assert (run.runbook, dict(run.params), run.waived) == ("cure", {"level": 5}, ("cure",))
    assert (run.trigger, run.requested_by) == (Trigger(TriggerKind.ALERT, "ghost"), "source:prom")
    assert run.reason == f"Alert Ghost of prom, firing since {one.starts_at:%Y-%m-%d %H:%M:%S} UTC."
    assert [one.verdict for one in world.play(run)] == [Verdict.CURED]
    assert world.facts(run)[:2] == ["run.requested", "alert.judged"]
    assert world.chain_holds()


def test_the_owner_of_the_token_is_the_requester(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=()))

    receive(world.service, Incoming("prom", b"{}", "ann"), Parsed((alert(world),)))
    run = run_of(world, judge(world)[0])

    assert (run.requested_by, run.requesters) == ("ann", ("ann",))


def test_what_two_monitors_of_a_pair_say_starts_one_run(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    one = alert(world)

    deliver(world, one)
    deliver(world, one)
    found = judge(world)

    assert verdicts(found) == [RAN, SAME]
    assert found[1].run_id == found[0].run_id
    assert found[1].reason == f"The same alert has started run {found[0].run_id} already."


def test_a_delivery_that_comes_again_is_the_first_one(make: Make) -> None:
    world = follow(make(works("cure")), rule())

    first = deliver(world, alert(world), key="k1")
    again = deliver(world, alert(world), key="k1")
    other = deliver(world, alert(world), key="k1", source="graf")

    assert (again.delivery_id, again.repeated) == (first.delivery_id, True)
    assert (other.repeated, len(every(world))) == (False, 2)


def test_another_fault_of_the_same_rule_and_node_is_folded_into_the_run(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())

    found = say(world, alert(world, fingerprint="gpu0"), alert(world, fingerprint="gpu1"), alert(world, "gpu-02"))

    assert found == [RAN, SAME, RAN]
    assert every(world)[1].run_id == every(world)[0].run_id


@pytest.mark.parametrize(
    ("changed", "labels", "verdict", "reason"),
    [
        ({}, {"alertname": "Other"}, AlertVerdict.NO_RULE, "No rule matches it."),
        (
            {},
            {"instance": "gpu-01"},
            AlertVerdict.NO_RULE,
            "No rule matches it. The rule ghost: The condition `alert.labels.alertname == 'Ghost'` cannot be evaluated",
        ),
        (
            {},
            {"alertname": "Ghost", "instance": "gpu-99:9400"},
            AlertVerdict.NO_NODE,
            "The inventory knows no node whose name is 'gpu-99:9400'.",
        ),
        (
            {"runbook": "nothing"},
            {"alertname": "Ghost", "instance": "gpu-01"},
            AlertVerdict.REFUSED,
            "There is no runbook nothing.",
        ),
        (
            {"params": {"level": 99}},
            {"alertname": "Ghost", "instance": "gpu-01"},
            AlertVerdict.REFUSED,
            "level",
        ),
        (
            {"params": {"level": compile_condition("alert.labels.level", RULE_NAMES)}},
            {"alertname": "Ghost", "instance": "gpu-01"},
            AlertVerdict.REFUSED,
            "The parameter level has no value",
        ),
    ],
)
def test_s05_what_no_run_can_be_made_of_says_why(
    make: Make, changed: dict[str, Any], labels: dict[str, str], verdict: AlertVerdict, reason: str
) -> None:
    world = follow(make(works("cure")), rule(**changed))

    deliver(world, alert(world, labels=labels))
    found = judge(world)[0]

    assert found.verdict is verdict
    assert reason in found.reason
    assert (found.run_id, found.wake_at) == ("", None)


def test_one_alert_that_was_not_understood_keeps_its_place(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())

    deliver(world, alert(world), alert(world, "gpu-02"), set_aside=(SetAside(1, "It has no time."),), omitted=812)
    found = judge(world)

    assert [(one.index, one.verdict, one.node) for one in found] == [
        (0, RAN, "gpu-01"),
        (1, AlertVerdict.SET_ASIDE, ""),
        (2, RAN, "gpu-02"),
    ]
    assert found[1].reason == "It has no time."
    delivery = world.service.store.read(lambda reader: reader.delivery(found[0].delivery_id))
    assert (delivery.omitted, delivery.state) == (812, DeliveryState.ACCEPTED)


def test_a_time_that_utc_has_no_year_for_sets_its_alert_aside(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())
    impossible = alert(world).starts_at.replace(year=9999, month=12, day=31)
    zone = timezone(timedelta(hours=-12))

    found = say(world, alert(world, starts_at=impossible.replace(hour=23, tzinfo=zone)), alert(world, "gpu-02"))

    assert found == [AlertVerdict.SET_ASIDE, RAN]


def test_a_delivery_without_a_fault_is_kept_and_starts_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule())

    ignored = deliver(world, ignored="It is a test.")
    rejected = reject(world.service, Incoming("prom", b"not JSON"), "It is not JSON (character 1).")

    found = [
        world.service.store.read(lambda reader, key=one.delivery_id: reader.delivery(key))  # type: ignore[misc]
        for one in (ignored, rejected)
    ]
    assert [(one.state, one.ignored) for one in found] == [
        (DeliveryState.IGNORED, "It is a test."),
        (DeliveryState.REJECTED, "It is not JSON (character 1)."),
    ]
    assert judge(world) == []


def test_a_body_is_kept_without_secrets_and_up_to_a_bound(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    body = b'{"password": "hunter2", "x": "' + b"y" * 300_000 + b'"}'

    receipt = receive(world.service, Incoming("prom", body), Parsed())

    kept = world.service.store.read(lambda reader: reader.delivery(receipt.delivery_id))
    assert kept.body.startswith(b'{"password": "[redacted]", "x": "yyy')
    assert (len(kept.body), kept.body_bytes, kept.whole) == (256 * 1024, len(body), False)


def test_what_a_label_or_annotation_calls_a_secret_is_not_kept(make: Make) -> None:
    world = follow(make(works("cure")), rule())

    labels = {"alertname": "Ghost", "instance": "gpu-01", "db_password": "hunter2"}
    annotations = {"apiToken": "abc", "summary": "Bearer abcdefgh1234"}
    deliver(world, alert(world, labels=labels, annotations=annotations, link="https://graphs.test/?token=hunter2"))

    found = every(world)[0]
    assert found.labels == labels | {"db_password": "[redacted]"}
    assert found.annotations == {"apiToken": "[redacted]", "summary": "Bearer [redacted]"}
    assert found.link == "https://graphs.test/?token=[redacted]"


def test_the_words_of_a_monitor_are_cut_where_the_record_keeps_them(make: Make) -> None:
    world = follow(make(works("cure")), rule(when="alert.labels.instance != ''"))
    one = alert(world, labels={"alertname": "N" * 100_000, "instance": "gpu-01"})

    say(world, one, alert(world, labels={"instance": "M" * 100_000}, fingerprint="other"))
    say(world, resolved(one))

    found = every(world)
    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=100))
    assert verdicts(found) == [RAN, AlertVerdict.NO_NODE, AlertVerdict.RESOLVED]
    assert (len(run_of(world, found[0]).reason) < 300, len(found[1].reason)) == (True, 1000)
    assert max(len(str(event.fact.body)) for event in events) < 3000


def test_nothing_is_taken_while_too_many_wait(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    deliver(world, *(alert(world, fingerprint=f"f{n}") for n in range(3)))
    asked: list[int] = []

    def asking(*, most: int) -> int:
        asked.append(most)
        return most

    class Full:
        """A store in which more wait than may."""

        def __getattr__(self, name: str) -> object:
            return getattr(world.service.store, name)

        def write(self, change):  # type: ignore[no-untyped-def]
            def counted(transaction):  # type: ignore[no-untyped-def]
                transaction.waiting_alerts = asking
                return change(transaction)

            return world.service.store.write(counted)

    full = replace(world.service, store=Full())  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="wait to be judged"):
        receive(full, Incoming("prom", b"{}"), Parsed((alert(world),)))

    assert (asked, len(every(world))) == ([MOST_WAITING], 3)
    assert world.service.store.read(lambda reader: reader.waiting_alerts(most=2)) == 2


def test_an_alert_that_was_resolved_before_it_was_judged_starts_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    one = alert(world)

    deliver(world, one)
    deliver(world, resolved(one))

    assert verdicts(judge(world)) == [STALE, AlertVerdict.RESOLVED]


def test_a_firing_word_that_comes_after_its_end_starts_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    one = alert(world)

    assert say(world, resolved(one)) == [AlertVerdict.RESOLVED]
    assert say(world, one) == [AlertVerdict.RESOLVED, STALE]
    assert say(world, alert(world))[-1] is RAN


def test_a_resolved_alert_cancels_the_run_that_has_not_acted(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=()))
    one = alert(world)
    say(world, one)
    run = run_of(world, every(world)[0])
    world.settle()

    say(world, resolved(one))
    world.settle()

    found = every(world)[1]
    assert [one.state for one in world.node_runs(run)] == [NodeRunState.CANCELLED]
    assert found.reason == f"It is resolved; run {run.id} had not acted yet, and is cancelled."
    assert (found.rule, found.node) == ("ghost", "gpu-01")
    assert world.chain_holds()


def test_a_resolved_alert_cancels_the_escalation_that_has_not_acted(make: Make) -> None:
    answers = works("cure") | works("strike") | {"cure.verify": [exits(1)]}
    world = follow(make(answers, scheduler="slurm"), rule())
    one = alert(world)
    say(world, one)
    world.settle()
    stronger = world.open_gates()[0].run_id

    say(world, resolved(one))
    world.settle()

    found = every(world)[1]
    ended = world.service.store.read(lambda reader: reader.node_runs(stronger))
    assert (world.open_gates(), [one.state for one in ended]) == ([], [NodeRunState.CANCELLED])
    assert found.reason == f"It is resolved; run {stronger} had not acted yet, and is cancelled."
    assert found.run_id == stronger
    assert world.chain_holds()


def test_a_resolved_alert_leaves_a_run_alone_that_has_acted(make: Make) -> None:
    world = follow(
        make({**works("cure"), "cure.run": [Answer(Report(ReportState.LOST, reason="the link broke"))]}), rule()
    )
    one = alert(world)
    say(world, one)
    run = run_of(world, every(world)[0])
    # What became of its script is not known: it may have acted.
    world.step()
    before = world.node_runs(run)[0]

    say(world, resolved(one))

    assert not before.state.ended
    assert every(world)[1].reason == f"It is resolved; run {run.id} has begun to act, and goes on."
    assert world.node_runs(run)[0].cancel_requested_by is None


def test_a_resolved_alert_names_the_run_that_its_occasion_had_started(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    one = alert(world)
    say(world, one)
    run = run_of(world, every(world)[0])
    world.play(run)

    say(world, resolved(one))
    later = replace(one, starts_at=one.starts_at + timedelta(seconds=1))
    say(world, resolved(later))

    first, second = every(world)[1:]
    assert first.reason == f"It is resolved; run {run.id} had ended before: cured."
    assert (first.rule, first.node, first.run_id) == ("ghost", "gpu-01", run.id)
    assert (second.reason, second.run_id) == ("It is resolved.", "")
    assert [entry.text for entry in run_entries(world.service, run.id)][-1] == (
        f"Alert Ghost of prom, judged resolved: {first.reason}"
    )


def test_an_end_that_does_not_say_since_when_ends_the_newest_occasion(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=()))
    reopened = alert(world)
    say(world, reopened)
    run = run_of(world, every(world)[0])
    world.settle()
    ended = world.clock.now()

    say(world, replace(resolved(reopened, at=ended), starts_at=ended))
    world.settle()

    assert [one.state for one in world.node_runs(run)] == [NodeRunState.CANCELLED]
    say(world, replace(resolved(reopened, at=ended), starts_at=ended))
    assert every(world)[2].reason == f"It is resolved; run {run.id} had ended before: cancelled."


def test_a_run_goes_on_while_one_of_its_alerts_still_fires(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=()))
    first, second = alert(world, fingerprint="gpu0"), alert(world, fingerprint="gpu1")
    say(world, first, second)
    run = run_of(world, every(world)[0])
    world.settle()

    say(world, resolved(first))
    kept = every(world)[-1].reason
    say(world, resolved(second))

    assert kept == f"It is resolved; run {run.id} goes on for Ghost, which still fires."
    assert every(world)[-1].reason == f"It is resolved; run {run.id} had not acted yet, and is cancelled."


def test_a_person_s_run_is_not_cancelled_by_an_alert(make: Make) -> None:
    world = follow(make(works("cure")), rule(waive=()))
    run = world.request("cure", "gpu-01")
    world.settle()
    one = alert(world)

    found = say(world, one, resolved(one))

    assert found == [STALE, AlertVerdict.RESOLVED]
    assert world.node_runs(run)[0].cancel_requested_by is None


def test_a_rule_tries_a_node_as_often_as_it_may(make: Make) -> None:
    budget = AttemptBudget(2, timedelta(days=1))
    world = follow(make(works("cure")), rule(attempts=budget, dedup=timedelta(0)))

    found = []
    for _ in range(3):
        found.append(say(world, alert(world))[-1])
        world.settle()
        world.move_to(world.clock.at + timedelta(hours=2))  # type: ignore[union-attr]
    world.move_to(world.clock.at + timedelta(days=1))  # type: ignore[union-attr]

    assert found == [RAN, RAN, AlertVerdict.REFUSED]
    assert say(world, alert(world))[-1] is RAN


def test_a_node_is_left_in_peace_after_a_run(make: Make) -> None:
    world = follow(make(works("cure")), rule(cooldown=timedelta(minutes=30), dedup=timedelta(0)))
    say(world, alert(world))
    world.settle()

    world.move_to(world.clock.at + timedelta(minutes=20))  # type: ignore[union-attr]
    early = say(world, alert(world))[-1]
    world.move_to(world.clock.at + timedelta(minutes=20))  # type: ignore[union-attr]

    assert (early, say(world, alert(world))[-1]) == (AlertVerdict.COOLING_DOWN, RAN)


def test_an_alert_from_before_the_cure_starts_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule(dedup=timedelta(0)))
    began = world.clock.now()
    say(world, alert(world))
    world.settle()

    assert say(world, alert(world, fingerprint="late", starts_at=began))[-1] is STALE
    assert every(world)[-1].reason.startswith("It began before cure cured gpu-01 at ")


def test_an_alert_from_before_a_boot_that_a_script_has_seen_starts_nothing(make: Make) -> None:
    world = follow(make({**works("cure"), "cure.run": [Answer(Report(ReportState.REBOOTED))]}), rule())
    began = world.clock.now()
    run = world.request("cure", "gpu-01")
    world.play(run)
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason="seen", person=OPERATOR)
    world.settle()

    assert say(world, alert(world, starts_at=began))[-1] is STALE
    assert every(world)[-1].reason.startswith("It began before the last boot of gpu-01, which was after ")


def test_a_node_that_no_silent_source_could_deny_is_waited_for(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    known = world.service.inventory.current()
    silent = SourceState("fleet", SourceKind.SSM, None, timedelta(hours=1), problem="No answer.")
    world.service = replace(world.service, inventory=FixedInventory(Inventory({}, {}, sources=(silent,))))

    first = say(world, alert(world))
    world.service = replace(world.service, inventory=FixedInventory(known))
    world.move_to(world.clock.at + timedelta(seconds=31))  # type: ignore[union-attr]

    assert (first, verdicts(judge(world))) == ([HELD], [RAN])


def test_a_node_of_a_source_that_has_been_silent_too_long_is_waited_for(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    known = world.service.inventory.current()
    old = SourceState("fleet", SourceKind.SSM, world.clock.now() - timedelta(hours=2), timedelta(hours=1), "No answer.")
    gone = replace(known, nodes={"gpu-01": replace(known.nodes["gpu-01"], sources=("fleet",))}, sources=(old,))
    world.service = replace(world.service, inventory=FixedInventory(gone))

    first = say(world, alert(world))
    held = every(world)[0]
    world.service = replace(world.service, inventory=FixedInventory(known))
    world.move_to(world.clock.at + timedelta(seconds=31))  # type: ignore[union-attr]

    assert (first, held.held_by) == ([HELD], HeldBy.INVENTORY)
    assert held.reason == "What is known of node gpu-01 is too old (fleet 7200 s). No answer."
    assert verdicts(judge(world)) == [RAN]


def test_a_dry_rule_asks_and_touches_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule(dry_run=True))
    world.request("cure", "gpu-01")
    world.settle()

    say(world, alert(world))
    run = run_of(world, every(world)[0])

    assert run.dry_run
    assert [one.state for one in world.play(run, by=OPERATOR)] == [NodeRunState.SUCCEEDED]


def test_the_status_of_each_alert_decides_and_not_that_of_the_delivery(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())

    found = say(world, alert(world), alert(world, "gpu-02", status=AlertStatus.RESOLVED))

    assert found == [RAN, AlertVerdict.RESOLVED]
    assert runs(world) == 1


def test_rules_are_those_of_the_moment_of_judging(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    deliver(world, alert(world))

    world.service = replace(world.service, rules=Fixed(replace(world.service.rules.current(), rules=())))

    assert verdicts(judge(world)) == [AlertVerdict.NO_RULE]
