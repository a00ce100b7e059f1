"""While a script of a node run cannot be killed no further one is started: a second probe would only hang beside it."""

import pytest

from service.app.resolve import resolve
from service.domain.run import NodeRun, NodeRunState, ResolveAs, StepOutcome, Verdict
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, World

HANGS = Report(ReportState.UNKILLABLE, pid=4711, wchan="request_wait_answer")
FREED = Report(ReportState.FINISHED, signal=9, ended_by_us=True)
HANGS_IN_D = "The check hangs and cannot be killed (pid 4711, waits in request_wait_answer)."


def sent(world: World) -> list[str]:
    return [f"{order.step}.{order.kind}" for order in world.scripted.orders]


def outcomes(node_run: NodeRun) -> dict[str, StepOutcome | None]:
    return {one.step: one.outcome for one in node_run.results}


@pytest.mark.parametrize("dry_run", [False, True])
def test_neither_a_retry_nor_the_next_step_starts_beside_a_probe_that_hangs(make: Make, dry_run: bool) -> None:
    world = make({**works("try"), **works("next"), "try.check": [Answer(HANGS)]})

    run = world.request("stubborn", "gpu-01", dry_run=dry_run)
    (node_run,) = world.play(run)

    assert sent(world) == ["try.check"]
    assert (node_run.state, node_run.verdict, node_run.reason) == (
        NodeRunState.FAILED,
        None,
        f"Step try: {HANGS_IN_D}",
    )
    assert outcomes(node_run) == {"try": StepOutcome.FAILED, "next": None}


def test_a_probe_that_failed_and_is_gone_is_tried_again_and_the_next_step_played(make: Make) -> None:
    world = make({**works("try"), **works("next"), "try.check": [Answer(FREED)]})

    (node_run,) = world.play(world.request("stubborn", "gpu-01"))

    assert sent(world) == [*["try.check"] * 3, "next.check", "next.run", "next.verify"]
    assert node_run.state is NodeRunState.FAILED


class TestWhatMustBeUndone:
    """An undoing is a script too: it waits for a person, so that nobody believes the node given back."""

    @pytest.fixture
    def world(self, make: Make) -> World:
        hangs = Answer(HANGS, settles=(HANGS, FREED))
        return make({**works("take-out"), **works("give-back"), "repair.check": [hangs]})

    @pytest.fixture
    def stuck(self, world: World) -> NodeRun:
        (node_run,) = world.play(world.request("undoing", "gpu-01"))
        return node_run

    def resolve(self, world: World, stuck: NodeRun, resolve_as: ResolveAs) -> NodeRun:
        resolve(world.service, stuck.run_id, node="gpu-01", resolve_as=resolve_as, reason="seen", person=OPERATOR)
        world.settle()
        return world.service.store.read(lambda reader: reader.node_run(stuck.id))

    def test_it_is_stuck_and_says_why(self, world: World, stuck: NodeRun) -> None:
        assert (stuck.state, stuck.verdict) == (NodeRunState.STUCK, Verdict.UNKNOWN)
        assert stuck.reason == (
            "Step give-back is not played while the check of step repair cannot be killed "
            "(pid 4711, waits in request_wait_answer)."
        )
        assert sent(world)[-1] == "repair.check"

    def test_the_node_is_asked_when_a_person_wants_it_and_the_undoing_comes_when_it_is_free(
        self, world: World, stuck: NodeRun
    ) -> None:
        still = self.resolve(world, stuck, ResolveAs.SETTLE_AGAIN)
        freed = self.resolve(world, still, ResolveAs.SETTLE_AGAIN)

        assert (still.state, still.reason) == (NodeRunState.STUCK, stuck.reason)
        assert (freed.state, freed.verdict) == (NodeRunState.FAILED, None)
        assert freed.reason == "Step repair: The check hung and was ended at its deadline; nothing was touched."
        assert outcomes(freed)["give-back"] is StepOutcome.CHANGED
        assert len(world.scripted.settled) == 2

    def test_a_person_may_have_it_played_beside_what_hangs(self, world: World, stuck: NodeRun) -> None:
        ended = self.resolve(world, stuck, ResolveAs.FAILED)

        assert (ended.state, ended.verdict) == (NodeRunState.FAILED, Verdict.UNKNOWN)
        assert outcomes(ended)["give-back"] is StepOutcome.CHANGED
        assert world.scripted.settled == []
