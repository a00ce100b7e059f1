"""Cancel, hold, take-over, retry, escalation: each ends what it says, and leaves a record."""

from datetime import timedelta

import pytest

from service.app.cancel_run import cancel_run
from service.app.hold_node import hold_node, release_node
from service.app.resolve import resolve
from service.app.retry_run import retry_run
from service.app.show_run import show_run
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.run import GateState, NodeRunState, ResolveAs, StepOutcome, Verdict
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer, exits
from tests.app.conftest import Make, works
from tests.support.world import ON_CALL, OPERATOR

UNKILLABLE = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))


def test_a_cancelled_run_that_waits_ends_and_its_gate_is_void(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    world.settle()

    cancel_run(world.service, run.id, person=OPERATOR, reason="wrong node")
    world.settle()

    node_run = world.node_runs(run)[0]
    assert (node_run.state, node_run.verdict, node_run.reason) == (NodeRunState.CANCELLED, None, "wrong node")
    assert world.history(node_run).gates[0].state is GateState.VOID
    assert world.facts(run)[-4:] == ["run.cancel_requested", "gate.void", "node_run.ended", "run.ended"]


def test_a_queued_run_that_is_cancelled_sends_nothing(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")

    cancel_run(world.service, run.id, person=OPERATOR)
    world.settle()

    assert world.node_runs(run)[0].state is NodeRunState.CANCELLED
    assert world.scripted.orders == []


def test_what_has_ended_cannot_be_cancelled(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    world.play(run)

    with pytest.raises(Conflict, match="has ended"):
        cancel_run(world.service, run.id, person=OPERATOR)


def test_a_stuck_node_run_is_not_ended_by_a_cancel(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [UNKILLABLE]})
    run = world.request("cure", "gpu-01")
    world.play(run)

    cancelled = cancel_run(world.service, run.id, person=OPERATOR)
    world.settle()

    assert cancelled.stuck == ("gpu-01",)
    node_run = world.node_runs(run)[0]
    assert (node_run.state, node_run.verdict) == (NodeRunState.STUCK, Verdict.UNKNOWN)


def test_a_hold_ends_what_waits_and_names_what_is_stuck(make: Make) -> None:
    world = make({**works("cure"), "gpu-02:cure.run": [UNKILLABLE]}, nodes=("gpu-01", "gpu-02"))
    run = world.request("cure", "gpu-01", "gpu-02")
    world.settle()
    world.answer(next(gate for gate in world.open_gates() if gate.node == "gpu-02"))
    world.settle()

    first = hold_node(world.service, "gpu-01", person=ON_CALL, reason="taking evidence")
    second = hold_node(world.service, "gpu-02", person=ON_CALL, reason="taking evidence")
    world.settle()

    states = {one.node: one.state for one in world.node_runs(run)}
    assert states == {"gpu-01": NodeRunState.CANCELLED, "gpu-02": NodeRunState.STUCK}
    assert (first.stopped_runs, second.running_runs) == ((run.id,), (run.id,))


def test_a_released_node_takes_requests_again(make: Make) -> None:
    world = make(works("cure"))
    hold_node(world.service, "gpu-01", person=ON_CALL, reason="taking evidence")

    release_node(world.service, "gpu-01", person=ON_CALL)

    assert world.play(world.request("cure", "gpu-01"))[0].verdict is Verdict.CURED


def test_a_hold_is_not_taken_from_another_person_unsaid(make: Make) -> None:
    world = make({})
    hold_node(world.service, "gpu-01", person=ON_CALL, reason="taking evidence")

    with pytest.raises(Conflict) as refused:
        hold_node(world.service, "gpu-01", person=OPERATOR, reason="memtest")
    hold_node(world.service, "gpu-01", person=OPERATOR, reason="memtest", replace=True)
    released = release_node(world.service, "gpu-01", person=ON_CALL, reason="all is well")

    assert refused.value.reason == "Node gpu-01 is on hold by second: taking evidence"
    assert refused.value.way_out == (
        "Ask second; `unstick hold gpu-01 --replace --reason ...` takes it from second, and the record says so."
    )
    assert (released.by, released.reason) == ("operator", "memtest")
    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=None, limit=10))
    assert [(one.fact.action, one.fact.person, dict(one.fact.body)) for one in events[1:]] == [
        (
            "node.held",
            "operator",
            {"reason": "memtest", "until": None, "in_place_of": "on hold by second: taking evidence"},
        ),
        ("node.released", "second", {"reason": "all is well", "it_was": "on hold by operator: memtest"}),
    ]


