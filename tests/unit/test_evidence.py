"""A step that may reboot the node is refused while nothing is stored of what the node was like before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.condition import compile_condition
from service.domain.run import AttemptState, NodeRunState, StepOutcome, StepResult, Verdict
from service.domain.runbook import CONDITION_NAMES, ApprovalKind, OnFailure, Step
from tests.support.player import HUNG, REBOOTED, UNREACHABLE, Answer, Player, exits
from tests.unit.runbook_text import HEAD, beginnings, findings

REFUSED = StepResult(
    "reboot",
    StepOutcome.FAILED,
    "It may reboot the node, and no read-only step before it has ended ok with its output stored: nothing was sent."
    " Let the step that looks succeed, and request the run again.",
)
SILENT = Answer(exit_code=0, stdout_bytes=0)
NEVER = compile_condition("1 == 2", CONDITION_NAMES)


def look(**changes: object) -> Step:
    known: dict[str, object] = {"run": "r", "read_only": True, "on_failure": OnFailure.CONTINUE}
    return Step("look", "Look", timedelta(minutes=1), **(known | changes))  # type: ignore[arg-type]


def reboot(**changes: object) -> Step:
    known: dict[str, object] = {"check": "c", "run": "r", "verify": "v", "reboots": True}
    known["approval"] = ApprovalKind.CONFIRM
    return Step("reboot", "Boot it", timedelta(minutes=1), **(known | changes))  # type: ignore[arg-type]


def player(*steps: Step, looked: Answer = SILENT, dry_run: bool = False) -> Player:
    answers = {
        "look.run": [looked],
        "reboot.check": [exits(0, "boot")],
        "reboot.run": [REBOOTED],
        "reboot.verify": [exits(0)],
    }
    return Player(steps, answers, dry_run=dry_run)


@pytest.mark.parametrize("looked", [SILENT, exits(1), exits(2), HUNG, UNREACHABLE])
@pytest.mark.parametrize("step", [reboot(), reboot(check=None, approval=ApprovalKind.NONE)], ids=["gated", "at once"])
def test_a_reboot_without_stored_evidence_is_refused_before_anything_of_it_is_sent(step: Step, looked: Answer) -> None:
    played = player(look(), step, looked=looked)

    judged = played.play()

    assert judged.results[-1] == REFUSED
    assert (played.sent, played.history.gates) == (["look.run"], ())


@pytest.mark.parametrize("steps", [[reboot()], [reboot(), look()], [look(when=NEVER), reboot()]])
def test_a_look_that_is_missing_skipped_or_too_late_is_no_evidence(steps: list[Step]) -> None:
    played = player(*steps, looked=exits(0))

    judged = played.play()

    assert REFUSED in judged.results
    assert not [script for script in played.sent if script.startswith("reboot.")]


def test_with_stored_evidence_the_node_is_rebooted_once() -> None:
    played = player(look(), reboot(), looked=exits(0))

    judged = played.play()

    assert judged.results[-1] == StepResult("reboot", StepOutcome.CHANGED, "", Verdict.CURED)
    assert played.sent == ["look.run", "reboot.check", "reboot.run", "reboot.verify"]


def test_an_approval_given_before_the_evidence_was_lost_sends_nothing() -> None:
    played = player(look(), reboot(), looked=exits(0))
    while not played.history.gates:
        played._do(played.judge())
    lost = (replace(one, output_sha256=None) if one.step == "look" else one for one in played.history.attempts)
    played.history = replace(played.history, attempts=tuple(lost))

    judged = played.play()

    assert judged.results[-1] == REFUSED
    assert played.sent == ["look.run", "reboot.check"]


def test_a_reboot_that_was_sent_is_proven_whatever_became_of_the_evidence() -> None:
    played = player(look(), reboot(), looked=exits(0))
    while "reboot.run" not in played.sent:
        played._do(played.judge())
    lost = (replace(one, output_sha256=None) if one.step == "look" else one for one in played.history.attempts)
    played.history = replace(played.history, attempts=tuple(lost))

    judged = played.play()

    assert played.history.attempts[2].state is AttemptState.REBOOTED
    assert judged.results[-1].outcome is StepOutcome.CHANGED


def test_a_dry_run_says_that_the_reboot_would_be_refused() -> None:
    told = player(look(), reboot(), dry_run=True).play().results[-1]
    would = player(look(), reboot(), looked=exits(0), dry_run=True).play().results[-1]

    assert (told, would.outcome) == (REFUSED, StepOutcome.WOULD_CHANGE)


def test_the_refusal_fails_the_node_run_without_a_verdict() -> None:
    played = player(look(on_failure=OnFailure.STOP), reboot())

    action = played.play().action

    assert (action.state, action.verdict) == (NodeRunState.FAILED, None)  # type: ignore[union-attr]


def test_a_step_that_does_not_reboot_needs_no_evidence() -> None:
    played = player(reboot(reboots=False, approval=ApprovalKind.NONE))
    played._answers["reboot.run"] = iter([exits(0)])

    assert played.play().results[-1].outcome is StepOutcome.CHANGED


LOOK = "  - {id: look, title: L, read_only: true, run: r, timeout: 1m}\n"
ACT = "  - {id: act, title: A, run: r, verify: v, timeout: 1m}\n"
REBOOT = "  - {id: boot, title: B, run: r, verify: v, reboots: true, timeout: 1m}\n"
FINDING = "Step boot: `reboots` may lose what the node was like, and no `read_only` step above records it. Add one"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (LOOK + REBOOT, []),
        (LOOK + ACT + REBOOT, []),
        (REBOOT + LOOK, [f"7: {FINDING}"]),
        (ACT + REBOOT, [f"8: {FINDING}"]),
    ],
)
def test_lint_refuses_a_reboot_before_anything_was_looked_at(steps: str, expected: list[str]) -> None:
    told = findings(f"{HEAD}steps:\n{steps}")

    assert beginnings(told, expected) == expected
