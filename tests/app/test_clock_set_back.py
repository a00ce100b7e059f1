"""A service whose clock is set back asks no node without a pause: the record itself tells what came after what."""

from collections.abc import Callable
from datetime import timedelta

from service.app.drive import drive
from service.app.resolve import resolve
from service.domain.run import NodeRunState, ResolveAs
from service.domain.script import OutputChunk, Report, ReportState, ScriptKind, ScriptOrder
from service.executors.scripted import Answer, exits
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, World

HOUR = timedelta(hours=1)
LOST = Answer(Report(ReportState.LOST, reason="The connection was reset."))
MOST = 20


def watch(world: World, *, after_act: Callable[[], None] = lambda: None) -> None:
    """Call back once after the script that acts, and end a loop that asks without a pause."""
    start, sent = world.scripted.start, [0, 0]

    def started(order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        sent[0] += 1
        assert sent[0] < MOST, "the node is asked without a pause"
        report = start(order, on_output)
        if order.acting and not sent[1]:
            sent[1] = 1
            after_act()
        return report

    world.scripted.start = started  # type: ignore[method-assign]


def test_after_a_lost_answer_it_waits_before_it_asks_again(make: Make) -> None:
    world = make({**works("cure"), "cure.run": [LOST]})
    run = world.request("cure", "gpu-01")
    world.settle()
    world.answer(world.open_gates()[0], by=OPERATOR)

    def back() -> None:
        world.clock.at -= HOUR  # type: ignore[union-attr]

    watch(world, after_act=back)
    world.step()

    [node_run] = world.node_runs(run)
    assert (node_run.state, node_run.reason.startswith("The node does not answer")) == (NodeRunState.RUNNING, True)
    assert node_run.wake_at is not None
    assert node_run.wake_at > world.clock.now()


def test_what_a_person_said_before_counts_and_verify_is_asked_once(make: Make) -> None:
    world = make({**works("cure"), "cure.verify": [exits(2), exits(0)]})
    run = world.request("cure", "gpu-01")
    world.play(run, by=OPERATOR)
    resolve(world.service, run.id, node="gpu-01", resolve_as=ResolveAs.CHANGED, reason="I looked", person=OPERATOR)
    store, now = world.service.store, world.clock.now()
    due = store.read(lambda reader: reader.due(now, limit=1))[0]
    claimed = store.write(lambda transaction: transaction.claim(due.id, owner="tests", now=now))
    assert claimed is not None
    watch(world)
    world.clock.at -= HOUR  # type: ignore[union-attr]

    drive(world.service, claimed)

    assert world.node_runs(run)[0].state is NodeRunState.SUCCEEDED
    assert [order.kind for order in world.scripted.orders].count(ScriptKind.VERIFY) == 2