def test_a_hold_of_the_past_is_in_nobody_s_way(make: Make) -> None:
    world = make({})
    until = world.clock.now() + timedelta(minutes=5)
    hold_node(world.service, "gpu-01", person=ON_CALL, reason="taking evidence", until=until)
    world.move_to(until)

    held = hold_node(world.service, "gpu-01", person=OPERATOR, reason="memtest")

    assert (held.hold.by, held.hold.reason) == ("operator", "memtest")


def test_a_request_for_a_held_node_says_whom_to_ask(make: Make) -> None:
    world = make(works("cure"))
    hold_node(world.service, "gpu-01", person=ON_CALL, reason="taking evidence")

    with pytest.raises(Conflict) as refused:
        world.request("cure", "gpu-01")

    assert refused.value.reason == "Node gpu-01 is on hold by second: taking evidence"
    assert refused.value.way_out == "Ask second first: `unstick release gpu-01` ends the hold."


def test_a_hold_needs_a_reason_and_a_node(make: Make) -> None:
    world = make({})

    with pytest.raises(InvalidInput, match="reason"):
        hold_node(world.service, "gpu-01", person=ON_CALL, reason="")
    with pytest.raises(NotFound, match="gpu-99"):
        hold_node(world.service, "gpu-99", person=ON_CALL, reason="why not")


def test_a_request_for_a_busy_node_queues_and_says_who_has_it(make: Make) -> None:
    world = make(works("cure"))
    first = world.request("cure", "gpu-01")
    world.settle()

    second = world.request("cure", "gpu-01")
    world.settle()

    waiting = world.node_runs(second)[0]
    assert waiting.state is NodeRunState.QUEUED
    assert first.id in waiting.reason
    world.play(first)
    assert world.play(second)[0].verdict is Verdict.CURED


def test_a_take_over_ends_the_one_that_waits_and_gets_its_node(make: Make) -> None:
    world = make(works("cure"))
    first = world.request("cure", "gpu-01")
    world.settle()

    second = world.request("cure", "gpu-01", person=ON_CALL, take_over=True)
    node_run = world.play(second, by=OPERATOR)[0]

    assert world.node_runs(first)[0].reason == "taken over by second"
    assert world.node_runs(first)[0].state is NodeRunState.CANCELLED
    assert node_run.verdict is Verdict.CURED


def test_what_is_stuck_cannot_be_taken_over(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [UNKILLABLE]})
    world.play(world.request("cure", "gpu-01"))

    with pytest.raises(Conflict, match="stuck"):
        world.request("cure", "gpu-01", take_over=True)


def test_only_what_is_stuck_can_be_resolved_and_only_with_a_reason(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [UNKILLABLE]})
    run = world.request("cure", "gpu-01")

    with pytest.raises(Conflict, match="not stuck"):
        resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason="x", person=OPERATOR)
    world.play(run)
    with pytest.raises(InvalidInput, match="reason"):
        resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason=" ", person=OPERATOR)
    resolve(
        world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason="rebooted by hand", person=OPERATOR
    )
    world.settle()

    node_run = world.node_runs(run)[0]
    assert (node_run.state, node_run.verdict) == (NodeRunState.FAILED, Verdict.UNKNOWN)
    assert "rebooted by hand" in node_run.reason


def test_a_word_that_would_change_nothing_is_refused_with_the_ways_that_are_left_and_recorded(make: Make) -> None:
    booted = Answer(Report(ReportState.REBOOTED, boot_id="later"))
    world = make({**works("cure"), "cure.run": [booted]})
    run = world.request("cure", "gpu-01")
    stuck = world.play(run)[0]

    with pytest.raises(Conflict) as refused:
        resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.SETTLE_AGAIN, reason="back", person=OPERATOR)
    world.settle()

    history = world.history(stuck)
    assert refused.value.reason == (
        "There is nothing left to ask node gpu-01. "
        "The node booted while step cure ran; what it did by then is not known."
    )
    assert refused.value.way_out == (
        "Look at it, then say --as changed (verify decides), --as retry (the step begins anew), --as failed (it ends)."
    )
    assert (history.node_run.state, history.resolutions) == (NodeRunState.STUCK, ())
    assert world.facts(run)[-2:] == ["node_run.stuck", "node_run.resolve_refused"]


