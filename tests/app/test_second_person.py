"""Who requested a run never answers its second-person gate, whichever way he comes."""

import pytest

from service.app.decide import Decision, decide
from service.app.hold_node import hold_node
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.domain.errors import Conflict, Forbidden, InvalidInput
from service.domain.person import Person, Role
from service.domain.run import GateState, NodeRunState, ResolveAs, Trigger, TriggerKind, Verdict
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer, exits
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, SECOND

BOTH = Person("operator", frozenset({Role.OPERATOR, Role.APPROVER}))
OTHER = Person("other", frozenset({Role.OPERATOR, Role.APPROVER}))
ADMIN = Person("admin", frozenset({Role.ADMIN}))


def test_the_requester_is_refused_though_he_is_an_approver_too(make: Make) -> None:
    world = make(works("strike"))
    world.request("stronger", "gpu-01", person=BOTH)
    world.settle()

    with pytest.raises(Forbidden, match="requested this run"):
        world.answer(world.open_gates()[0], by=BOTH)

    assert [gate.state for gate in world.open_gates()] == [GateState.OPEN]


def test_an_operator_is_refused_at_a_second_person_gate(make: Make) -> None:
    world = make(works("strike"))
    world.request("stronger", "gpu-01", person=OTHER)
    world.settle()

    with pytest.raises(
        Forbidden, match=r"token has the role operator, which may not answer this gate\. It takes the role approver\."
    ):
        world.answer(world.open_gates()[0], by=OPERATOR)


def test_an_admin_answers_no_gate(make: Make) -> None:
    world = make(works("cure"))
    world.request("cure", "gpu-01")
    world.settle()

    with pytest.raises(Forbidden):
        world.answer(world.open_gates()[0], by=ADMIN)


def test_a_second_person_lets_it_run(make: Make) -> None:
    world = make(works("strike"))
    run = world.request("stronger", "gpu-01", person=BOTH)

    node_run = world.play(run, by=SECOND)[0]

    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)


def test_the_requester_confirms_his_own_run_where_that_is_asked(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01", person=OPERATOR)

    node_run = world.play(run, by=OPERATOR)[0]

    assert node_run.verdict is Verdict.CURED


def test_by_retry_neither_the_first_nor_the_second_requester_may_answer(make: Make) -> None:
    world = make(works("strike"))
    first = world.request("stronger", "gpu-01", person=BOTH)
    world.play(first, by=SECOND, deny=("strike",))

    retry_run(world.service, first.id, person=OTHER, from_step=None, failed_nodes=True, reason="again")
    world.settle()
    gate = world.open_gates()[0]

    for person in (BOTH, OTHER):
        with pytest.raises(Forbidden):
            world.answer(gate, by=person)
    assert world.answer(gate, by=SECOND).state is GateState.APPROVED


def test_by_resolve_a_gate_is_asked_anew(make: Make) -> None:
    lost = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))
    world = make({**works("strike"), "strike.run": [lost, exits(0)]})
    run = world.request("stronger", "gpu-01", person=BOTH)
    assert world.play(run)[0].state is NodeRunState.STUCK

    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.RETRY, reason="the process is gone", person=BOTH)
    world.settle()

    gate = world.open_gates()[0]
    with pytest.raises(Forbidden):
        world.answer(gate, by=BOTH)


def test_by_take_over_who_takes_over_is_the_requester(make: Make) -> None:
    world = make(works("strike"))
    world.request("stronger", "gpu-01", person=OTHER)
    world.settle()

    run = world.request("stronger", "gpu-01", person=BOTH, take_over=True)
    world.settle()

    gate = next(gate for gate in world.open_gates() if gate.run_id == run.id)
    with pytest.raises(Forbidden):
        world.answer(gate, by=BOTH)


def test_by_escalation_the_requester_stays_the_requester(make: Make) -> None:
    world = make({**works("cure"), **works("strike"), "cure.verify": [exits(77)]}, scheduler="slurm")
    run = world.request("cure", "gpu-01", person=BOTH)
    assert world.play(run, by=BOTH)[0].verdict is Verdict.NOT_CURED

    gate = next(gate for gate in world.open_gates() if gate.step == "strike")

    escalated = world.service.store.read(lambda reader: reader.run(gate.run_id))
    assert (escalated.requested_by, escalated.requesters) == (BOTH.name, (BOTH.name,))
    with pytest.raises(Forbidden):
        world.answer(gate, by=BOTH)


def test_whose_source_fired_counts_as_requester(make: Make) -> None:
    world = make(works("strike"))
    alert = Trigger(TriggerKind.ALERT, "some-rule")
    world.request("stronger", "gpu-01", person=OPERATOR, trigger=alert, also_requested_by=("second",))
    world.settle()

    with pytest.raises(Forbidden):
        world.answer(world.open_gates()[0], by=SECOND)


def test_a_gate_that_may_not_be_waived_is_not(make: Make) -> None:
    world = make(works("strike"))

    with pytest.raises(Conflict, match="never be waived"):
        world.request("stronger", "gpu-01", waived=("strike",))


def test_the_digest_must_be_that_of_the_gate(make: Make) -> None:
    world = make(works("cure"))
    world.request("cure", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]

    with pytest.raises(Conflict, match="not that of this gate"):
        decide(world.service, Decision(gate.id, "0" * 64, True), person=SECOND)


def test_a_gate_is_answered_once(make: Make) -> None:
    world = make(works("cure"))
    world.request("cure", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]
    world.answer(gate, approve=False, reason="not now")

    with pytest.raises(Conflict, match="denied by second"):
        world.answer(gate)


def test_a_denial_needs_a_reason(make: Make) -> None:
    world = make(works("cure"))
    world.request("cure", "gpu-01")
    world.settle()

    with pytest.raises(InvalidInput, match="needs a reason"):
        world.answer(world.open_gates()[0], approve=False, reason=" ")


def test_an_expired_gate_is_refused_and_the_run_ends_as_expired(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]
    world.move_to(gate.expires_at)

    with pytest.raises(Conflict, match="expired"):
        world.answer(gate)

    world.settle()
    node_run = world.node_runs(run)[0]
    assert (node_run.state, node_run.verdict) == (NodeRunState.EXPIRED, None)
    assert [order.kind for order in world.scripted.orders] == ["check"]


def test_a_held_node_refuses_every_request(make: Make) -> None:
    world = make(works("cure"))
    hold_node(world.service, "gpu-01", person=OPERATOR, reason="evidence is being taken")

    with pytest.raises(Conflict, match="on hold by operator"):
        world.request("cure", "gpu-01")
