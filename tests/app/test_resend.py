"""A script that may have been sent: what a second order that does not arrive proves of the first."""

from collections.abc import Callable

import pytest

from service.domain.run import NodeRunState, Verdict
from service.domain.script import NotStarted, OutputChunk, Report, ReportState, ScriptOrder
from tests.app.conftest import Make, works
from tests.support.world import World

LOST = Report(ReportState.LOST, reason="the link broke")
DONE = Report(ReportState.FINISHED, exit_code=0)


def refused(cause: NotStarted) -> Report:
    """Return the report of an order that was refused."""
    return Report(ReportState.NOT_STARTED, not_started=cause, reason="refused")


def acting_orders(world: World, *reports: Report) -> list[tuple[str, bool]]:
    """Answer acting orders with these reports, in order; return the list of their attempts and resend marks."""
    answers, seen, original = list(reports), list[tuple[str, bool]](), world.scripted.start

    def start(order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        if not order.acting:
            return original(order, on_output)
        seen.append((order.attempt_id, order.resend))
        return answers.pop(0)

    world.scripted.start = start  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(
    "cause",
    [
        NotStarted.UNREACHABLE,
        NotStarted.HOST_KEY,
        NotStarted.LOGIN,
        NotStarted.SUDO,
        NotStarted.NO_BASH,
        NotStarted.WRONG_VIEW,
        NotStarted.FOLDER,
    ],
)
def test_an_order_that_does_not_arrive_proves_nothing_of_an_earlier_one(make: Make, cause: NotStarted) -> None:
    world = make(works("cure"))
    seen = acting_orders(world, LOST, refused(cause), DONE)

    node_run = world.play(world.request("cure", "gpu-01"))[0]

    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert [resend for _, resend in seen] == [False, True, True]
    assert len({attempt for attempt, _ in seen}) == 1


@pytest.mark.parametrize("cause", [NotStarted.VOID, NotStarted.TOO_LATE, NotStarted.OTHER_BOOT])
def test_a_node_that_has_looked_for_the_attempt_proves_that_it_never_ran(make: Make, cause: NotStarted) -> None:
    world = make(works("cure"))
    seen = acting_orders(world, LOST, refused(cause), DONE)

    node_run = world.play(world.request("cure", "gpu-01"))[0]

    assert node_run.verdict is Verdict.CURED
    assert [resend for _, resend in seen] == [False, True, False]
    assert len({attempt for attempt, _ in seen}) == 2


def test_a_first_order_that_does_not_arrive_has_not_run(make: Make) -> None:
    world = make(works("cure"))
    acting_orders(world, refused(NotStarted.UNREACHABLE))

    node_run = world.play(world.request("cure", "gpu-01"))[0]

    assert (node_run.state, node_run.verdict) == (NodeRunState.FAILED, None)


def test_a_question_that_does_not_arrive_proves_nothing_of_what_was_seen_running(make: Make) -> None:
    world = make(works("cure"))
    acting_orders(world, Report(ReportState.RUNNING, pid=7))
    answers = [refused(NotStarted.UNREACHABLE), DONE]
    world.scripted.settle = lambda attempt, on_output: answers.pop(0)  # type: ignore[method-assign]

    node_run = world.play(world.request("cure", "gpu-01"))[0]

    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert answers == []
