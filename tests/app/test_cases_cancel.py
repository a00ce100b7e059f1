"""A cancel that comes while a script runs is not taken for its end, and what the script did for no success."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.app.cancel_run import Cancelled, cancel_run
from service.domain.errors import Conflict
from service.domain.run import AttemptState, NodeRun, NodeRunState, Run, StepOutcome, Verdict
from service.domain.script import OutputChunk, Report, ReportState, ScriptKind, ScriptOrder
from service.executors.scripted import Answer, ScriptedExecutor, exits
from tests.app.conftest import RUNBOOKS
from tests.support.world import OPERATOR, World, local_nodes

LOST = Report(ReportState.LOST, reason="No answer came from gpu-01: the connection broke.")
STOPPED = Report(ReportState.FINISHED, signal=15, ended_by_us=True)
HANGS = Report(ReportState.UNKILLABLE, pid=4711, wchan="request_wait_answer")


class Cancelling(ScriptedExecutor):
    """Lets a person cancel while the script that acts is on its way."""

    cancel: Callable[[], object]

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        if order.acting and not any(one.acting for one in self.orders):
            self.cancel()
        return super().start(order, on_output)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[Answer], tuple[World, Run, NodeRun]]]:
    """Cure a node with this answer of the script that acts, cancelled meanwhile."""
    worlds: list[World] = []

    def played(run: Answer) -> tuple[World, Run, NodeRun]:
        executor = Cancelling(
            {
                ("gpu-01", "cure", ScriptKind.CHECK): [exits(0, targets=["it"])],
                ("gpu-01", "cure", ScriptKind.RUN): [run],
                ("gpu-01", "cure", ScriptKind.VERIFY): [exits(0)],
            }
        )
        world = World.build(
            f"sqlite:///{tmp_path}/unstick.db", executor, inventory=local_nodes("gpu-01"), runbooks=RUNBOOKS
        )
        worlds.append(world)
        world.scripted = executor
        requested = world.request("cure", "gpu-01")
        executor.cancel = lambda: cancel_run(world.service, requested.id, person=OPERATOR, reason="wrong node")
        return world, requested, world.play(requested)[0]

    yield played
    for world in worlds:
        world.close()


Play = Callable[[Answer], tuple[World, Run, NodeRun]]


def test_a_script_that_succeeds_after_the_cancel_is_recorded_and_the_run_ends_cancelled(play: Play) -> None:
    world, run, node_run = play(exits(0))

    (result,) = node_run.results
    assert (node_run.state, node_run.verdict, node_run.reason) == (NodeRunState.CANCELLED, None, "wrong node")
    assert (result.outcome, result.reason) == (
        StepOutcome.UNKNOWN,
        "It has acted; the cancel came before it was verified.",
    )
    facts = world.facts(run)
    assert facts[facts.index("run.cancel_requested") :] == [
        "run.cancel_requested",
        "attempt.finished",
        "node_run.ended",
        "run.ended",
    ]
    assert world.history(node_run).attempts[-1].exit_code == 0


def test_what_has_ended_stays_as_it_ended(play: Play) -> None:
    world, run, node_run = play(exits(0))

    with pytest.raises(Conflict) as refused:
        cancel_run(world.service, run.id, person=OPERATOR)
    world.settle()

    assert str(refused.value) == (
        f"Run {run.id} has ended; a terminal state does not change. `unstick show` tells how."
    )
    assert world.node_runs(run) == [node_run]


def test_a_script_that_was_stopped_is_told_as_stopped(play: Play) -> None:
    world, _, node_run = play(Answer(LOST, stop=STOPPED))

    (result,) = node_run.results
    assert (node_run.state, result.outcome, result.reason) == (
        NodeRunState.CANCELLED,
        StepOutcome.FAILED,
        "Its run was stopped.",
    )
    assert len(world.scripted.stopped) == 1


def test_a_node_that_does_not_answer_the_stop_leaves_the_run_stuck_and_not_cancelled(play: Play) -> None:
    world, _, node_run = play(Answer(LOST))

    assert (node_run.state, node_run.verdict) == (NodeRunState.STUCK, Verdict.UNKNOWN)
    assert node_run.reason == (
        "Nobody could learn how the run of step cure ended. The node did not answer for too long. "
        "No answer came from gpu-01: the connection broke."
    )
    assert world.history(node_run).attempts[-1].state is AttemptState.UNKNOWN
    assert len(world.scripted.stopped) > 1


def test_a_script_that_cannot_be_stopped_leaves_the_run_stuck_and_not_cancelled(play: Play) -> None:
    _, _, node_run = play(Answer(LOST, stop=HANGS))

    assert (node_run.state, node_run.verdict, node_run.reason) == (
        NodeRunState.STUCK,
        Verdict.UNKNOWN,
        "The run of step cure cannot be killed (pid 4711, waits in request_wait_answer).",
    )


def test_a_cancel_says_where_something_may_still_run_and_where_nothing_is_known(play: Play) -> None:
    world, run, _ = play(Answer(LOST))

    again = cancel_run(world.service, run.id, person=OPERATOR)

    assert again == Cancelled(requested=(), stuck=("gpu-01",))
