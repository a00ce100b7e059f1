"""How one step is played, and what became of it: the outcome table, row by row.

`play` looks at what was recorded and returns either the next action or the end of the step.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

from service.domain.action import Action, CloseGate, Dispatch, OpenGate, Settle, WaitForDecision, WaitUntil
from service.domain.prove import Proof, prove
from service.domain.run import (
    FRESH_LOOKS,
    HELD_FOR,
    Attempt,
    AttemptState,
    Gate,
    GateState,
    NodeRunState,
    ResolveAs,
    StepOutcome,
    StepResult,
    Verdict,
    WellNow,
)
from service.domain.runbook import ApprovalKind
from service.domain.scene import Scene, ask_about, leftover, settle_again
from service.domain.script import NotStarted, ScriptKind

NOTHING_TO_DO = 77
#: What a person must mend first: a further try would be refused as well, and may lock the login.
_FOR_A_PERSON = frozenset({NotStarted.HOST_KEY, NotStarted.LOGIN, NotStarted.SUDO, NotStarted.UNCONFINED})


@dataclass(frozen=True)
class Done:
    """The step has ended; `ends_as` ends the node run too, unless `on_failure` goes on."""

    result: StepResult
    ends_as: NodeRunState | None = None
    #: Whether `retry` may play it again: a known failure.
    known_failure: bool = False


@dataclass(frozen=True)
class Again:
    """The run was provably not started: look again, with a new gate."""

    reason: str


@dataclass(frozen=True)
class Stuck:
    """The outcome is unknown: a person must look."""

    reason: str


@dataclass(frozen=True)
class Retry:
    """A person wants the step to start again at check."""


RoundEnd = Done | Again | Stuck | Retry


def play(scene: Scene) -> Action | Done | Stuck:
    """Return the next action of a step, or how it ended."""
    last = scene.rounds()
    ends = [play_round(scene, number) for number in range(1, last + 1)]
    return _cancelled(scene, last) if scene.cancelled and _may_cancel(scene, ends[-1]) else _go_on(scene, ends)


def _go_on(scene: Scene, ends: list[Action | RoundEnd]) -> Action | Done | Stuck:
    end, last = ends[-1], len(ends)
    match end:
        case Again(reason):
            if sum(isinstance(one, Again) for one in ends) > FRESH_LOOKS:
                why = f"The run was not started {FRESH_LOOKS + 1} times; the last time: {reason}"
                return _failed(scene, StepOutcome.FAILED, why, verdict=None)
            return first_script(scene, last + 1)
        case Retry():
            return first_script(scene, last + 1)
        case Done() if end.known_failure and scene.step.retry is not None and not scene.run.dry_run:
            # A second probe would only hang beside the first.
            return _retry(scene, end, ends=ends) if leftover(scene.history) is None else end
        case Stuck() | Done():
            return end
        case _:
            return end


def _retry(scene: Scene, end: Done, *, ends: list[Action | RoundEnd]) -> Action | Done:
    retry = scene.step.retry
    used = sum(isinstance(one, Done) for one in ends)
    if retry is None or used >= retry.attempts:
        return end
    finished = max((a.finished_at or a.asked_at or a.intended_at for a in scene.history.attempts), default=scene.now)
    at = finished + retry.delay * retry.backoff ** (used - 1)
    if scene.now < at:
        return WaitUntil(at, NodeRunState.RUNNING, f"Step {scene.step.id} is tried again: {end.result.reason}")
    return first_script(scene, len(ends) + 1)


def first_script(scene: Scene, round: int) -> Dispatch | Done:
    """Return the dispatch with which a round begins, or how the step ends without one."""
    step = scene.step
    if step.check is not None:
        return Dispatch(step.id, ScriptKind.CHECK, round, (), False, None, None)
    if step.run is not None:
        boot = scene.last_boot() if step.acts else None
        if step.acts and not boot:
            return _bound_to_nothing(scene)
        return Dispatch(step.id, ScriptKind.RUN, round, scene.undone_targets, step.acts, boot, None)
    return Dispatch(step.id, ScriptKind.VERIFY, round, (), False, None, None)


def play_round(scene: Scene, round: int) -> Action | RoundEnd:
    """Return what one round asks for next, or how it ended."""
    failed = scene.resolved(round, ResolveAs.FAILED)
    if failed is not None:
        why = f"{failed.by} ended it as failed: {failed.reason}"
        return _failed(scene, StepOutcome.UNKNOWN, why, verdict=Verdict.UNKNOWN)
    if scene.resolved(round, ResolveAs.RETRY) is not None:
        return Retry()
    if scene.step.check is not None:
        return _after_check(scene, round)
    if scene.step.run is not None:
        return _after_run(scene, round, targets=scene.undone_targets, gate=None)
    return _assertion(scene, round)


def _after_check(scene: Scene, round: int) -> Action | RoundEnd:
    check = scene.last(round, ScriptKind.CHECK)
    if check is None:
        return first_script(scene, round)
    if check.state.open:
        return ask_about(scene, check)
    if check.state is not AttemptState.FINISHED or check.ended_by_us or check.exit_code not in (0, NOTHING_TO_DO):
        return _could_not_look(scene, check)
    if scene.step.acts and not check.boot_id:
        why = "The check did not say which boot of the node it saw, so no run can be bound to it; nothing was touched."
        return _failed(scene, StepOutcome.FAILED, why, verdict=None, known=True)
    if check.exit_code == NOTHING_TO_DO:
        return _judge_idle(scene, round)
    if scene.step.run is None:
        return _assertion(scene, round, targets=check.targets)
    if scene.run.dry_run:
        proof = prove(scene, round, targets=check.targets, once=True)
        return proof if not isinstance(proof, Proof) else _would_change(scene, proof)
    if scene.step.approval is ApprovalKind.NONE:
        return _after_run(scene, round, targets=check.targets, gate=None)
    return _at_gate(scene, round, check=check)


def _would_change(scene: Scene, proof: Proof) -> Done:
    return Done(StepResult(scene.step.id, StepOutcome.WOULD_CHANGE, "It would act on these targets.", None, proof.seen))


def _at_gate(scene: Scene, round: int, *, check: Attempt) -> Action | RoundEnd:
    gate = scene.gate(round)
    step = scene.step
    if gate is None:
        waived = step.id in scene.run.waived and step.waivable
        boot = check.boot_id or ""
        return OpenGate(step.id, round, step.approval, boot, check.targets, check.id, waived)
    match gate.state:
        case GateState.OPEN if scene.now >= gate.expires_at:
            return CloseGate(gate.id, GateState.EXPIRED, "Nobody answered in time; nothing was run.")
        case GateState.OPEN:
            return WaitForDecision(NodeRunState.WAITING, gate.expires_at, f"The gate of step {step.id} is open.")
        case GateState.DENIED:
            why = f"{gate.decided_by} denied it: {gate.reason}" if gate.reason else f"{gate.decided_by} denied it."
            return Done(StepResult(step.id, StepOutcome.DENIED, why), NodeRunState.DENIED)
        case GateState.EXPIRED:
            return Done(StepResult(step.id, StepOutcome.DENIED, gate.reason), NodeRunState.EXPIRED)
        case GateState.VOID:
            return Again(gate.reason)
        case GateState.APPROVED | GateState.WAIVED | GateState.OVERRIDDEN:
            return _after_run(scene, round, targets=gate.targets, gate=gate)
        case _:
            assert_never(gate.state)


def _after_run(scene: Scene, round: int, *, targets: tuple[str, ...], gate: Gate | None) -> Action | RoundEnd:
    step = scene.step
    run = scene.last(round, ScriptKind.RUN)
    if run is None:
        if step.always and scene.run.dry_run:
            return Done(StepResult(step.id, StepOutcome.SKIPPED, "A dry run changes nothing to undo."))
        return _send_run(scene, round, targets=targets, gate=gate)
    if run.state.open:
        return ask_about(scene, run)
    if not step.acts:
        return _read_only(scene, round, run=run)
    if scene.resolved(round, ResolveAs.CHANGED) is not None:
        return _judge_acted(scene, round, run=run, targets=targets)
    again = settle_again(scene, round, attempt=run)
    if again is not None:
        return again
    match run.state:
        case AttemptState.FINISHED:
            return _judge_acted(scene, round, run=run, targets=targets)
        case AttemptState.NOT_STARTED:
            return _not_started(scene, round, run=run, targets=targets, gate=gate)
        case AttemptState.REBOOTED if step.reboots:
            return _judge_acted(scene, round, run=run, targets=targets)
        case AttemptState.REBOOTED:
            return Stuck(f"The node booted while step {step.id} ran; what it did by then is not known.")
        case AttemptState.UNKILLABLE:
            return Stuck(f"The run of step {step.id} cannot be killed (pid {run.pid}, waits in {run.wchan}).")
        case AttemptState.UNKNOWN:
            return Stuck(f"Nobody could learn how the run of step {step.id} ended. {run.reason}".strip())
        case AttemptState.INTENDED | AttemptState.RUNNING:
            return ask_about(scene, run)
        case _:
            assert_never(run.state)


def _send_run(scene: Scene, round: int, *, targets: tuple[str, ...], gate: Gate | None) -> Action | RoundEnd:
    step = scene.step
    if gate is not None and scene.now >= gate.expires_at:
        return CloseGate(gate.id, GateState.VOID, "The approval was not used before it expired.")
    check = scene.last(round, ScriptKind.CHECK)
    boot = check.boot_id if check is not None else scene.last_boot()
    if step.acts and not boot:
        return _bound_to_nothing(scene)
    not_after = gate.expires_at if gate is not None else None
    return Dispatch(step.id, ScriptKind.RUN, round, targets, step.acts, boot if step.acts else None, not_after)


def _bound_to_nothing(scene: Scene) -> Done:
    why = "Nothing has said which boot of the node this is, so no run can be bound to it; nothing was sent."
    return _failed(scene, StepOutcome.FAILED, why, verdict=None, known=True)


def _not_started(
    scene: Scene, round: int, *, run: Attempt, targets: tuple[str, ...], gate: Gate | None
) -> Action | RoundEnd:
    match run.not_started:
        case NotStarted.OTHER_BOOT | NotStarted.TOO_LATE | NotStarted.VOID:
            if gate is not None and gate.state is not GateState.VOID:
                return CloseGate(gate.id, GateState.VOID, f"Not started: {run.reason}")
            return Again(run.reason)
        case NotStarted.HELD:
            return _wait_for_node(scene, round, run=run, targets=targets, gate=gate)
        case NotStarted.UNREACHABLE:
            return _failed(scene, StepOutcome.UNREACHABLE, run.reason, verdict=None, known=True)
        case refusal:
            known = refusal not in _FOR_A_PERSON
            return _failed(scene, StepOutcome.FAILED, run.reason, verdict=None, known=known)


def _wait_for_node(
    scene: Scene, round: int, *, run: Attempt, targets: tuple[str, ...], gate: Gate | None
) -> Action | RoundEnd:
    tried = scene.attempts(round, ScriptKind.RUN)
    if scene.now - tried[0].intended_at >= HELD_FOR:
        return _failed(scene, StepOutcome.FAILED, f"The node was not free in time: {run.reason}", verdict=None)
    at = (run.asked_at or run.intended_at) + timedelta(seconds=min(60, 5 * 2 ** (len(tried) - 1)))
    if scene.now < at:
        return WaitUntil(at, NodeRunState.WAITING, f"It waits for the node. {run.reason}")
    return _send_run(scene, round, targets=targets, gate=gate)


def _read_only(scene: Scene, round: int, *, run: Attempt) -> Action | RoundEnd:
    step = scene.step
    if run.state is AttemptState.FINISHED and not run.ended_by_us and run.exit_code in (0, NOTHING_TO_DO):
        return _assertion(scene, round) if step.verify is not None else Done(StepResult(step.id, StepOutcome.OK))
    return _could_not_look(scene, run)


def _could_not_look(scene: Scene, attempt: Attempt) -> Done:
    """The step failed and nothing was touched."""
    reached = attempt.not_started is not NotStarted.UNREACHABLE and attempt.state is not AttemptState.UNKNOWN
    outcome = StepOutcome.FAILED if reached else StepOutcome.UNREACHABLE
    known = attempt.not_started not in _FOR_A_PERSON
    return _failed(scene, outcome, _looked_in_vain(attempt), verdict=None, known=known)


def _looked_in_vain(attempt: Attempt) -> str:
    match attempt.state:
        case AttemptState.FINISHED if attempt.ended_by_us:
            return f"The {attempt.kind} hung and was ended at its deadline; nothing was touched."
        case AttemptState.FINISHED if attempt.signal is not None:
            return f"The {attempt.kind} was ended by signal {attempt.signal}; nothing was touched."
        case AttemptState.FINISHED:
            return f"The {attempt.kind} could not look (exit {attempt.exit_code}); nothing was touched."
        case AttemptState.UNKILLABLE:
            return f"The {attempt.kind} hangs and cannot be killed (pid {attempt.pid}, waits in {attempt.wchan})."
        case AttemptState.REBOOTED:
            return f"The node booted during the {attempt.kind}; nothing was touched."
        case _:
            return attempt.reason or f"The node did not answer during the {attempt.kind}; nothing was touched."


def _judge_idle(scene: Scene, round: int) -> Action | RoundEnd:
    """Check said that nothing is to do: only verify says whether the node is well."""
    step = scene.step
    if step.verify is None:
        return Done(StepResult(step.id, StepOutcome.OK, "There is nothing to do."))
    proof = prove(scene, round, targets=(), once=scene.run.dry_run)
    if not isinstance(proof, Proof):
        return proof
    if scene.run.dry_run:
        return _dry_look(scene, proof)
    match proof.seen:
        case WellNow.YES:
            return Done(StepResult(step.id, StepOutcome.OK, "There is nothing to do.", Verdict.WELL))
        case WellNow.NO:
            why = "There is nothing to do here, and the node is not well."
            return _failed(scene, StepOutcome.FAILED, why, verdict=Verdict.NOT_CURED, known=True)
        case WellNow.COULD_NOT_LOOK:
            return Stuck(f"Nothing was done, and verify could not look: {proof.reason}")


def _assertion(scene: Scene, round: int, *, targets: tuple[str, ...] = ()) -> Action | RoundEnd:
    step = scene.step
    proof = prove(scene, round, targets=targets, once=scene.run.dry_run)
    if not isinstance(proof, Proof):
        return proof
    if scene.run.dry_run:
        return _dry_look(scene, proof)
    match proof.seen:
        case WellNow.YES:
            return Done(StepResult(step.id, StepOutcome.OK, "", Verdict.WELL))
        case WellNow.NO:
            return _failed(scene, StepOutcome.FAILED, proof.reason, verdict=Verdict.NOT_CURED, known=True)
        case WellNow.COULD_NOT_LOOK:
            return Stuck(f"Verify could not look: {proof.reason}")


def _dry_look(scene: Scene, proof: Proof) -> Done:
    if proof.seen is WellNow.COULD_NOT_LOOK:
        done = _failed(scene, StepOutcome.FAILED, f"Verify could not look: {proof.reason}", verdict=None)
        return replace(done, result=replace(done.result, well_now=proof.seen))
    return Done(StepResult(scene.step.id, StepOutcome.OK, "", None, proof.seen))


def _judge_acted(scene: Scene, round: int, *, run: Attempt, targets: tuple[str, ...]) -> Action | RoundEnd:
    step = scene.step
    person_says_changed = scene.resolved(round, ResolveAs.CHANGED) is not None
    acted = run.exit_code == 0 or run.state is not AttemptState.FINISHED or person_says_changed
    vanished = run.exit_code == NOTHING_TO_DO
    proof = prove(scene, round, targets=targets, once=not (acted or vanished))
    if not isinstance(proof, Proof):
        return proof
    match proof.seen:
        case WellNow.COULD_NOT_LOOK:
            return Stuck(f"Step {step.id} has acted, and verify could not look: {proof.reason}")
        case WellNow.YES if acted:
            return Done(StepResult(step.id, StepOutcome.CHANGED, "", Verdict.CURED))
        case WellNow.YES if vanished:
            return Done(StepResult(step.id, StepOutcome.SKIPPED, "No approved target was left.", Verdict.CLEARED))
        case WellNow.YES:
            why = f"{_how_it_failed(run)} The node is well nevertheless."
            return _failed(scene, StepOutcome.FAILED, why, verdict=Verdict.CURED)
        case WellNow.NO:
            why = proof.reason if acted else f"{_how_it_failed(run)} {proof.reason}"
            return _failed(scene, StepOutcome.FAILED, why, verdict=Verdict.NOT_CURED, known=True)


def _how_it_failed(run: Attempt) -> str:
    if run.ended_by_us:
        return "The run was ended at its deadline."
    if run.signal is not None:
        return f"The run was ended by signal {run.signal}."
    return "No approved target was left." if run.exit_code == NOTHING_TO_DO else f"The run ended with {run.exit_code}."


def _failed(scene: Scene, outcome: StepOutcome, reason: str, *, verdict: Verdict | None, known: bool = False) -> Done:
    return Done(StepResult(scene.step.id, outcome, reason, verdict), NodeRunState.FAILED, known)


def _may_cancel(scene: Scene, end: Action | RoundEnd) -> bool:
    """Whether a cancel ends the step here: nothing of it is under way, and nothing is unknown."""
    if scene.open_attempt() is not None or isinstance(end, Stuck | Settle):
        return False
    # A gate that has expired since he cancelled does not make his word another.
    closes = isinstance(end, CloseGate) and end.state is not GateState.EXPIRED
    return not closes and not (isinstance(end, Done) and not end.known_failure)


def _cancelled(scene: Scene, round: int) -> Action | Done:
    gate = scene.gate(round)
    if gate is not None and gate.state is GateState.OPEN:
        return CloseGate(gate.id, GateState.VOID, "The run was cancelled.")
    run = scene.last(round, ScriptKind.RUN)
    ran = run is not None and run.acting and run.state is not AttemptState.NOT_STARTED
    if run is not None and ran and run.ended_by_us:
        result = StepResult(scene.step.id, StepOutcome.FAILED, "Its run was stopped.")
    elif ran:
        result = StepResult(scene.step.id, StepOutcome.UNKNOWN, "It has acted; the cancel came before it was verified.")
    else:
        result = StepResult(scene.step.id, None, "Cancelled before it acted.")
    return Done(result, NodeRunState.CANCELLED)
