"""Alerts leave nodes alone that are somebody else's, and a gate stands with what ran on its node."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from service.app.show_survey import show_survey
from service.domain.delivery import AlertVerdict, HeldBy
from service.domain.errors import ConfigInvalid, NotFound, Unavailable
from service.domain.policy import BlastRadius, Policy, WindowCap
from service.domain.run import Gate, GateState, NodeRunState, Run
from service.domain.survey import Kind, Occupant, OccupantLimits, could_not_look, not_asked, seen
from tests.app.alerting import WIDE, Fixed, alert, deliver, every, follow, judge, rule, run_of, say, verdicts
from tests.app.conftest import Make, works
from tests.app.surveying import looked_at
from tests.support.world import World

RAN, HELD = AlertVerdict.RAN, AlertVerdict.HELD
NODES = tuple(f"gpu-{number:02}" for number in range(1, 6))
CORDONED = seen([Occupant("cordoned by others")])
TWO_PODS = seen([Occupant("ml/train-0"), Occupant("ml/train-1"), Occupant("sys/exporter", apart="DaemonSet")])


def later(world: World, minutes: float) -> None:
    world.move_to(world.clock.now() + timedelta(minutes=minutes))


def facts_of(world: World, action: str) -> list[Any]:
    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=10_000))
    return [event.fact for event in events if event.fact.action == action]


def gates(world: World, run: Run) -> tuple[Gate, ...]:
    return world.history(world.node_runs(run)[0]).gates


@pytest.mark.parametrize(
    ("owners", "reason"),
    [
        (CORDONED, "Somebody else has gpu-01: cordoned by others."),
        (
            seen([Occupant("drained in Slurm by root: 'bad DIMM'"), Occupant("x", apart="ours")]),
            "Somebody else has gpu-01: drained in Slurm by root: 'bad DIMM'.",
        ),
        (could_not_look("no answer"), "Whether somebody else has gpu-01 is not known: no answer"),
    ],
)
def test_an_alert_on_a_node_of_somebody_else_is_held_until_it_is_free(make: Make, owners: Any, reason: str) -> None:
    world = follow(make(works("cure")), rule())
    told = looked_at(world)
    told.owned["gpu-01"] = owners
    found = say(world, alert(world))
    first = every(world)[0]

    later(world, 6)
    still = verdicts(judge(world))
    del told.owned["gpu-01"]
    later(world, 6)

    assert (found, first.held_by, first.reason) == ([HELD], HeldBy.OWNER, reason)
    assert (still, verdicts(judge(world))) == ([HELD], [RAN])
    assert len(told.asked) == 3
    assert len(facts_of(world, "alert.judged")) == 2


def test_our_own_cordon_and_a_node_without_a_cluster_keep_no_alert_waiting(make: Make) -> None:
    world = follow(make(works("cure"), nodes=NODES), rule())
    told = looked_at(world)
    told.owned |= {
        "gpu-01": seen([Occupant("cordoned by unstick", apart="unstick's own cordon")]),
        "gpu-02": not_asked("the inventory names no cluster of the node"),
    }

    assert say(world, alert(world), alert(world, "gpu-02")) == [RAN, RAN]


def test_a_rule_that_only_looks_asks_nobody_whose_the_node_is(make: Make) -> None:
    world = follow(make(works("cure")), rule(dry_run=True))
    told = looked_at(world)
    told.owned["gpu-01"] = CORDONED

    assert say(world, alert(world)) == [RAN]
    assert told.asked == []


def test_no_more_nodes_are_asked_about_than_may_be_disrupted_and_none_is_let_go_unasked(make: Make) -> None:
    world = follow(
        make(works("cure"), nodes=NODES),
        rule(),
        policy=Policy(BlastRadius(2, WindowCap(1000, timedelta(hours=1)), 100)),
    )
    told = looked_at(world)
    told.owned |= {"gpu-01": CORDONED, "gpu-02": CORDONED, "gpu-03": CORDONED}

    found = say(world, *(alert(world, name) for name in NODES))

    assert found == [HELD, HELD, HELD, RAN, RAN]
    assert told.asked == [NODES[0:2], NODES[2:4], NODES[4:5]]


def test_an_alert_that_another_rail_stops_costs_no_look(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    told = looked_at(world)
    one = alert(world)

    say(world, one, one)

    assert told.asked == [("gpu-01",)]


def test_a_gate_stands_with_what_ran_on_the_node_and_so_does_the_record(make: Make) -> None:
    world = make(works("cure"))
    told = looked_at(world)
    told.parts[Kind.PODS] = TWO_PODS
    bare = make(works("cure"))

    run, without = world.request("cure", "gpu-01"), bare.request("cure", "gpu-01")
    world.settle()
    bare.settle()

    gate, plain = world.open_gates()[0], bare.open_gates()[0]
    assert gate.survey is not None
    assert gate.survey.part(Kind.PODS) == TWO_PODS
    assert gate.occupants == "0 foreign owners, 2 pods, 0 jobs, 0 users, 0 GPU processes"
    body = facts_of(world, "gate.opened")[0].body
    assert body["occupants"] == {"owners": 0, "pods": 2, "jobs": 0, "users": 0, "gpu_processes": 0}
    assert (gate.digest, plain.survey) == (plain.digest, None)
    assert world.play(run)[0].state is bare.play(without)[0].state is NodeRunState.SUCCEEDED
    assert gates(world, run)[0].survey == gate.survey
    assert world.chain_holds()


def fired(make: Make, limits: OccupantLimits) -> tuple[World, Gate]:
    """Return a gate that a rule has waived, on a node with two pods, as it was opened."""
    world = follow(make(works("cure")), rule(), policy=replace(WIDE, occupants=limits))
    told = looked_at(world)
    told.parts |= {Kind.PODS: TWO_PODS, Kind.USERS: could_not_look("no answer")}
    say(world, alert(world))
    run = run_of(world, every(world)[0])
    world.settle()
    return world, gates(world, run)[0]


@pytest.mark.parametrize(
    "limits",
    [OccupantLimits(), OccupantLimits(pods=2, jobs=0), OccupantLimits(pods=0, only_for=("other",))],
    ids=["no limit", "within", "of other pools"],
)
def test_a_waived_gate_stays_waived_within_the_limits_and_keeps_what_ran_there(
    make: Make, limits: OccupantLimits
) -> None:
    world, gate = fired(make, limits)

    assert (gate.state, gate.over) == (GateState.WAIVED, ())
    assert gate.occupants.startswith("0 foreign owners, 2 pods")
    assert facts_of(world, "gate.waived")[0].body["rule"] == "ghost"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (OccupantLimits(pods=1), "There are 2 pods, and 1 may be."),
        (OccupantLimits(users=3), "How many users there are is not known (no answer), and 3 may be."),
    ],
)
def test_over_a_limit_a_waived_gate_is_opened_for_a_person_and_says_why(
    make: Make, limits: OccupantLimits, why: str
) -> None:
    world, gate = fired(make, limits)

    opened = facts_of(world, "gate.opened")[0]
    world.answer(world.open_gates()[0])
    world.settle()

    assert (gate.state, gate.over) == (GateState.OPEN, (why,))
    assert (opened.body["rule"], opened.body["over"]) == (None, [why])
    assert facts_of(world, "gate.waived") == []
    assert world.service.store.read(lambda reader: reader.node_run(gate.node_run_id)).state is NodeRunState.SUCCEEDED


def test_a_limit_does_not_refuse_a_person_who_is_asked_anyway(make: Make) -> None:
    world = follow(make(works("cure")), policy=replace(WIDE, occupants=OccupantLimits(pods=0)))
    told = looked_at(world)
    told.parts |= {Kind.PODS: TWO_PODS, Kind.OWNERS: CORDONED}

    run = world.request("cure", "gpu-01")

    assert world.play(run)[0].state is NodeRunState.SUCCEEDED
    assert gates(world, run)[0].over == ()
    assert gates(world, run)[0].occupants.startswith("1 foreign owner, 2 pods")


def test_limits_that_cannot_be_read_leave_a_waived_gate_to_a_person(make: Make) -> None:
    world = follow(make(works("cure")), rule())
    looked_at(world)
    deliver(world, alert(world))
    judge(world)

    class Broken:
        """A policy that was never good."""

        def current(self) -> Policy:
            raise ConfigInvalid("policy.yaml:1: it is empty.")

    world.service = replace(world.service, policy=Broken())
    world.settle()

    assert world.open_gates()[0].over == ("The limits are not known: policy.yaml:1: it is empty.",)
    world.service = replace(world.service, policy=Fixed(WIDE))


def test_a_person_may_look_before_anything_is_requested(make: Make) -> None:
    world = make(works("cure"))
    with pytest.raises(Unavailable, match="looks at no node by itself"):
        show_survey(world.service, "gpu-01")
    told = looked_at(world)
    told.parts[Kind.PODS] = TWO_PODS

    survey = show_survey(world.service, "gpu-01")

    assert survey.part(Kind.PODS) == TWO_PODS
    with pytest.raises(NotFound):
        show_survey(world.service, "gpu-99")
