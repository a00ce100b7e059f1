"""Roll-outs: canary first, so many at once over all runs, and off when it has failed too often."""

from service.app.drive import drive
from service.domain.run import NodeRunState, Verdict
from service.executors.scripted import exits
from tests.app.conftest import Make, works
from tests.support.world import World

NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")


def states(world: World, *runs: object) -> dict[str, str]:
    """Return the state of each node of some runs."""
    return {one.node: one.state.value for run in runs for one in world.node_runs(run)}  # type: ignore[arg-type]


def test_all_nodes_are_cured_when_nothing_fails(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    run = world.request("fleet", *NODES)

    done = world.play(run)

    assert {one.verdict for one in done} == {Verdict.CURED}


def test_the_others_wait_for_the_canary_and_go_on_after_it(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    run = world.request("fleet", *NODES)
    second, now = world.node_runs(run)[1], world.clock.now()
    claimed = world.service.store.write(lambda transaction: transaction.claim(second.id, owner="tests", now=now))
    assert claimed is not None

    drive(world.service, claimed)

    waiting = world.node_runs(run)[1]
    assert (waiting.state, waiting.reason) == (NodeRunState.QUEUED, "It waits for the canary wave.")
    done = world.play(run)
    assert {one.verdict for one in done} == {Verdict.CURED}
    names = [order.endpoint.name for order in world.scripted.orders]
    assert names[:3] == ["gpu-01"] * 3


def test_a_canary_that_fails_calls_the_rest_off(make: Make) -> None:
    world = make({**works("cure"), "gpu-01:cure.verify": [exits(77)]}, nodes=NODES)
    run = world.request("fleet", *NODES)

    done = world.play(run)

    assert [one.state for one in done] == [NodeRunState.FAILED] + [NodeRunState.CANCELLED] * 3
    assert {order.endpoint.name for order in world.scripted.orders} == {"gpu-01"}
    assert "stopped after 1 failed: gpu-01" in done[1].reason


def test_no_more_than_the_limit_act_at_once_over_all_runs(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    first = world.request("gated-fleet", "gpu-01", "gpu-02", "gpu-03")
    second = world.request("gated-fleet", "gpu-04")
    world.settle()

    assert states(world, first, second) == {
        "gpu-01": "waiting",
        "gpu-02": "waiting",
        "gpu-03": "queued",
        "gpu-04": "queued",
    }

    world.answer(next(gate for gate in world.open_gates() if gate.node == "gpu-01"))
    world.settle()

    seen = states(world, first, second)
    assert seen["gpu-01"] == "succeeded"
    assert sorted(seen.values()).count("waiting") == 2
    (waiting,) = world.node_runs(second)
    assert waiting.reason == (
        f"gated-fleet acts on gpu-02, gpu-03 (run {first.id}, waiting), and its limits.concurrent_nodes allows "
        "2 at once here."
    )


def test_nodes_in_flight_finish_when_the_roll_out_is_called_off(make: Make) -> None:
    world = make({**works("cure"), "gpu-01:cure.verify": [exits(77)], "gpu-02:cure.verify": [exits(77)]}, nodes=NODES)
    run = world.request("gated-fleet", *NODES)
    world.settle()
    for gate in world.open_gates():
        world.answer(gate)
        world.settle()

    world.settle()

    seen = states(world, run)
    assert seen["gpu-01"] == "failed"
    assert seen["gpu-02"] == "failed"
    assert seen["gpu-04"] == "cancelled"
    assert seen["gpu-03"] in ("waiting", "cancelled")


def test_a_dry_run_takes_no_place(make: Make) -> None:
    world = make(works("cure"), nodes=NODES)
    world.request("gated-fleet", "gpu-01", "gpu-02")
    world.settle()

    dry = world.request("gated-fleet", *NODES, dry_run=True)
    world.settle()

    assert {one.state for one in world.node_runs(dry)} == {NodeRunState.SUCCEEDED}
