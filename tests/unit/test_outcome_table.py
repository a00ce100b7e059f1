"""Every row of the outcome table: what happened, what comes next, what becomes of step and node."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.action import Ended, WaitForDecision, WaitUntil
from service.domain.run import (
    AttemptState,
    GateState,
    NodeRunState,
    ResolveAs,
    StepOutcome,
    StepResult,
    Verdict,
    WellNow,
)
from service.domain.runbook import ApprovalKind, OnFailure, Retry, Step
from service.domain.script import NotStarted
from tests.support.player import (
    HUNG,
    REBOOTED,
    UNKILLABLE,
    UNREACHABLE,
    UNSETTLED,
    Answer,
    Player,
    exits,
    refused,
)

OTHER_BOOT = "22222222-2222-4222-8222-222222222222"


def cure(**changes: object) -> Step:
    """Return an acting step with a gate."""
    known: dict[str, object] = {
        "id": "cure",
        "title": "Cure",
        "timeout": timedelta(minutes=1),
        "check": "c",
        "run": "r",
        "verify": "v",
        "approval": ApprovalKind.CONFIRM,
    }
    return Step(**(known | changes))  # type: ignore[arg-type]


def undo() -> Step:
    """Return an always step that undoes `cure`."""
    return cure(id="undo", title="Undo", check=None, approval=ApprovalKind.NONE, always=True, undoes="cure")


def outcome(player: Player, step: str = "cure") -> tuple[StepOutcome | None, Verdict | None]:
    """Return outcome and verdict of one step."""
    result = next(one for one in player.judge().results if one.step == step)
    return (result.outcome, result.verdict)


def end(player: Player) -> tuple[NodeRunState, Verdict | None]:
    """Play and return how the node run ended or stands."""
    action = player.play().action
    if isinstance(action, Ended):
        return (action.state, action.verdict)
    assert isinstance(action, WaitForDecision)
    return (action.state, Verdict.UNKNOWN if action.state is NodeRunState.STUCK else None)


def look(**changes: object) -> Step:
    """Return a step that only reads, and whose failure does not end the run."""
    known: dict[str, object] = {"on_failure": OnFailure.CONTINUE}
    return Step("look", "Look", timedelta(minutes=1), run="r", read_only=True, **(known | changes))  # type: ignore[arg-type]


def ended(code: int, *targets: str) -> Answer:
    """Return the answer of a script that we ended at its deadline, and whose trap then exited with this code."""
    return replace(exits(code, *targets), ended_by_us=True)


def played(
    check: Answer, run: Answer | None = None, *verify: Answer, evidence: Answer | None = None, **changes: object
) -> Player:
    """Return a player of one step with these answers; `evidence` is that of a look before it."""
    answers = {"cure.check": [check], "cure.run": [run or exits(0)], "cure.verify": list(verify) or [exits(0)]}
    if evidence is None:
        return Player([cure(**changes)], answers)
    return Player([look(), cure(**changes)], answers | {"look.run": [evidence]})


ROWS = {
    "check 0, run 0, verify 0": (
        played(exits(0, "t")),
        (NodeRunState.SUCCEEDED, Verdict.CURED),
        StepOutcome.CHANGED,
    ),
    "check 77, verify 0": (played(exits(77)), (NodeRunState.SUCCEEDED, Verdict.WELL), StepOutcome.OK),
    "check 77, verify 77": (
        played(exits(77), None, exits(77)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "check 77, verify 2": (
        played(exits(77), None, exits(2)),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "check ended by a signal": (played(Answer(signal=9)), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "check 1": (played(exits(1)), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "check 2": (played(exits(2)), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "check hangs": (played(HUNG), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "check hangs, is ended and exits 0": (
        played(ended(0, "t")),
        (NodeRunState.FAILED, None),
        StepOutcome.FAILED,
    ),
    "check hangs, is ended and exits 77": (played(ended(77)), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "check does not say which boot it saw": (
        played(replace(exits(0, "t"), boot_id=None)),
        (NodeRunState.FAILED, None),
        StepOutcome.FAILED,
    ),
    "check cannot be killed": (played(UNKILLABLE), (NodeRunState.FAILED, None), StepOutcome.FAILED),
    "node unreachable at check": (played(UNREACHABLE), (NodeRunState.FAILED, None), StepOutcome.UNREACHABLE),
    "host key changed at check": (
        played(refused(NotStarted.HOST_KEY)),
        (NodeRunState.FAILED, None),
        StepOutcome.FAILED,
    ),
    "run 77, verify 0": (
        played(exits(0, "t"), exits(77)),
        (NodeRunState.SUCCEEDED, Verdict.CLEARED),
        StepOutcome.SKIPPED,
    ),
    "run 77, verify 1": (
        played(exits(0, "t"), exits(77), exits(1)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "run 5, verify 77": (
        played(exits(0, "t"), exits(5), exits(77)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "run 5, verify 0": (
        played(exits(0, "t"), exits(5), exits(0)),
        (NodeRunState.FAILED, Verdict.CURED),
        StepOutcome.FAILED,
    ),
    "run ended by a signal, verify 77": (
        played(exits(0, "t"), Answer(signal=9), exits(77)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "run ended at its deadline, verify 77": (
        played(exits(0, "t"), HUNG, exits(77)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "run rebooted the node as it says": (
        played(exits(0, "t"), REBOOTED, exits(0), evidence=exits(0), reboots=True),
        (NodeRunState.SUCCEEDED, Verdict.CURED),
        StepOutcome.CHANGED,
    ),
    "the node rebooted though the step does not say so": (
        played(exits(0, "t"), REBOOTED),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "run cannot be killed": (
        played(exits(0, "t"), UNKILLABLE),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "run unsettled after 15 minutes": (
        played(exits(0, "t"), UNSETTLED),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify 1 until within ends": (
        played(exits(0, "t"), exits(0), exits(1), within=timedelta(seconds=30)),
        (NodeRunState.FAILED, Verdict.NOT_CURED),
        StepOutcome.FAILED,
    ),
    "verify 1 and then 0 within": (
        played(exits(0, "t"), exits(0), exits(1), exits(77), exits(0), within=timedelta(seconds=30)),
        (NodeRunState.SUCCEEDED, Verdict.CURED),
        StepOutcome.CHANGED,
    ),
    "verify 2 until within ends": (
        played(exits(0, "t"), exits(0), exits(2), within=timedelta(seconds=30)),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify hangs": (
        played(exits(0, "t"), exits(0), HUNG),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify hangs, is ended and exits 0": (
        played(exits(0, "t"), exits(0), ended(0)),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify hangs, is ended and exits 77": (
        played(exits(0, "t"), exits(0), ended(77)),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify cannot be killed": (
        played(exits(0, "t"), exits(0), UNKILLABLE),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify unreachable until within ends": (
        played(exits(0, "t"), exits(0), UNREACHABLE, within=timedelta(seconds=30)),
        (NodeRunState.STUCK, Verdict.UNKNOWN),
        StepOutcome.UNKNOWN,
    ),
    "verify unreachable, then 0": (
        played(exits(0, "t"), exits(0), UNREACHABLE, UNREACHABLE, exits(0), within=timedelta(seconds=30)),
        (NodeRunState.SUCCEEDED, Verdict.CURED),
        StepOutcome.CHANGED,
    ),
    "run refused by the node before it began": (
        played(exits(0, "t"), refused(NotStarted.NO_SPACE)),
        (NodeRunState.FAILED, None),
        StepOutcome.FAILED,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_row_of_the_outcome_table(row: str) -> None:
    player, expected, step_outcome = ROWS[row]

    seen = end(player)

    assert (seen, outcome(player)[0]) == (expected, step_outcome)


def test_nothing_is_sent_to_act_before_a_look_has_said_which_boot_it_is() -> None:
    player = Player([cure(check=None)], {"cure.run": [exits(0)], "cure.verify": [exits(0)]})
    player.history = replace(player.history, node_run=replace(player.history.node_run, first_boot_id=None))

    assert (end(player), outcome(player)[0]) == ((NodeRunState.FAILED, None), StepOutcome.FAILED)
    assert player.history.attempts == ()


@pytest.mark.parametrize("why", [NotStarted.OTHER_BOOT, NotStarted.TOO_LATE, NotStarted.VOID])
def test_a_run_that_was_not_started_is_looked_at_again_with_a_new_gate(why: NotStarted) -> None:
    answers = {
        "cure.check": [exits(0, "t")],
        "cure.run": [refused(why, OTHER_BOOT), exits(0)],
        "cure.verify": [exits(0)],
    }
    player = Player([cure()], answers)

    seen = end(player)

    assert seen == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert player.sent == ["cure.check", "cure.run", "cure.check", "cure.run", "cure.verify"]
    assert [gate.state for gate in player.history.gates] == [GateState.VOID, GateState.APPROVED]


def test_a_run_without_a_gate_that_was_not_started_is_looked_at_again() -> None:
    player = played(exits(0, "t"), approval=ApprovalKind.NONE)
    player = replace(player, answers={**player.answers, "cure.run": [refused(NotStarted.OTHER_BOOT), exits(0)]})

    assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert player.sent == ["cure.check", "cure.run", "cure.check", "cure.run", "cure.verify"]


def test_it_looks_again_at_most_twice() -> None:
    answers = {"cure.check": [exits(0, "t")], "cure.run": [refused(NotStarted.OTHER_BOOT)], "cure.verify": [exits(0)]}
    player = Player([cure()], answers)

    seen = end(player)

    assert seen == (NodeRunState.FAILED, None)
    assert player.sent.count("cure.check") == 3
    assert player.sent.count("cure.run") == 3


def test_a_held_node_is_waited_for_and_the_same_approval_is_used() -> None:
    answers = {
        "cure.check": [exits(0, "t")],
        "cure.run": [refused(NotStarted.HELD), refused(NotStarted.HELD), exits(0)],
        "cure.verify": [exits(0)],
    }
    player = Player([cure()], answers)

    seen = end(player)

    assert seen == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert player.sent == ["cure.check", "cure.run", "cure.run", "cure.run", "cure.verify"]
    assert len(player.history.gates) == 1


def test_a_node_that_stays_held_is_looked_at_again_and_then_given_up() -> None:
    answers = {"cure.check": [exits(0, "t")], "cure.run": [refused(NotStarted.HELD)], "cure.verify": [exits(0)]}
    player = Player([cure()], answers)

    seen = end(player)

    assert seen == (NodeRunState.FAILED, None)
    assert "cure.verify" not in player.sent


def test_while_the_node_is_held_the_node_run_waits() -> None:
    answers = {"cure.check": [exits(0, "t")], "cure.run": [refused(NotStarted.HELD)], "cure.verify": [exits(0)]}
    player = Player([cure(approval=ApprovalKind.NONE)], answers)
    while "cure.run" not in player.sent:
        player._do(player.judge())

    action = player.judge().action

    assert isinstance(action, WaitUntil)
    assert action.state is NodeRunState.WAITING


def test_denied_runs_nothing_and_leaves_no_verdict() -> None:
    player = played(exits(0, "t"))
    player._decisions["cure"] = iter([GateState.DENIED])

    seen = end(player)

    assert seen == (NodeRunState.DENIED, None)
    assert player.sent == ["cure.check"]
    assert outcome(player) == (StepOutcome.DENIED, None)


def test_expired_runs_nothing_and_leaves_no_verdict() -> None:
    player = played(exits(0, "t"))
    player._decisions["cure"] = iter([GateState.EXPIRED])

    seen = end(player)

    assert seen == (NodeRunState.EXPIRED, None)
    assert player.sent == ["cure.check"]
    assert player.history.gates[0].state is GateState.EXPIRED


def test_an_approval_that_was_not_used_in_time_is_void() -> None:
    player = played(exits(0, "t"))
    while not player.history.gates:
        player._do(player.judge())
    player.now = player.history.gates[0].expires_at

    seen = end(player)

    assert seen == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert [gate.state for gate in player.history.gates] == [GateState.VOID, GateState.APPROVED]


def test_a_waived_gate_is_recorded_and_lets_run() -> None:
    player = played(exits(0, "t"))
    player.waived = ("cure",)

    seen = end(player)

    assert seen == (NodeRunState.SUCCEEDED, Verdict.CURED)
    assert [gate.state for gate in player.history.gates] == [GateState.WAIVED]


def test_a_step_that_may_not_be_waived_is_not() -> None:
    player = played(exits(0, "t"), waivable=False)
    player.waived = ("cure",)

    end(player)

    assert [gate.state for gate in player.history.gates] == [GateState.APPROVED]


def test_run_and_verify_get_exactly_the_targets_of_the_check() -> None:
    player = played(exits(0, "one", "two"))

    end(player)

    assert [attempt.targets for attempt in player.history.attempts] == [("one", "two")] * 3


def test_verify_after_nothing_to_do_gets_no_targets() -> None:
    player = played(exits(77))

    end(player)

    assert player.history.attempts[-1].targets == ()


def test_the_run_is_bound_to_the_boot_that_its_own_look_saw() -> None:
    player = Player([cure()], {"cure.check": [exits(0, "t")]})
    player._do(player.judge())
    player._do(player.judge())

    action = player.judge().action

    assert action.boot_id == player.history.attempts[0].boot_id  # type: ignore[union-attr]
    assert action.acting  # type: ignore[union-attr]


class TestDryRun:
    """Checks and read-only runs for real, verify once, and nothing that acts."""

    def test_it_would_change_and_says_how_the_node_is_now(self) -> None:
        player = played(exits(0, "t"), None, exits(77), within=timedelta(minutes=5))
        player.dry_run = True

        seen = end(player)

        assert seen == (NodeRunState.SUCCEEDED, None)
        assert player.sent == ["cure.check", "cure.verify"]
        result = player.judge().results[0]
        assert (result.outcome, result.well_now) == (StepOutcome.WOULD_CHANGE, WellNow.NO)

    def test_nothing_to_do_is_ok(self) -> None:
        player = played(exits(77))
        player.dry_run = True

        seen = end(player)

        assert seen == (NodeRunState.SUCCEEDED, None)
        assert player.judge().results[0] == StepResult("cure", StepOutcome.OK, "", None, WellNow.YES)

    def test_a_look_that_failed_is_failed(self) -> None:
        player = played(exits(3))
        player.dry_run = True

        assert end(player) == (NodeRunState.FAILED, None)

    def test_an_assertion_that_could_not_look_is_failed(self) -> None:
        player = Player([cure(check=None, run=None)], {"cure.verify": [exits(2)]}, dry_run=True)

        assert end(player) == (NodeRunState.FAILED, None)
        assert player.judge().results[0].well_now is WellNow.COULD_NOT_LOOK

    def test_a_read_only_run_is_executed(self) -> None:
        evidence = cure(check=None, verify=None, read_only=True, approval=ApprovalKind.NONE)
        player = Player([evidence], {"cure.run": [exits(0)]}, dry_run=True)

        assert end(player) == (NodeRunState.SUCCEEDED, None)
        assert player.sent == ["cure.run"]

    def test_an_always_step_is_not_executed(self) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.verify": [exits(0)]}
        player = Player([cure(), undo()], answers, dry_run=True)

        end(player)

        assert player.sent == ["cure.check", "cure.verify"]


class TestAlways:
    """Always steps undo what was sent, whatever became of the rest."""

    def test_it_plays_after_a_failure_with_the_targets_of_what_it_undoes(self) -> None:
        answers = {
            "cure.check": [exits(0, "was: schedulable")],
            "cure.run": [exits(5)],
            "cure.verify": [exits(77)],
            "undo.run": [exits(0)],
            "undo.verify": [exits(0)],
        }
        player = Player([cure(), cure(id="next"), undo()], answers)

        seen = end(player)

        assert seen == (NodeRunState.FAILED, Verdict.NOT_CURED)
        assert player.sent == ["cure.check", "cure.run", "cure.verify", "undo.run", "undo.verify"]
        assert player.history.attempts[3].targets == ("was: schedulable",)
        assert outcome(player, "undo") == (StepOutcome.CHANGED, Verdict.CURED)
        assert outcome(player, "next") == (None, None)

    def test_it_plays_after_a_denial_of_a_later_step(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [exits(0)],
            "reboot.check": [exits(0, "t")],
            "undo.run": [exits(0)],
            "undo.verify": [exits(0)],
        }
        player = Player([cure(), cure(id="reboot"), undo()], answers, {"reboot": [GateState.DENIED]})

        seen = end(player)

        assert seen == (NodeRunState.DENIED, None)
        assert player.sent[-2:] == ["undo.run", "undo.verify"]

    def test_it_does_not_play_when_nothing_was_sent(self) -> None:
        player = Player([cure(), undo()], {"cure.check": [exits(0, "t")]}, {"cure": [GateState.DENIED]})

        end(player)

        assert player.sent == ["cure.check"]
        assert outcome(player, "undo") == (StepOutcome.SKIPPED, None)

    def test_it_does_not_play_when_the_run_was_provably_not_started(self) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.run": [refused(NotStarted.SUDO)]}
        player = Player([cure(), undo()], answers)

        end(player)

        assert player.sent == ["cure.check", "cure.run"]

    def test_on_a_stuck_node_run_it_waits_for_a_person(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [UNSETTLED],
            "undo.run": [exits(0)],
            "undo.verify": [exits(0)],
        }
        player = Player([cure(), undo()], answers)
        assert end(player) == (NodeRunState.STUCK, Verdict.UNKNOWN)
        assert "undo.run" not in player.sent

        player.resolve(ResolveAs.FAILED)
        seen = end(player)

        assert seen == (NodeRunState.FAILED, Verdict.UNKNOWN)
        assert player.sent[-2:] == ["undo.run", "undo.verify"]

    def test_an_undoing_that_fails_outweighs_a_success(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [exits(0)],
            "undo.run": [exits(0)],
            "undo.verify": [exits(1)],
        }
        player = Player([cure(), undo()], answers)

        assert end(player) == (NodeRunState.FAILED, Verdict.NOT_CURED)

    def test_an_undoing_that_fails_outweighs_a_denial_and_both_are_told(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [exits(0)],
            "reboot.check": [exits(0, "t")],
            "undo.run": [exits(0)],
            "undo.verify": [exits(1)],
        }
        player = Player([cure(), cure(id="reboot"), undo()], answers, {"reboot": [GateState.DENIED]})

        assert end(player) == (NodeRunState.FAILED, Verdict.NOT_CURED)
        action = player.judge().action
        assert isinstance(action, Ended)
        assert [part.partition(":")[0] for part in action.reason.split(" And then: ")] == ["Step reboot", "Step undo"]

    def test_it_plays_after_a_cancel(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [exits(77)],
            "undo.run": [exits(0)],
            "undo.verify": [exits(0)],
        }
        player = Player([cure(within=timedelta(minutes=5)), undo()], answers)
        while "cure.run" not in player.sent:
            player._do(player.judge())

        player.cancel()
        seen = end(player)

        assert seen == (NodeRunState.CANCELLED, None)
        assert player.sent[-2:] == ["undo.run", "undo.verify"]
        assert outcome(player) == (StepOutcome.UNKNOWN, None)


class TestResolve:
    """The ways out of a stuck node run."""

    def stuck(self, *after: Answer) -> Player:
        """Return a player whose run is unsettled."""
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [UNSETTLED, exits(0)],
            "cure.run.settled": list(after),
            "cure.verify": [exits(0)],
        }
        player = Player([cure()], answers)
        assert end(player) == (NodeRunState.STUCK, Verdict.UNKNOWN)
        return player

    def test_settle_again_asks_the_node_and_goes_on(self) -> None:
        player = self.stuck(exits(0))

        player.resolve(ResolveAs.SETTLE_AGAIN)

        assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert player.sent == ["cure.check", "cure.run", "cure.verify"]

    def test_settle_again_that_learns_nothing_is_stuck_again(self) -> None:
        player = self.stuck(UNSETTLED)

        player.resolve(ResolveAs.SETTLE_AGAIN)

        assert end(player) == (NodeRunState.STUCK, Verdict.UNKNOWN)

    def test_changed_goes_on_at_verify_and_verify_decides(self) -> None:
        player = self.stuck()

        player.resolve(ResolveAs.CHANGED)

        assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert player.sent == ["cure.check", "cure.run", "cure.verify"]

    def test_failed_ends_failed_with_an_unknown_verdict(self) -> None:
        player = self.stuck()

        player.resolve(ResolveAs.FAILED)

        assert end(player) == (NodeRunState.FAILED, Verdict.UNKNOWN)

    def test_retry_starts_at_check_with_a_new_gate(self) -> None:
        player = self.stuck()

        player.resolve(ResolveAs.RETRY)

        assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert player.sent == ["cure.check", "cure.run", "cure.check", "cure.run", "cure.verify"]
        assert len(player.history.gates) == 2

    def test_a_verify_that_could_not_look_is_asked_again(self) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.run": [exits(0)], "cure.verify": [exits(2), exits(0)]}
        player = Player([cure()], answers)
        assert end(player) == (NodeRunState.STUCK, Verdict.UNKNOWN)

        player.now += timedelta(minutes=3)
        player.resolve(ResolveAs.SETTLE_AGAIN)

        assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert player.sent.count("cure.run") == 1


class TestUnknownStops:
    """Neither retry nor on_failure goes on after an unknown outcome."""

    @pytest.mark.parametrize("unknown", [UNSETTLED, UNKILLABLE, REBOOTED])
    def test_whatever_the_runbook_says(self, unknown: Answer) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.run": [unknown], "cure.verify": [exits(0)]}
        step = cure(on_failure=OnFailure.CONTINUE, retry=Retry(3, timedelta(0)))
        player = Player([step, cure(id="next")], answers)

        assert end(player) == (NodeRunState.STUCK, Verdict.UNKNOWN)
        assert player.sent == ["cure.check", "cure.run"]


class TestRetry:
    """Known failures are tried again, from check on, with a new gate."""

    def test_until_it_succeeds(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(5), exits(0)],
            "cure.verify": [exits(77), exits(0)],
        }
        player = Player([cure(retry=Retry(2, timedelta(seconds=10)))], answers)

        seen = end(player)

        assert seen == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert player.sent.count("cure.check") == 2
        assert len(player.history.gates) == 2

    def test_no_more_often_than_it_says(self) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.run": [exits(5)], "cure.verify": [exits(77)]}
        player = Player([cure(retry=Retry(2, timedelta(seconds=10)))], answers)

        seen = end(player)

        assert seen == (NodeRunState.FAILED, Verdict.NOT_CURED)
        assert player.sent.count("cure.run") == 2

    def test_a_failure_that_left_the_node_well_is_not_tried_again(self) -> None:
        answers = {"cure.check": [exits(0, "t")], "cure.run": [exits(5)], "cure.verify": [exits(0)]}
        player = Player([cure(retry=Retry(2, timedelta(seconds=10)))], answers)

        seen = end(player)

        assert seen == (NodeRunState.FAILED, Verdict.CURED)
        assert player.sent.count("cure.run") == 1


class TestSeveralSteps:
    """The verdict of a node run over its steps."""

    def two(self, first: Answer, second: Answer, **changes: object) -> Player:
        """Return a player of two assertions after a cure."""
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [first],
            "well.verify": [second],
        }
        return Player([cure(**changes), cure(id="well", check=None, run=None)], answers)

    def test_cured_when_both_say_so(self) -> None:
        assert end(self.two(exits(0), exits(0))) == (NodeRunState.SUCCEEDED, Verdict.CURED)

    def test_not_cured_when_the_symptom_stays(self) -> None:
        assert end(self.two(exits(0), exits(1))) == (NodeRunState.FAILED, Verdict.NOT_CURED)

    def test_stuck_when_the_symptom_could_not_be_looked_at(self) -> None:
        assert end(self.two(exits(0), exits(2))) == (NodeRunState.STUCK, Verdict.UNKNOWN)

    def test_a_failed_step_stops_the_rest(self) -> None:
        player = self.two(exits(1), exits(0))

        assert end(player) == (NodeRunState.FAILED, Verdict.NOT_CURED)
        assert "well.verify" not in player.sent

    def test_on_failure_continue_goes_on_and_still_fails(self) -> None:
        player = self.two(exits(1), exits(0), on_failure=OnFailure.CONTINUE)

        assert end(player) == (NodeRunState.FAILED, Verdict.NOT_CURED)
        assert "well.verify" in player.sent

    def test_a_step_that_could_not_look_leaves_no_verdict(self) -> None:
        answers = {
            "cure.check": [exits(0, "t")],
            "cure.run": [exits(0)],
            "cure.verify": [exits(0)],
            "next.check": [exits(2)],
        }

        assert end(Player([cure(), cure(id="next")], answers)) == (NodeRunState.FAILED, None)

    def test_a_retry_of_a_run_skips_acting_steps_before_the_one_named(self) -> None:
        answers = {"next.check": [exits(0, "t")], "next.run": [exits(0)], "next.verify": [exits(0)]}
        player = Player([cure(), cure(id="next")], answers, from_step="next")

        assert end(player) == (NodeRunState.SUCCEEDED, Verdict.CURED)
        assert outcome(player) == (StepOutcome.SKIPPED, None)


def test_a_lost_link_is_asked_about_and_given_up_after_fifteen_minutes() -> None:
    player = played(exits(0, "t"), Answer(AttemptState.RUNNING))
    while "cure.run" not in player.sent:
        player._do(player.judge())
    lost = player.history.attempts[-1]

    asked = [player.now]
    for _ in range(200):
        action = player.judge().action
        if isinstance(action, WaitUntil):
            player.now = action.at
            continue
        if type(action).__name__ == "GiveUp":
            break
        asked.append(player.now)
        silent = tuple(
            one if one.id != lost.id else type(one)(**{**vars(one), "asked_at": player.now + timedelta(seconds=1)})
            for one in player.history.attempts
        )
        player.history = type(player.history)(player.history.node_run, silent, player.history.gates)
        player.now += timedelta(seconds=1)

    assert lost.answered_at is not None
    waited = player.now - lost.answered_at
    assert timedelta(minutes=15) <= waited <= timedelta(minutes=16)
    assert len(asked) > 10
