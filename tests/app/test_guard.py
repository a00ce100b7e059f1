"""Nothing that changes a node leaves in a dry run, whoever asks; nothing is sent before it is recorded."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from service.app.guard import GuardedExecutor
from service.app.ports import Transaction
from service.domain.errors import BrokenRule, Unavailable
from service.domain.node import Endpoint, ExecutorKind
from service.domain.run import AttemptState, NodeRunState
from service.domain.script import OutputChunk, Report, ScriptKind, ScriptOrder
from service.executors.scripted import ScriptedExecutor, exits
from tests.app.conftest import Make, works
from tests.support.world import World

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


def order(**changes: object) -> ScriptOrder:
    """Return an acting order."""
    known: dict[str, object] = {
        "attempt_id": "a1",
        "run_id": "r1",
        "step": "cure",
        "kind": ScriptKind.RUN,
        "endpoint": Endpoint("gpu-01", ExecutorKind.LOCAL, "gpu-01"),
        "text": "true\n",
        "targets": (),
        "acting": True,
        "timeout": timedelta(seconds=30),
        "not_after": NOW,
        "sent_at": NOW,
        "service_id": "tests",
        "boot_id": "b1",
    }
    return ScriptOrder(**(known | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dry_run": True}, "in a dry run"),
        ({"kind": ScriptKind.CHECK}, "asked to act"),
        ({"boot_id": None}, "not bound to a boot"),
    ],
)
def test_the_guard_lets_no_such_order_through(changes: dict[str, object], words: str) -> None:
    behind = ScriptedExecutor({("gpu-01", "cure", ScriptKind.RUN): [exits(0)]})

    with pytest.raises(BrokenRule, match=words):
        GuardedExecutor(behind).start(order(**changes), lambda chunk: None)

    assert behind.orders == []


def test_the_guard_lets_a_bound_order_through() -> None:
    behind = ScriptedExecutor({("gpu-01", "cure", ScriptKind.RUN): [exits(0)]})

    GuardedExecutor(behind).start(order(), lambda chunk: None)

    assert [one.attempt_id for one in behind.orders] == ["a1"]


def watch(world: World, seen: list[AttemptState]) -> None:
    """Note how each attempt stands in the record at the moment in which it is sent."""
    original = world.scripted.start

    def start(sent: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        seen.append(world.service.store.read(lambda reader: reader.attempt(sent.attempt_id)).state)
        return original(sent, on_output)

    world.scripted.start = start  # type: ignore[method-assign,assignment]


def test_every_attempt_is_recorded_before_it_is_sent(make: Make) -> None:
    world = make(works("cure"))
    seen: list[AttemptState] = []
    watch(world, seen)

    world.play(world.request("cure", "gpu-01"))

    assert seen == [AttemptState.INTENDED] * 3


def test_what_cannot_be_recorded_is_not_sent(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    write = world.service.store.write

    def no_intents(change: Callable[[Transaction], object]) -> object:
        if "intend" in change.__qualname__:
            raise Unavailable("The disk is full.")
        return write(change)

    world.service.store.write = no_intents  # type: ignore[method-assign,assignment]

    with pytest.raises(Unavailable):
        world.settle()

    assert world.scripted.orders == []
    assert world.node_runs(run)[0].state is NodeRunState.RUNNING
