"""Alerts that wait: for a node, a person, a breaker, or a service that was away; a storm stays within bounds."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from service.app.hold_node import hold_node, release_node
from service.app.pause_alerts import pause_alerts, reset_breaker, resume_alerts, standing
from service.domain.delivery import AlertVerdict, HeldBy
from service.domain.errors import Conflict, InvalidInput, NotFound, Unavailable
from service.domain.person import Person, Role
from service.domain.policy import BlastRadius, Policy, WindowCap
from service.domain.rails import BLAST_RADIUS
from service.engine.local import LocalEngine
from tests.app.alerting import alert, deliver, every, follow, judge, resolved, rule, run_of, say, verdicts
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, World

ADMIN = Person("root", frozenset({Role.ADMIN}))
RAN, SAME, HELD = AlertVerdict.RAN, AlertVerdict.DEDUPLICATED, AlertVerdict.HELD
NODES = tuple(f"gpu-{number:02}" for number in range(1, 9))
#: Only so that a test that fails does not hang.
LONG = 120


def actions(world: World) -> list[str]:
    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=10_000))
    return [event.fact.action for event in events]


def policy(at_once: int = 1000, window: int = 1000, percent: int = 100) -> Policy:
    return Policy(BlastRadius(at_once, WindowCap(window, timedelta(hours=1)), percent))


def test_an_alert_on_a_busy_node_is_judged_when_it_is_free(make: Make) -> None:
    world = follow(make(works("cure")), rule(runbook="stronger", waive=()))
    run = world.request("cure", "gpu-01")
    world.settle()
    one = alert(world)
    held = say(world, one, one)
    found = every(world)

    world.play(run)

    assert held == [HELD, SAME]
    assert (found[0].held_by, found[0].reason) == (
        HeldBy.BUSY,
        f"Run {run.id} (cure, waiting) has the node gpu-01.",
    )
    assert verdicts(judge(world)) == [RAN, SAME]
    assert actions(world).count("alert.judged") == 3


def test_an_alert_that_is_resolved_while_it_is_held_starts_nothing(make: Make) -> None:
    world = follow(make(works("cure")), rule(runbook="stronger"))
    run = world.request("cure", "gpu-01")
    world.settle()
    one = alert(world)

    found = say(world, one)
    found = say(world, resolved(one))
    world.play(run)

    assert found == [AlertVerdict.RESOLVED, AlertVerdict.RESOLVED]
    assert verdicts(judge(world)) == found
    assert every(world)[0].reason == "It was resolved while it was held."


def test_each_monitor_of_a_pair_that_says_it_is_over_is_listed_with_the_node(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    pause_alerts(world.service, person=ADMIN, reason="the rule is looked at")
    one = alert(world)
    say(world, one)

    say(world, resolved(one))
    say(world, resolved(one))

    assert [(one.rule, one.node, one.verdict) for one in every(world)] == [
        ("ghost", "gpu-01", AlertVerdict.RESOLVED)
    ] * 3


def test_an_alert_on_a_held_node_is_judged_when_it_is_released(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    hold_node(world.service, "gpu-01", person=OPERATOR, reason="the vendor looks")
    held = say(world, alert(world))
    reason = every(world)[0].reason

    release_node(world.service, "gpu-01", person=OPERATOR)

    assert (held, reason) == ([HELD], "Node gpu-01 is on hold by operator: the vendor looks")
    assert verdicts(judge(world)) == [RAN]


def test_a_pause_holds_what_comes_and_its_end_judges_what_still_fires(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())
    pause_alerts(world.service, person=ADMIN, reason="a rule is wrong")
    first, second = alert(world), alert(world, "gpu-02")
    paused = say(world, first, second)
    say(world, resolved(second))

    woken = resume_alerts(world.service, person=ADMIN, reason="it is mended")

    assert paused == [HELD, HELD]
    assert woken == 1
    assert verdicts(judge(world)) == [RAN, AlertVerdict.RESOLVED, AlertVerdict.RESOLVED]
    assert [one for one in actions(world) if one.startswith("alerts.")] == ["alerts.paused", "alerts.resumed"]


def test_a_pause_is_refused_twice_without_a_reason_and_its_end_without_it(make: Make) -> None:
    world = make(works("cure"))
    with pytest.raises(InvalidInput, match="A pause needs a reason"):
        pause_alerts(world.service, person=ADMIN, reason=" ")
    with pytest.raises(Conflict, match="Alerts are not paused"):
        resume_alerts(world.service, person=ADMIN, reason="x")
    pause_alerts(world.service, person=ADMIN, reason="first")
    with pytest.raises(Conflict, match="Alerts are paused by root: first"):
        pause_alerts(world.service, person=ADMIN, reason="second")
    with pytest.raises(Conflict, match="is not latched"):
        reset_breaker(world.service, BLAST_RADIUS, person=ADMIN, reason="x")
    with pytest.raises(NotFound):
        reset_breaker(world.service, "other", person=ADMIN, reason="x")


def test_as_many_nodes_as_may_be_are_disrupted_and_the_others_follow(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule(waive=()), policy=policy(at_once=2))
    found = say(world, *(alert(world, node) for node in NODES[:4]))
    run = run_of(world, every(world)[0])
    reason = every(world)[2].reason
    world.settle()

    world.play(run)

    assert found == [RAN, RAN, HELD, HELD]
    assert reason == "Blast radius: 2 nodes disrupted at this moment, and 2 may be."
    assert verdicts(judge(world)) == [RAN, RAN, RAN, HELD]


def test_a_run_of_a_person_counts_against_the_blast_radius(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule(), policy=policy(percent=15))
    world.request("cure", "gpu-08")
    world.settle()

    say(world, alert(world))

    assert every(world)[0].reason == "Blast radius: 1 of 8 nodes of pool lab disrupted, 1 may be."


def test_too_many_nodes_in_a_window_latch_the_breaker_until_an_admin_resets_it(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule(), policy=policy(window=2))

    found = say(world, *(alert(world, node) for node in NODES[:4]))
    latched = standing(world.service).breakers[0]
    world.settle()
    world.move_to(world.clock.at + timedelta(hours=3))  # type: ignore[union-attr]
    still = verdicts(judge(world))
    woken = reset_breaker(world.service, BLAST_RADIUS, person=ADMIN, reason="it was real")

    assert found == [RAN, RAN, HELD, HELD]
    assert latched.latched
    assert latched.reason.startswith("Alerts have disrupted 2 nodes within 1 h, and 2 may be")
    assert (still, woken) == ([RAN, RAN, HELD, HELD], 2)
    assert verdicts(judge(world)) == [RAN, RAN, RAN, RAN]
    assert standing(world.service).breakers[0].reset_reason == "it was real"
    assert [one for one in actions(world) if one.startswith("breaker.")] == ["breaker.latched", "breaker.reset"]


def test_what_was_disrupted_before_a_reset_does_not_latch_the_breaker_again(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule(), policy=policy(window=2))
    say(world, *(alert(world, node) for node in NODES[:4]))
    world.settle()

    reset_breaker(world.service, BLAST_RADIUS, person=ADMIN, reason="it was real")

    assert verdicts(judge(world)) == [RAN, RAN, RAN, RAN]
    assert not standing(world.service).breakers[0].latched


def test_what_was_stored_before_the_service_ended_is_judged_at_its_next_start(make: Make, tmp_path: Path) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())
    deliver(world, alert(world), alert(world, "gpu-02"))
    world.service.store.close()
    again = World.build(
        f"sqlite:///{tmp_path}/unstick0.db",
        world.scripted,
        inventory=world.service.inventory.current(),
        runbooks=Path(__file__).parent / "runbooks",
    )
    follow(again, rule())
    engine = LocalEngine(again.service, owner="tests")

    engine.start()
    waited = threading.Event()
    for _ in range(LONG * 10):
        if None not in verdicts(every(again)) or waited.wait(0.1):
            break
    engine.stop(LONG)

    assert verdicts(every(again)) == [RAN, RAN]
    again.close()


def test_a_judgement_that_cannot_be_recorded_leaves_nothing_half_done(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())
    deliver(world, alert(world), alert(world, "gpu-02"))
    store = world.service.store
    failing = [True]

    class FullDisk:
        """A store whose disk is full at the end of the first write."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def write(self, change: Any) -> Any:
            def fails(transaction: Any) -> Any:
                done = change(transaction)
                if failing:
                    failing.pop()
                    raise Unavailable("The disk is full.")
                return done

            return store.write(fails)

    world.service = replace(world.service, store=FullDisk())  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        judge(world)
    nothing = verdicts(every(world))

    assert nothing == [None, None]
    assert verdicts(judge(world)) == [RAN, RAN]
    assert actions(world).count("run.requested") == 2


