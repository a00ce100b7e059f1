"""What rules would have done: by the rails of the service, with runs that last as long as is assumed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from service.domain.alert import AlertStatus
from service.domain.condition import compile_condition
from service.domain.delivery import AlertVerdict, RecordedAlert
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node
from service.domain.policy import BlastRadius, Policy, WindowCap
from service.domain.replay import Setting, replay
from service.domain.rule import RULE_NAMES, AttemptBudget, Rule, RuleSet

T0 = datetime(2026, 11, 1, tzinfo=UTC)
RULE = Rule(
    "hangs",
    compile_condition("alert.labels.alertname == 'Hangs'", RULE_NAMES),
    "cure",
    compile_condition("alert.labels.node", RULE_NAMES),
    dedup=timedelta(minutes=1),
)
WIDE = BlastRadius(nodes_at_once=100, per_window=WindowCap(100), percent_of_pool=100)
NODES = {f"n{i}": Node(f"n{i}", Endpoint(f"n{i}", ExecutorKind.SSH, f"n{i}"), pools=("all",)) for i in range(20)}


def setting(rule: Rule = RULE, *, radius: BlastRadius = WIDE) -> Setting:
    return Setting(RuleSet({}, (rule,)), Policy(radius), Inventory(NODES, {}), {"cure": True})


def said(node: str, minute: float, *, began: float | None = None, resolved: bool = False, **more: str) -> RecordedAlert:
    at = T0 + timedelta(minutes=minute)
    status = AlertStatus.RESOLVED if resolved else AlertStatus.FIRING
    labels = {"alertname": "Hangs", "node": node, **more}
    starts_at = at if began is None else T0 + timedelta(minutes=began)
    made = RecordedAlert(f"{node}-{minute}-{resolved}", "d", 0, "prom", "p", at, f"f-{node}", status, starts_at, None)
    return replace(made, labels=labels)


def verdicts(alerts: list[RecordedAlert], by: Setting | None = None) -> list[str]:
    return [str(one.verdict) for one in replay(alerts, by or setting())]


def test_a_fault_that_is_said_again_and_again_starts_one_run() -> None:
    alerts = [said("n1", minute, began=0) for minute in (0, 1, 2, 30)]

    assert verdicts(alerts) == ["ran", "deduplicated", "deduplicated", "deduplicated"]


def test_rules_and_nodes_decide_as_they_do_live() -> None:
    alerts = [said("n1", 0, alertname="Other"), said("n99", 1), said("n2", 200, began=0), said("n3", 201)]

    assert verdicts(alerts) == ["no_rule", "no_node", "stale", "ran"]


def test_a_set_aside_alert_stays_so_and_a_resolved_one_starts_nothing() -> None:
    aside = replace(said("n1", 0), verdict=AlertVerdict.SET_ASIDE, reason="no time")

    assert verdicts([aside, said("n1", 1, began=0, resolved=True)]) == ["set_aside", "resolved"]


def test_a_busy_node_holds_the_next_fault_until_the_run_has_ended() -> None:
    found = replay([said("n1", 0), replace(said("n1", 5), fingerprint="other")], setting())

    assert [str(one.verdict) for one in found] == ["ran", "stale"]
    assert found[1].judged_at == T0 + timedelta(minutes=10)
    assert "cured n1" in found[1].reason


def test_what_is_resolved_while_it_is_held_starts_nothing() -> None:
    other = replace(said("n1", 5), fingerprint="other")
    over = replace(said("n1", 6, began=5, resolved=True), fingerprint="other")

    assert verdicts([said("n1", 0), other, over]) == ["ran", "resolved", "resolved"]


def test_cooldown_and_attempts_are_those_of_the_rule() -> None:
    cooling = replace(RULE, cooldown=timedelta(minutes=30))
    tried = replace(RULE, attempts=AttemptBudget(2, timedelta(hours=24)))
    alerts = [said("n1", minute) for minute in (0, 20, 60, 100)]

    assert verdicts(alerts, setting(cooling)) == ["ran", "cooling_down", "ran", "ran"]
    assert verdicts(alerts, setting(tried)) == ["ran", "ran", "refused", "refused"]


def test_a_storm_waits_its_turn_and_no_more_than_allowed_are_disrupted_at_once() -> None:
    radius = replace(WIDE, nodes_at_once=2)
    found = replay([said(f"n{i}", i / 60) for i in range(6)], setting(radius=radius))

    began = sorted(one.judged_at for one in found)
    assert {str(one.verdict) for one in found} == {"ran"}
    assert all(began[i + 2] - began[i] >= timedelta(minutes=10) for i in range(4))


def test_the_cap_of_the_window_latches_the_breaker_and_nothing_starts_after_it() -> None:
    radius = replace(WIDE, per_window=WindowCap(3))

    found = verdicts([said(f"n{i}", i * 20) for i in range(3)] + [said(f"n{i}", 41 + i) for i in range(3, 6)])
    capped = verdicts(
        [said(f"n{i}", i) for i in range(3)] + [said(f"n{i}", 41 + 100 * i) for i in range(3, 6)],
        setting(radius=radius),
    )
    latched = verdicts([said(f"n{i}", i) for i in range(6)], setting(radius=radius))

    assert found == ["ran"] * 6
    assert capped == ["ran"] * 6
    assert latched == ["ran"] * 3 + ["held"] * 3


def test_a_dry_run_disrupts_nothing() -> None:
    dry = replace(RULE, dry_run=True)

    assert verdicts([said(f"n{i}", 0) for i in range(5)], setting(dry, radius=BlastRadius())) == ["ran"] * 5
