"""What no right of the policy and no reach of a token allows is refused on every path, and nothing is recorded."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from service.app.cancel_run import cancel_run
from service.app.hold_node import hold_node, release_node
from service.app.pause_alerts import pause_alerts, reset_breaker, resume_alerts
from service.app.ports import RunFilter
from service.app.replay_alert import replay_alert
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.app.show_run import list_gates, show_gate
from service.app.sweep_request import run_sweep
from service.domain.delivery import AlertVerdict
from service.domain.errors import Forbidden
from service.domain.person import Permission, Person, Role
from service.domain.rails import BLAST_RADIUS
from service.domain.reach import Reach
from service.domain.rights import Right
from service.domain.run import GateState, NodeRunState, ResolveAs
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer
from tests.app.alerting import WIDE, Fixed, alert, deliver, every, judge, rule, verdicts
from tests.app.conftest import Make, works
from tests.app.sweeping import schedule, sweep
from tests.support.world import OPERATOR, SECOND, World

ALL = frozenset(Permission)
ANN = Person("ann", frozenset({Role.OPERATOR, Role.APPROVER, Role.ADMIN}))
#: The same person with a token for other nodes, and with one for other runbooks.
ELSEWHERE = replace(ANN, reach=Reach((), ("elsewhere",)))
OTHERWISE = replace(ANN, reach=Reach(("other-*",)))
#: May do everything, in another pool; and everything but what is asked here, by name.
NARROW = (Right(frozenset({"ann"}), ALL, Reach((), ("elsewhere",)), "policy.yaml:2"),)
Act = Callable[[World, Person], object]


def give(world: World, *rights: Right) -> None:
    """Give the service these rights, in place of what it had."""
    world.service = replace(world.service, policy=Fixed(replace(WIDE, rights=rights)))


def run_id(world: World) -> str:
    """Return the run of the world, which operator has requested."""
    page = world.service.store.read(lambda reader: reader.runs(RunFilter(), cursor=None, limit=10))
    return page.items[-1].id


PATHS: dict[str, Act] = {
    "request": lambda world, person: world.request("cure", "gpu-02", person=person),
    "dry run": lambda world, person: world.request("cure", "gpu-02", person=person, dry_run=True),
    "take over": lambda world, person: world.request("cure", "gpu-01", person=person, take_over=True),
    "retry": lambda world, person: retry_run(
        world.service, run_id(world), person=person, from_step=None, failed_nodes=False, reason="again"
    ),
    "cancel": lambda world, person: cancel_run(world.service, run_id(world), person=person),
    "approve": lambda world, person: world.answer(world.open_gates()[0], by=person),
    "deny": lambda world, person: world.answer(world.open_gates()[0], by=person, approve=False),
    "hold": lambda world, person: hold_node(world.service, "gpu-01", person=person, reason="hands off"),
    "release": lambda world, person: release_node(world.service, "gpu-03", person=person),
    "replay": lambda world, person: replay_alert(world.service, every(world)[0].id, person=person),
    "sweep": lambda world, person: run_sweep(world.service, "nightly", person=person),
    "pause": lambda world, person: pause_alerts(world.service, person=person, reason="a rule is wrong"),
    "resume": lambda world, person: resume_alerts(world.service, person=person, reason="a rule is right"),
    "reset": lambda world, person: reset_breaker(world.service, BLAST_RADIUS, person=person, reason="it was real"),
}


def at_a_gate(make: Make) -> World:
    """Return a service with an open gate, a held node, an alert and a sweep."""
    world = schedule(make(works("cure"), nodes=("gpu-01", "gpu-02", "gpu-03")), sweep(), rules=(rule(),))
    world.request("cure", "gpu-01")
    world.settle(past_waits=False)
    hold_node(world.service, "gpu-03", person=OPERATOR, reason="the vendor looks")
    deliver(world, alert(world, "gpu-02"))
    return world


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_past_the_rights_or_the_reach_of_a_token(make: Make, path: str) -> None:
    world = at_a_gate(make)
    if path == "retry":
        cancel_run(world.service, run_id(world), person=OPERATOR)
        world.settle()
    before = [event.hash for event in world.service.store.audit_events()]

    refusals = []
    for person, rights in ((ELSEWHERE, None), (OTHERWISE, None), (ANN, NARROW), (ANN, ())):
        world.service = replace(world.service, policy=Fixed(replace(WIDE, rights=rights)))
        with pytest.raises(Forbidden) as refused:
            PATHS[path](world, person)
        refusals.append(refused.value)

    assert [event.hash for event in world.service.store.audit_events()] == before
    assert all("ann" in one.reason and one.way_out for one in refusals)


def test_a_right_lets_whom_it_names_act_where_it_reaches(make: Make) -> None:
    world = make(works("strike"), nodes=("gpu-01",))
    give(
        world,
        Right(frozenset({"operator"}), frozenset({Permission.REQUEST}), Reach(("strong*",), ("lab",)), "policy.yaml:2"),
        Right(frozenset({"group:sre"}), frozenset({Permission.APPROVE}), place="policy.yaml:3"),
    )
    run = world.request("stronger", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]

    with pytest.raises(Forbidden, match=r"answer this gate: stronger on gpu-01 \(pools lab\)\. It lets group:sre\."):
        world.answer(gate, by=SECOND)
    answered = world.answer(gate, by=replace(SECOND, groups=frozenset({"sre"})))

    assert (answered.state, run.requested_by) == (GateState.APPROVED, "operator")


def test_a_gate_says_to_each_whether_he_may_answer_it(make: Make) -> None:
    world = make(works("strike"))
    world.request("stronger", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]
    narrow = replace(SECOND, reach=Reach((), ("elsewhere",)))

    page = list_gates(world.service, None, person=narrow, cursor=None, limit=10)
    shown = [show_gate(world.service, gate.id, person=person).may_not for person in (SECOND, narrow)]

    told = "second's token is for pools elsewhere alone, and this is about stronger on gpu-01 (pools lab)."
    assert (shown[0], shown[1].startswith(told), page.items[0].may_not) == ("", True, shown[1])


def test_a_gate_is_judged_by_the_pools_of_its_plan_whatever_the_inventory_says_by_now(make: Make) -> None:
    world = make(works("strike"))
    world.request("stronger", "gpu-01")
    world.settle()
    inventory = world.service.inventory.current()
    moved = {name: replace(node, pools=("elsewhere",)) for name, node in inventory.nodes.items()}
    world.service = replace(world.service, inventory=Fixed(replace(inventory, nodes=moved)))

    with pytest.raises(Forbidden, match="pools lab"):
        world.answer(world.open_gates()[0], by=replace(SECOND, reach=Reach((), ("elsewhere",))))


def test_one_node_of_many_that_is_out_of_reach_refuses_the_whole_request(make: Make) -> None:
    world = make(works("strike"), nodes=("gpu-01", "gpu-02"))
    inventory = world.service.inventory.current()
    away = replace(inventory.nodes["gpu-02"], pools=("elsewhere",))
    apart = replace(inventory, nodes={**inventory.nodes, "gpu-02": away})
    world.service = replace(world.service, inventory=Fixed(apart))
    narrow = replace(OPERATOR, reach=Reach((), ("lab",)))

    with pytest.raises(Forbidden, match=r"for pools lab alone, and this is about stronger on gpu-02"):
        world.request("stronger", "gpu-01", "gpu-02", person=narrow)
    run = world.request("stronger", "gpu-01", "gpu-02")
    with pytest.raises(Forbidden, match="gpu-02"):
        cancel_run(world.service, run.id, person=narrow)

    assert [one.cancel_requested_by for one in world.node_runs(run)] == [None, None]


def test_whoever_takes_a_node_over_needs_the_right_to_end_what_waits_there(make: Make) -> None:
    world = make(works("cure"))
    waiting = world.request("cure", "gpu-01")
    world.settle(past_waits=False)
    give(world, Right(frozenset({"ann"}), frozenset({Permission.REQUEST}), place="policy.yaml:2"))

    with pytest.raises(Forbidden, match="lets ann cancel: cure on gpu-01"):
        world.request("cure", "gpu-01", person=ANN, take_over=True)

    assert world.node_runs(waiting)[0].cancel_requested_by is None


def test_a_stuck_node_is_resolved_by_whom_a_right_names(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [Answer(Report(ReportState.UNKILLABLE, pid=4711, wchan="fuse"))]})
    run = world.request("cure", "gpu-01")
    world.play(run)
    assert world.node_runs(run)[0].state is NodeRunState.STUCK
    give(world, *NARROW)

    with pytest.raises(Forbidden, match="lets ann resolve: cure on gpu-01"):
        resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason="seen", person=ANN)

    assert "node_run.resolved" not in world.facts(run)


def test_what_alerts_start_asks_for_the_right_of_nobody(make: Make) -> None:
    world = at_a_gate(make)
    world.service = replace(world.service, policy=Fixed(replace(WIDE, rights=())))

    judged = judge(world)

    assert verdicts(judged) == [AlertVerdict.RAN]
