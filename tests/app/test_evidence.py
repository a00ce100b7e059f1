"""On the real store: a boot is refused until the output of a look is kept."""

import pytest

from service.domain.run import NodeRunState, StepOutcome
from service.executors.scripted import Answer, exits
from tests.app.conftest import Make, works


@pytest.mark.parametrize("looked", [exits(2, stdout="half of it"), exits(0)], ids=["failed", "silent"])
def test_a_boot_without_stored_evidence_is_refused_with_the_way_out(make: Make, looked: Answer) -> None:
    world = make({**works("reboot"), "look.run": [looked]})

    (node_run,) = world.play(world.request("rebooting", "gpu-01"))

    assert [f"{order.step}.{order.kind}" for order in world.scripted.orders] == ["look.run"]
    assert (node_run.state, node_run.verdict, node_run.results[1].outcome) == (
        NodeRunState.FAILED,
        None,
        StepOutcome.FAILED,
    )
    assert node_run.results[1].reason.endswith("Let the step that looks succeed, and request the run again.")
    assert world.chain_holds()


def test_with_the_output_of_the_look_in_the_store_the_node_is_booted(make: Make) -> None:
    world = make({**works("reboot"), "look.run": [exits(0, stdout="up 3 days")]})

    (node_run,) = world.play(world.request("rebooting", "gpu-01"))

    assert {one.step: one.outcome for one in node_run.results} == {
        "look": StepOutcome.OK,
        "reboot": StepOutcome.CHANGED,
    }
