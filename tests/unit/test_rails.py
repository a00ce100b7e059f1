"""What becomes of an alert whose rule and node are known: the rails as a table, and the order of asking."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from service.domain.condition import compile_condition
from service.domain.delivery import AlertVerdict, Breaker, HeldBy, Pause
from service.domain.policy import BlastRadius, Freeze, Policy, WindowCap
from service.domain.rails import (
    LOOK_AGAIN,
    LOOK_AGAIN_LATE,
    AlertJudgement,
    Earlier,
    PastRun,
    PoolLoad,
    Question,
    RailFacts,
    judge,
)
from service.domain.rule import RULE_NAMES, AttemptBudget, Rule
from service.domain.run import Hold, NodeRunState, Verdict

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TRUE = compile_condition("true", RULE_NAMES)
RULE = Rule("ghost", TRUE, "cure", TRUE, cooldown=timedelta(minutes=30), attempts=AttemptBudget(2, timedelta(days=1)))
QUESTION = Question(RULE, "gpu-01", NOW - timedelta(minutes=5), acts=True)
FACTS = RailFacts(heard_at=NOW, received_at=NOW, pools=(PoolLoad("h100", 40, 0),))
RAN = AlertJudgement(AlertVerdict.RAN, "The rule ghost starts cure.")


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def past(minutes: float, **changed: Any) -> PastRun:
    """Return a run of the rule that was requested so long ago and played for a minute."""
    made = PastRun(
        "r1",
        "cure",
        "ghost",
        dry_run=False,
        acts=True,
        state=NodeRunState.SUCCEEDED,
        created_at=ago(minutes),
        verdict=Verdict.CLEARED,
        started_at=ago(minutes),
        ended_at=ago(minutes - 1),
        first_boot_id="boot-1",
    )
    return replace(made, **changed)


def held(by: HeldBy, reason: str, until: datetime) -> AlertJudgement:
    return AlertJudgement(AlertVerdict.HELD, reason, by, until)


BUSY = past(3, run_id="r9", runbook="other", rule="", state=NodeRunState.WAITING)
SOON, LATE = NOW + LOOK_AGAIN, NOW + LOOK_AGAIN_LATE
CASES: dict[str, tuple[dict[str, Any], AlertJudgement]] = {
    "nothing is in its way": ({}, RAN),
    "it has started a run": (
        {"earlier": Earlier("a1", AlertVerdict.RAN, "r1")},
        AlertJudgement(AlertVerdict.DEDUPLICATED, "The same alert has started run r1 already.", run_id="r1"),
    ),
    "it is held already": (
        {"earlier": Earlier("a1", AlertVerdict.HELD)},
        AlertJudgement(AlertVerdict.DEDUPLICATED, "The same alert is held already, as a1."),
    ),
    "it is resolved": (
        {"resolved_at": ago(1)},
        AlertJudgement(AlertVerdict.STALE, "It is resolved: the monitor said so at 2026-11-29 11:59:00 UTC."),
    ),
    "it was old when it came": (
        {"received_at": NOW + timedelta(minutes=56)},
        AlertJudgement(AlertVerdict.STALE, "It was 1 h 1 min old when it came; the rule takes 1 h."),
    ),
    "it was just young enough": ({"received_at": NOW + timedelta(minutes=55)}, RAN),
    "it was held and nobody says it any more": (
        {"heard_at": NOW - timedelta(hours=25)},
        AlertJudgement(AlertVerdict.STALE, "Nobody has said since 2026-11-28 11:00:00 UTC that it still fires."),
    ),
    "the node has booted since": (
        {"past": (past(2, rule="", runbook="look", first_boot_id="boot-2"), past(4, rule="", runbook="look"))},
        AlertJudgement(
            AlertVerdict.STALE, "It began before the last boot of gpu-01, which was after 2026-11-29 11:56:00 UTC."
        ),
    ),
    "the node had booted before": (
        {"past": (past(2, rule="", runbook="look", first_boot_id="boot-2"), past(6, rule="", runbook="look"))},
        RAN,
    ),
    "a script saw the node reboot": (
        {"rebooted_at": ago(4)},
        AlertJudgement(
            AlertVerdict.STALE, "It began before the last boot of gpu-01, which was after 2026-11-29 11:56:00 UTC."
        ),
    ),
    "the runbook has cured the node since": (
        {"past": (past(4, rule="", verdict=Verdict.CURED),)},
        AlertJudgement(AlertVerdict.STALE, "It began before cure cured gpu-01 at 2026-11-29 11:57:00 UTC."),
    ),
    "another runbook has cured the node since": (
        {"past": (past(4, rule="", runbook="x", verdict=Verdict.CURED),)},
        RAN,
    ),
    "alerts are paused": (
        {"pause": Pause("ann", "a rule is wrong", ago(9))},
        held(HeldBy.PAUSE, "Alerts are paused by ann: a rule is wrong", LATE),
    ),
    "the breaker is latched": (
        {"breaker": Breaker("blast-radius", ago(9), "10 nodes")},
        held(HeldBy.BREAKER, "The breaker blast-radius is latched: 10 nodes", LATE),
    ),
    "the breaker was reset": ({"breaker": Breaker("blast-radius", None, "", ago(9), "ann", "looked")}, RAN),
    "the rule has run for another start": (
        {"past": (past(40),)},
        AlertJudgement(
            AlertVerdict.DEDUPLICATED, "The rule ghost has started run r1 on gpu-01 within 1 h.", run_id="r1"
        ),
    ),
    "the rule has run long ago": ({"past": (past(95),)}, RAN),
    "the rule's run was cancelled before it began": (
        {"past": (past(40, state=NodeRunState.CANCELLED, started_at=None),)},
        RAN,
    ),
    "a person's run of the runbook has just ended": (
        {"past": (past(20, rule=""),)},
        AlertJudgement(
            AlertVerdict.COOLING_DOWN,
            "gpu-01 is left in peace until 2026-11-29 12:11:00 UTC, after a run that has ended.",
        ),
    ),
    "a long run of the rule has just ended": (
        {"past": (past(90, ended_at=ago(3)),)},
        AlertJudgement(
            AlertVerdict.COOLING_DOWN,
            "gpu-01 is left in peace until 2026-11-29 12:27:00 UTC, after a run that has ended.",
        ),
    ),
    "a dry run of the runbook has just ended": ({"past": (past(20, rule="", dry_run=True),)}, RAN),
    "the attempts are used up": (
        {"past": (past(120), past(600))},
        AlertJudgement(AlertVerdict.REFUSED, "The rule ghost has tried gpu-01 2 times within 1 d; a person must look."),
    ),
    "an escalation is no attempt of its own": ({"past": (past(120, escalated=True), past(600))}, RAN),
    "an attempt is older than the window": ({"past": (past(120), past(1500))}, RAN),
    "the node is on hold": (
        {"hold": Hold("gpu-01", "bob", "the vendor looks", ago(9))},
        held(HeldBy.HOLD, "Node gpu-01 is on hold by bob: the vendor looks", SOON),
    ),
    "the node is on hold for a while": (
        {"hold": Hold("gpu-01", "bob", "x", ago(9), NOW + timedelta(hours=3))},
        held(HeldBy.HOLD, "Node gpu-01 is on hold by bob until 2026-11-29 15:00+00:00: x", NOW + timedelta(hours=3)),
    ),
    "the hold is over": ({"hold": Hold("gpu-01", "bob", "x", ago(9), NOW)}, RAN),
    "another run has the node": (
        {"busy": BUSY},
        held(HeldBy.BUSY, "Run r9 (other, waiting) has the node gpu-01.", SOON),
    ),
    "too many nodes are disrupted": (
        {"disrupted": 3},
        held(HeldBy.BLAST_RADIUS, "Blast radius: 3 nodes disrupted at this moment, and 3 may be.", SOON),
    ),
    "too much of a pool is disrupted": (
        {"pools": (PoolLoad("all", 40, 2), PoolLoad("pair", 19, 1))},
        held(HeldBy.BLAST_RADIUS, "Blast radius: 1 of 19 nodes of pool pair disrupted, 1 may be.", SOON),
    ),
    "one node of a small pool may be": ({"pools": (PoolLoad("pair", 2, 0),)}, RAN),
    "too many nodes in the window": (
        {"in_window": frozenset(f"n{n}" for n in range(10))},
        AlertJudgement(
            AlertVerdict.HELD,
            "Alerts have disrupted 10 nodes within 1 h, and 10 may be: "
            "the breaker is latched until an admin resets it.",
            HeldBy.BREAKER,
            LATE,
            latches=True,
        ),
    ),
    "the node itself is in the window": (
        {"in_window": frozenset(f"gpu-{n:02}" for n in range(10)), "past": ()},
        RAN,
    ),
}


@pytest.mark.parametrize(("changed", "expected"), CASES.values(), ids=CASES.keys())
def test_the_table_of_rails(changed: dict[str, Any], expected: AlertJudgement) -> None:
    assert judge(QUESTION, replace(FACTS, **changed), policy=Policy(), now=NOW) == expected


def test_the_order_is_that_in_which_a_person_would_ask() -> None:
    """Every rail says no at once; each in turn is taken away, and the next one answers."""
    everything: dict[str, Any] = {
        "earlier": Earlier("a1", AlertVerdict.RAN, "r1"),
        "resolved_at": ago(1),
        "pause": Pause("ann", "x", ago(9)),
        "breaker": Breaker("blast-radius", ago(9), "x"),
        "past": (past(40),),
        "hold": Hold("gpu-01", "bob", "x", ago(9)),
        "busy": BUSY,
        "in_window": frozenset(f"n{n}" for n in range(10)),
        "disrupted": 3,
    }
    freeze = Freeze("december", ago(9), NOW + timedelta(hours=1))
    answers = []
    while everything:
        frozen = "pause" in everything
        policy = Policy(freezes=(freeze,) if frozen else ())
        judgement = judge(QUESTION, replace(FACTS, **everything), policy=policy, now=NOW)
        answers.append(judgement.held_by or judgement.verdict)
        del everything[next(iter(everything))]

    assert answers == [
        AlertVerdict.DEDUPLICATED,
        AlertVerdict.STALE,
        HeldBy.PAUSE,
        HeldBy.BREAKER,
        AlertVerdict.DEDUPLICATED,
        HeldBy.HOLD,
        HeldBy.BUSY,
        HeldBy.BREAKER,
        HeldBy.BLAST_RADIUS,
    ]


@pytest.mark.parametrize("changed", [{"busy": BUSY}, {"disrupted": 99}, {"in_window": frozenset(map(str, range(99)))}])
def test_a_run_that_acts_on_nothing_disrupts_nothing(changed: dict[str, Any]) -> None:
    question = replace(QUESTION, acts=False)

    assert judge(question, replace(FACTS, **changed), policy=Policy(), now=NOW) == RAN


def test_a_freeze_holds_alerts_until_its_end() -> None:
    end = NOW + timedelta(days=2)
    policy = Policy(freezes=(Freeze("short", ago(1), NOW + timedelta(hours=1)), Freeze("long", ago(1), end)))

    found = judge(QUESTION, FACTS, policy=policy, now=NOW)

    assert found == held(HeldBy.FREEZE, "The freeze long lasts until 2026-12-01 12:00:00 UTC.", end)


def test_a_freeze_of_other_pools_holds_nothing() -> None:
    freeze = Freeze("theirs", ago(1), NOW + timedelta(hours=1), pools=("a100",))

    assert judge(QUESTION, FACTS, policy=Policy(freezes=(freeze,)), now=NOW) == RAN


def test_a_freeze_of_one_of_its_pools_holds_a_node() -> None:
    end = NOW + timedelta(hours=1)
    facts = replace(FACTS, pools=(PoolLoad("everything", 100, 0), PoolLoad("h100", 100, 0)))

    found = judge(QUESTION, facts, policy=Policy(freezes=(Freeze("ours", ago(1), end, pools=("h100",)),)), now=NOW)

    assert found == held(HeldBy.FREEZE, "The freeze ours lasts until 2026-11-29 13:00:00 UTC.", end)


@pytest.mark.parametrize(("begins", "ends", "is_on"), [(0, 1, True), (-1, 0, False), (1, 2, False)])
def test_a_freeze_begins_with_its_first_moment_and_ends_before_its_last(begins: int, ends: int, is_on: bool) -> None:
    freeze = Freeze("once", NOW + timedelta(seconds=begins), NOW + timedelta(seconds=ends))

    assert (freeze.until(NOW) is not None) == is_on


@pytest.mark.parametrize(
    ("moment", "until"),
    [
        ("2026-11-27T17:59", None),
        ("2026-11-27T18:00", "2026-11-30T06:00"),
        ("2026-11-30T05:59", "2026-11-30T06:00"),
        ("2026-11-30T06:00", None),
    ],
)
def test_a_weekly_freeze_goes_over_midnight(moment: str, until: str | None) -> None:
    weekend = Freeze("weekend", days=(4,), at=time(18), lasts=timedelta(hours=60))

    found = weekend.until(datetime.fromisoformat(f"{moment}+00:00"))

    assert found == (None if until is None else datetime.fromisoformat(f"{until}+00:00"))


@pytest.mark.parametrize(("size", "most"), [(0, 1), (1, 1), (19, 1), (20, 2), (29, 2), (1000, 100)])
def test_a_share_is_rounded_down_and_at_least_one(size: int, most: int) -> None:
    assert BlastRadius().of_pool(size) == most


def test_limits_are_those_of_the_policy() -> None:
    policy = Policy(BlastRadius(nodes_at_once=5, per_window=WindowCap(2, timedelta(minutes=5)), percent_of_pool=100))

    assert judge(QUESTION, replace(FACTS, disrupted=4), policy=policy, now=NOW) == RAN
    assert judge(QUESTION, replace(FACTS, in_window=frozenset("ab")), policy=policy, now=NOW).latches