def test_a_word_after_which_the_node_says_nothing_new_is_shown_and_so_is_what_came_of_it(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [UNKILLABLE]})
    run = world.request("cure", "gpu-01")
    world.play(run)

    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.SETTLE_AGAIN, reason="back", person=OPERATOR)
    world.settle()

    (shown,) = show_run(world.service, run.id).nodes
    assert [(one.resolve_as, one.by, one.reason) for one in shown.resolutions] == [
        (ResolveAs.SETTLE_AGAIN, "operator", "back")
    ]
    assert world.facts(run)[-3:] == ["node_run.stuck", "node_run.resolved", "node_run.stuck"]


def test_a_retry_plays_the_nodes_that_did_not_succeed(make: Make) -> None:
    world = make({**works("cure"), "gpu-02:cure.verify": [exits(77), exits(0)]}, nodes=("gpu-01", "gpu-02"))
    run = world.request("cure", "gpu-01", "gpu-02")
    world.play(run)

    again = retry_run(world.service, run.id, person=OPERATOR, from_step=None, failed_nodes=True, reason="again")
    done = world.play(again)

    assert again.retry_of == run.id
    assert [(one.node, one.verdict) for one in done] == [("gpu-02", Verdict.CURED)]


def test_an_escalation_takes_the_place_on_the_node_in_the_same_moment(make: Make) -> None:
    world = make({**works("cure"), **works("strike"), "cure.verify": [exits(1)]}, scheduler="slurm")
    waiting_behind = []
    run = world.request("cure", "gpu-01", params={"level": 7})
    world.settle()
    waiting_behind.append(world.request("cure", "gpu-01"))
    world.answer(world.open_gates()[0])
    world.settle()

    holder = world.service.store.read(lambda reader: reader.holder("gpu-01"))
    assert holder is not None
    escalated = world.service.store.read(lambda reader: reader.run(holder.run_id))

    assert (escalated.runbook, escalated.escalated_from, escalated.requested_by) == ("stronger", run.id, "operator")
    assert dict(escalated.params) == {"level": 7}
    assert world.node_runs(waiting_behind[0])[0].state is NodeRunState.QUEUED


def test_no_escalation_where_none_fits_and_the_record_says_so(make: Make) -> None:
    world = make({**works("cure"), "cure.verify": [exits(1)]}, scheduler="kubernetes")
    run = world.request("cure", "gpu-01")

    world.play(run)

    assert "escalation.refused" in world.facts(run)


def test_no_escalation_after_an_unknown_outcome(make: Make) -> None:
    world = make({**works("cure"), "cure.verify": [exits(2)]}, scheduler="slurm")
    run = world.request("cure", "gpu-01")
    assert world.play(run)[0].state is NodeRunState.STUCK

    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.FAILED, reason="seen", person=OPERATOR)
    world.settle()

    assert "escalation.refused" not in world.facts(run)
    assert world.service.store.read(lambda reader: reader.holder("gpu-01")) is None


def test_no_escalation_to_a_node_on_hold(make: Make) -> None:
    world = make({**works("cure"), **works("strike"), "cure.verify": [exits(1)]}, scheduler="slurm")
    run = world.request("cure", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]
    original = world.scripted.start

    def hold_meanwhile(order, on_output):  # type: ignore[no-untyped-def]
        if order.kind == "verify":
            hold_node(world.service, "gpu-01", person=ON_CALL, reason="evidence")
        return original(order, on_output)

    world.scripted.start = hold_meanwhile  # type: ignore[method-assign]
    world.answer(gate)
    world.settle()

    assert "escalation.refused" in world.facts(run)


def test_a_denied_gate_leaves_the_node_as_it_was_found(make: Make) -> None:
    world = make({**works("take-out"), **works("repair"), **works("give-back")})
    run = world.request("undoing", "gpu-01")

    node_run = world.play(run, deny=("repair",))[0]

    assert node_run.state is NodeRunState.DENIED
    outcomes = {one.step: one.outcome for one in node_run.results}
    assert outcomes == {
        "take-out": StepOutcome.CHANGED,
        "repair": StepOutcome.DENIED,
        "give-back": StepOutcome.CHANGED,
    }
