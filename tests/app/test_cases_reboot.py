"""Whether a node has rebooted is told by its boot, whatever became of the command that was to do it."""

import pytest

from service.app.timeline import entry
from service.domain.run import NodeRunState, Run, Verdict
from service.domain.script import Report, ReportState
from service.executors import reasons
from service.executors.scripted import FIRST_BOOT, Answer, exits
from service.executors.ssm.statuses import judge
from tests.app.conftest import Make
from tests.support.world import World

SECOND_BOOT = "22222222-2222-4222-8222-222222222222"
#: What is left of a command that SSM held in progress for forty minutes, while the node booted at minute 31.
ODD = judge("TimedOut", "Delivery Timed Out", never_begun=False).words
LOST = Report(ReportState.LOST, reason=reasons.lost("gpu-01", ODD, ""))
RUNS = Report(ReportState.RUNNING, boot_id=FIRST_BOOT)
BOOTED = Report(ReportState.REBOOTED, boot_id=SECOND_BOOT)
ENDED = Report(ReportState.FINISHED, exit_code=0, boot_id=FIRST_BOOT)


def lost_and_then(make: Make, settled: Report, verify: Answer) -> tuple[World, Run]:
    before = {"look.run": [exits(0, stdout="up\n")], "reboot.check": [exits(0, targets=["it"])]}
    world = make({**before, "reboot.run": [Answer(RUNS, settles=(LOST, LOST, settled))], "reboot.verify": [verify]})
    return world, world.request("rebooting", "gpu-01")


@pytest.mark.parametrize(
    ("settled", "verify", "expected"),
    [
        (BOOTED, exits(0), (NodeRunState.SUCCEEDED, Verdict.CURED)),
        (ENDED, exits(77), (NodeRunState.FAILED, Verdict.NOT_CURED)),
    ],
    ids=["a new boot", "the same boot"],
)
def test_a_command_that_timed_out_at_last_says_nothing_of_the_reboot(
    make: Make, settled: Report, verify: Answer, expected: tuple[NodeRunState, Verdict]
) -> None:
    world, run = lost_and_then(make, settled, verify)

    (node_run,) = world.play(run)

    assert (node_run.state, node_run.verdict) == expected
    assert [order.step for order in world.scripted.orders if order.acting] == ["reboot"]


def test_what_was_odd_about_the_command_stays_in_the_timeline_after_the_node_has_answered(make: Make) -> None:
    world, run = lost_and_then(make, BOOTED, exits(0))

    world.play(run)

    events = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=1000))
    told = [entry(event).text for event in events if (event.fact.step, event.fact.action) == ("reboot", "attempt.lost")]
    assert told == [f"Run: lost: {LOST.reason}"]
    assert "SSM says Delivery Timed Out, and the script may have begun before" in told[0]
