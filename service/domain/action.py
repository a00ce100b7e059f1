"""What `next_action` may answer: the next thing to do for one node run."""

from dataclasses import dataclass
from datetime import datetime

from service.domain.run import GateState, NodeRunState, StepResult, Verdict
from service.domain.runbook import ApprovalKind
from service.domain.script import ScriptKind


@dataclass(frozen=True)
class Dispatch:
    """Send one script."""

    step: str
    kind: ScriptKind
    round: int
    targets: tuple[str, ...]
    acting: bool
    #: The boot that the round's look saw; None for scripts that only read.
    boot_id: str | None
    #: The end of the approval, where there is one.
    not_after: datetime | None


@dataclass(frozen=True)
class Settle:
    """Ask the node how an attempt stands; one that nobody saw start is sent again, under its own id."""

    attempt_id: str


@dataclass(frozen=True)
class Stop:
    """End the script of an attempt, because a person cancelled."""

    attempt_id: str


@dataclass(frozen=True)
class GiveUp:
    """Record that nobody could learn how an attempt ended."""

    attempt_id: str


@dataclass(frozen=True)
class OpenGate:
    """Stop before `run`, until a person answers."""

    step: str
    round: int
    kind: ApprovalKind
    boot_id: str
    targets: tuple[str, ...]
    check_attempt_id: str
    waived: bool


@dataclass(frozen=True)
class CloseGate:
    """Write down that a gate ended without a person: expired, or void."""

    gate_id: str
    state: GateState
    reason: str


@dataclass(frozen=True)
class WaitUntil:
    """Nothing to do before this moment."""

    at: datetime
    state: NodeRunState
    reason: str


@dataclass(frozen=True)
class WaitForDecision:
    """Nothing to do before a person decides, or (for a gate) before it expires."""

    state: NodeRunState
    until: datetime | None
    reason: str


@dataclass(frozen=True)
class Ended:
    """Nothing to do any more."""

    state: NodeRunState
    verdict: Verdict | None
    reason: str


Action = Dispatch | Settle | Stop | GiveUp | OpenGate | CloseGate | WaitUntil | WaitForDecision | Ended


@dataclass(frozen=True)
class Judgement:
    """The next thing to do, and what became of each step so far."""

    action: Action
    results: tuple[StepResult, ...]
