"""What verify says: asked once, or polled until `within` ends."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from service.domain.action import Action, Dispatch, WaitUntil
from service.domain.run import Attempt, AttemptState, NodeRunState, ResolveAs, WellNow
from service.domain.scene import Scene, ask_about
from service.domain.script import ScriptKind

#: Exits that say "not well (yet)"; a script that cannot look exits with 2 or above.
NOT_WELL = (1, 77)
LONGEST_PAUSE = 15


@dataclass(frozen=True)
class Proof:
    """The last word of verify."""

    seen: WellNow
    reason: str = ""


def prove(scene: Scene, round: int, *, targets: tuple[str, ...], once: bool) -> Action | Proof:
    """Return what verify said in the end, or what to do to learn it."""
    if scene.step.verify is None:
        return Proof(WellNow.YES)
    before = _said_after(scene, round)
    asked = [attempt for attempt in scene.attempts(round, ScriptKind.VERIFY) if attempt.number > before]
    again = Dispatch(scene.step.id, ScriptKind.VERIFY, round, targets, False, None, None)
    if not asked:
        return again
    last = asked[-1]
    if last.state.open:
        return ask_about(scene, last)
    proof = read_proof(last)
    deadline = asked[0].intended_at + (scene.step.within or timedelta(0))
    final = once or scene.step.within is None or last.intended_at >= deadline
    if proof.seen is WellNow.YES or final or last.state is AttemptState.UNKILLABLE:
        return proof
    return _next_poll(scene, last, again=again, count=len(asked), deadline=deadline, proof=proof)


def read_proof(verify: Attempt) -> Proof:
    """Return what one verify that ended says of the node."""
    match verify.state:
        # Before any exit code: a script that was ended may trap the signal and exit with 0.
        case AttemptState.FINISHED if verify.ended_by_us:
            return Proof(WellNow.COULD_NOT_LOOK, "it hung and was ended at its deadline.")
        case AttemptState.FINISHED if verify.exit_code == 0:
            return Proof(WellNow.YES)
        case AttemptState.FINISHED if verify.exit_code in NOT_WELL:
            return Proof(WellNow.NO, "Verify says that the node is not well.")
        case AttemptState.FINISHED:
            how = f"signal {verify.signal}" if verify.signal is not None else f"exit {verify.exit_code}"
            return Proof(WellNow.COULD_NOT_LOOK, f"it ended with {how}.")
        case AttemptState.UNKILLABLE:
            return Proof(WellNow.COULD_NOT_LOOK, f"it cannot be killed (pid {verify.pid}, waits in {verify.wchan}).")
        case _:
            return Proof(WellNow.COULD_NOT_LOOK, verify.reason or "the node did not answer.")


def _said_after(scene: Scene, round: int) -> int:
    """Return after which attempt verify counts: a person's word starts it anew, whatever the clock says."""
    changed = scene.resolved(round, ResolveAs.CHANGED)
    again = scene.resolved(round, ResolveAs.SETTLE_AGAIN)
    return max((resolution.after_number for resolution in (changed, again) if resolution is not None), default=0)


def _next_poll(scene: Scene, last: Attempt, *, again: Dispatch, count: int, deadline: datetime, proof: Proof) -> Action:
    ended = last.finished_at or last.asked_at or last.intended_at
    at = min(ended + timedelta(seconds=min(LONGEST_PAUSE, 2 ** (count - 1))), deadline)
    if scene.now >= at:
        return again
    return WaitUntil(at, NodeRunState.RUNNING, f"Verify is asked again: {proof.reason}")
