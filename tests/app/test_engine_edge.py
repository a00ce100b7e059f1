"""A fault of our own in one node run ends nothing else of the engine."""

import threading
from collections.abc import Callable

from service.app.cancel_run import cancel_run
from service.domain.script import AttemptRef, OutputChunk, Report, ScriptOrder
from service.engine.local import LocalEngine
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR

#: Only so that a test that fails does not hang.
LONG = 60


def test_a_fault_while_a_script_is_stopped_is_logged_and_the_stop_is_tried_again(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    world.settle()
    world.answer(world.open_gates()[0], by=OPERATOR)
    start = world.scripted.start
    stops: list[str] = []
    stopped_twice = threading.Event()

    def start_and_wait(order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        report = start(order, on_output)
        cancel_run(world.service, run.id, person=OPERATOR)
        stopped_twice.wait(LONG)
        return report

    def stop(attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        stops.append(attempt.attempt_id)
        if len(stops) > 1:
            stopped_twice.set()
        raise RuntimeError("a fault of our own")

    world.scripted.start = start_and_wait  # type: ignore[method-assign]
    world.scripted.stop = stop  # type: ignore[method-assign]
    engine = LocalEngine(world.service, owner="tests")

    engine.start()
    assert stopped_twice.wait(LONG)
    fault = engine.fault()
    engine.stop(LONG)

    assert fault is None
    assert len(set(stops)) == 1