def test_a_fault_of_our_own_in_one_alert_keeps_no_other_waiting(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    follow(world, rule("bad", "alert.labels.instance == 'gpu-01:9400'", runbook="poison"), rule())
    runbooks = world.service.runbooks

    class Poisoned:
        """A folder of runbooks with a defect."""

        def __getattr__(self, name: str) -> object:
            return getattr(runbooks, name)

        def get(self, name: str) -> object:
            if name == "poison":
                raise RuntimeError("a defect")
            return runbooks.get(name)

    world.service = replace(world.service, runbooks=Poisoned())  # type: ignore[arg-type]
    deliver(world, alert(world), alert(world, "gpu-02"))
    engine = LocalEngine(world.service, owner="tests")
    engine.start()
    waited = threading.Event()
    for _ in range(LONG * 10):
        if None not in verdicts(every(world)) or waited.wait(0.1):
            break
    fault = engine.fault()
    engine.stop(LONG)

    bad, good = every(world)
    assert (fault, good.verdict) == (None, RAN)
    assert (bad.verdict, bad.held_by) == (HELD, HeldBy.FAULT)
    assert bad.reason == "A fault of the service itself: RuntimeError. It is tried again in a minute; see the log."


def test_a_large_delivery_is_taken_whole_and_judged_in_pieces(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule(), policy=policy(at_once=3))
    storm = [alert(world, NODES[n % 8], fingerprint=f"f{n}") for n in range(200)]

    deliver(world, *storm, omitted=812)
    found = judge(world)

    assert len(found) == 200
    assert verdicts(found).count(RAN) == 3
    assert set(verdicts(found)) == {RAN, SAME, HELD}
    assert {one.held_by for one in found} == {None, HeldBy.BLAST_RADIUS}


def test_what_a_clock_that_ran_ahead_has_put_off_is_judged_when_it_is_set_right(make: Make) -> None:
    world = follow(make(works("cure")), rule(), policy=policy(at_once=1))
    pause_alerts(world.service, person=ADMIN, reason="a rule is wrong")
    right = world.clock.now()
    world.move_to(right + timedelta(days=400))
    deliver(world, alert(world, starts_at=world.clock.now()))
    assert verdicts(judge(world)) == [HELD]
    put_off = every(world)[0].wake_at
    engine = LocalEngine(world.service, owner="one")
    waited = threading.Event()

    engine.start()
    waited.wait(0.3)
    world.move_to(right)
    for _ in range(LONG * 10):
        found = every(world)[0].wake_at
        if found is not None and found < right + timedelta(days=1):
            break
        waited.wait(0.1)
    engine.stop(LONG)

    assert put_off is not None
    assert put_off > right + timedelta(days=400)
    assert found is not None
    assert found < right + timedelta(days=1)
