"""What one step is judged by: its own part of the history, sorted into rounds."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from service.domain.action import GiveUp, Settle, Stop, WaitUntil
from service.domain.run import (
    UNSEEN_AFTER,
    UNSETTLED_AFTER,
    Attempt,
    AttemptState,
    Gate,
    History,
    NodeRunState,
    Resolution,
    ResolveAs,
    Run,
)
from service.domain.runbook import Step, Where
from service.domain.script import ScriptKind


@dataclass(frozen=True)
class Scene:
    """One step, what was recorded of it, and the moment."""

    step: Step
    run: Run
    history: History
    now: datetime
    #: Whether a person wants the node run to end; never true for an always step.
    cancelled: bool
    #: What an always step has to restore: the targets that the step it undoes was given.
    undone_targets: tuple[str, ...] = ()
    #: Steps whose scripts run on the other machine: the controller, or the node. Its boots are others.
    elsewhere: frozenset[str] = frozenset()

    def attempts(self, round: int, kind: ScriptKind) -> tuple[Attempt, ...]:
        """Return the attempts of one script in one round, in order."""
        step = self.step.id
        return tuple(a for a in self.history.attempts if (a.step, a.round, a.kind) == (step, round, kind))

    def last(self, round: int, kind: ScriptKind) -> Attempt | None:
        """Return the last attempt of one script in one round."""
        found = self.attempts(round, kind)
        return found[-1] if found else None

    def gate(self, round: int) -> Gate | None:
        """Return the gate of one round."""
        for gate in self.history.gates:
            if (gate.step, gate.round) == (self.step.id, round):
                return gate
        return None

    def rounds(self) -> int:
        """Return the number of the last round, at least 1."""
        return max((a.round for a in self.history.attempts if a.step == self.step.id), default=1)

    def resolved(self, round: int, resolve_as: ResolveAs) -> Resolution | None:
        """Return the last resolution of that kind that speaks of an attempt of this round."""
        numbers = {a.number for a in self.history.attempts if (a.step, a.round) == (self.step.id, round)}
        for resolution in reversed(self.history.resolutions):
            if resolution.resolve_as is resolve_as and resolution.after_number in numbers:
                return resolution
        return None

    def last_boot(self) -> str | None:
        """Return the boot that the last answer of the step's machine came from."""
        boot = last_boot(self.history, elsewhere=self.elsewhere)
        return self.history.node_run.first_boot_id if boot is None and self.step.where is Where.NODE else boot

    def open_attempt(self) -> Attempt | None:
        """Return the attempt of this step that the node must still be asked about."""
        for attempt in self.history.attempts:
            if attempt.step == self.step.id and attempt.state.open:
                return attempt
        return None


def last_boot(history: History, *, elsewhere: frozenset[str]) -> str | None:
    """Return the boot that the last answer came from, without those to steps that run elsewhere."""
    for attempt in reversed(history.attempts):
        if attempt.step not in elsewhere and attempt.boot_id is not None and attempt.answered_at is not None:
            return attempt.boot_id
    return None


def ask_about(scene: Scene, attempt: Attempt) -> Settle | Stop | GiveUp | WaitUntil:
    """Return how to go on with an attempt whose end is not known."""
    heard = attempt.answered_at or attempt.intended_at
    patience = UNSETTLED_AFTER if attempt.acting else UNSEEN_AFTER
    # An answer moves both; which came later is not told by a clock that may have been set back meanwhile.
    asked_in_vain = attempt.asked_at is not None and attempt.asked_at != attempt.answered_at
    if asked_in_vain and scene.now - heard >= patience:
        return GiveUp(attempt.id)
    if attempt.asked_at is not None and asked_in_vain:
        silence = attempt.asked_at - heard
        pause = min(timedelta(seconds=30), max(timedelta(milliseconds=500), silence / 2))
        if scene.now < attempt.asked_at + pause:
            return WaitUntil(attempt.asked_at + pause, NodeRunState.RUNNING, _silent(attempt))
    return Stop(attempt.id) if scene.cancelled else Settle(attempt.id)


def settle_again(scene: Scene, round: int, *, attempt: Attempt) -> Settle | None:
    """Return the asking that a person wanted of an attempt without a known outcome, once."""
    resolution = scene.resolved(round, ResolveAs.SETTLE_AGAIN)
    if resolution is None or (attempt.asked_at is not None and attempt.asked_at > resolution.at):
        return None
    unknown = (AttemptState.UNKNOWN, AttemptState.UNKILLABLE)
    return Settle(attempt.id) if attempt.state in unknown else None


def leftover(history: History) -> Attempt | None:
    """Return an attempt that not even SIGKILL ended, while no person has said how to go on beside it."""
    for attempt in history.attempts:
        said = [one.resolve_as for one in history.resolutions if one.after_number >= attempt.number]
        if attempt.state is AttemptState.UNKILLABLE and set(said) <= {ResolveAs.SETTLE_AGAIN}:
            return attempt
    return None


def ask_leftover(history: History, attempt: Attempt) -> Settle | None:
    """Return the asking about a script that could not be killed, when a person wants it, once."""
    wanted = [one.at for one in history.resolutions if one.after_number >= attempt.number]
    asked = attempt.asked_at
    return Settle(attempt.id) if wanted and (asked is None or asked <= max(wanted)) else None


def _silent(attempt: Attempt) -> str:
    return f"The node does not answer; the {attempt.kind} of step {attempt.step} may have run. It is asked again."
