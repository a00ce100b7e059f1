"""How a node run ends or stands when the node does not play along, and the words in which a person reads it."""

import pytest

from service.domain.run import NodeRunState, StepOutcome, Verdict
from service.domain.script import NotStarted, Report, ReportState
from service.executors.scripted import Answer, exits
from tests.app.conftest import Make, works

FAILED, STUCK, SUCCEEDED = NodeRunState.FAILED, NodeRunState.STUCK, NodeRunState.SUCCEEDED
NOT_CURED, UNKNOWN = Verdict.NOT_CURED, Verdict.UNKNOWN
SECOND_BOOT = "22222222-2222-4222-8222-222222222222"
GONE = "No answer came from gpu-01: it gave no sign of life."
LOST = Answer(Report(ReportState.LOST, reason=GONE))
REBOOTED = Answer(Report(ReportState.REBOOTED, boot_id=SECOND_BOOT))
HANGS = Answer(Report(ReportState.FINISHED, signal=15, ended_by_us=True))
UNREACHABLE = "gpu-01 (192.0.2.1:22) was not reached: no answer. Look with `unstick nodes check gpu-01`."


def refused(cause: NotStarted, reason: str) -> Answer:
    return Answer(Report(ReportState.NOT_STARTED, not_started=cause, reason=reason))


AWAY = refused(NotStarted.UNREACHABLE, UNREACHABLE)
CHANGED_KEY = refused(NotStarted.HOST_KEY, "The host key of gpu-01 (192.0.2.1) has changed.")


@pytest.mark.parametrize(
    ("answers", "state", "verdict", "reason"),
    [
        ({"check": AWAY}, FAILED, None, UNREACHABLE),
        ({"check": LOST}, FAILED, None, f"The node did not answer for too long. {GONE}"),
        ({"check": REBOOTED}, FAILED, None, "The node booted during the check; nothing was touched."),
        ({"check": HANGS}, FAILED, None, "The check hung and was ended at its deadline; nothing was touched."),
        ({"check": exits(2)}, FAILED, None, "The check could not look (exit 2); nothing was touched."),
        ({"check": CHANGED_KEY}, FAILED, None, "The host key of gpu-01 (192.0.2.1) has changed."),
        ({"run": exits(0), "verify": exits(77)}, FAILED, NOT_CURED, "Verify says that the node is not well."),
        (
            {"run": exits(5), "verify": exits(1)},
            FAILED,
            NOT_CURED,
            "The run ended with 5. Verify says that the node is not well.",
        ),
        (
            {"check": exits(77), "verify": exits(77)},
            FAILED,
            NOT_CURED,
            "There is nothing to do here, and the node is not well.",
        ),
    ],
)
def test_a_known_end_is_told(
    make: Make, answers: dict[str, Answer], state: NodeRunState, verdict: Verdict | None, reason: str
) -> None:
    world = make(works("cure") | {f"cure.{kind}": [answer] for kind, answer in answers.items()})

    (node_run,) = world.play(world.request("cure", "gpu-01"))

    assert (node_run.state, node_run.verdict, node_run.reason) == (state, verdict, f"Step cure: {reason}")


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"run": REBOOTED}, "The node booted while step cure ran; what it did by then is not known."),
        (
            {"run": LOST},
            f"Nobody could learn how the run of step cure ended. The node did not answer for too long. {GONE}",
        ),
        (
            {"run": Answer(Report(ReportState.UNKILLABLE, pid=4711, wchan="request_wait_answer"))},
            "The run of step cure cannot be killed (pid 4711, waits in request_wait_answer).",
        ),
        ({"verify": exits(2)}, "Step cure has acted, and verify could not look: it ended with exit 2."),
        ({"verify": HANGS}, "Step cure has acted, and verify could not look: it hung and was ended at its deadline."),
        ({"verify": AWAY}, f"Step cure has acted, and verify could not look: {UNREACHABLE}"),
    ],
)
def test_an_unknown_end_waits_for_a_person_and_says_what_is_not_known(
    make: Make, answers: dict[str, Answer], reason: str
) -> None:
    world = make(works("cure") | {f"cure.{kind}": [answer] for kind, answer in answers.items()})

    (node_run,) = world.play(world.request("cure", "gpu-01"))

    assert (node_run.state, node_run.verdict, node_run.reason) == (STUCK, UNKNOWN, reason)


class TestAStepThatBootsTheNode:
    """The lost link is expected, and verify waits for the new boot; only the boot counts."""

    def play(self, make: Make, *verify: Answer) -> tuple[NodeRunState, Verdict | None, str]:
        before = {"look.run": [exits(0, stdout="up\n")], "reboot.check": [exits(0, targets=["it"])]}
        world = make({**before, "reboot.run": [REBOOTED], "reboot.verify": list(verify)})
        (node_run,) = world.play(world.request("rebooting", "gpu-01"))
        return node_run.state, node_run.verdict, node_run.reason

    def test_it_is_waited_for_until_it_is_back(self, make: Make) -> None:
        assert self.play(make, AWAY, AWAY, exits(0)) == (SUCCEEDED, Verdict.CURED, "")

    def test_one_that_does_not_come_back_is_unknown(self, make: Make) -> None:
        reason = f"Step reboot has acted, and verify could not look: {UNREACHABLE}"

        assert self.play(make, AWAY) == (STUCK, UNKNOWN, reason)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("cause", [NotStarted.HOST_KEY, NotStarted.LOGIN, NotStarted.SUDO])
def test_what_only_a_person_can_mend_is_not_tried_again_whatever_the_runbook_says(
    make: Make, cause: NotStarted, dry_run: bool
) -> None:
    world = make({**works("next"), "try.check": [refused(cause, "No.")]})

    (node_run,) = world.play(world.request("stubborn", "gpu-01", dry_run=dry_run))

    assert [order.step for order in world.scripted.orders].count("try") == 1
    assert (node_run.results[0].outcome, node_run.results[0].reason) == (StepOutcome.FAILED, "No.")


def test_a_node_that_was_not_reached_is_tried_again_when_the_runbook_says_so(make: Make) -> None:
    world = make({**works("try"), **works("next"), "try.check": [AWAY, AWAY, exits(0, targets=["it"])]})

    (node_run,) = world.play(world.request("stubborn", "gpu-01"))

    assert (node_run.state, node_run.verdict) == (SUCCEEDED, Verdict.CURED)
    assert [order.step for order in world.scripted.orders].count("try") == 5
