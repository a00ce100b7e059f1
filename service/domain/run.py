"""Runs, node runs, attempts, gates and what persons decided: the facts that are stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from service.domain.runbook import ApprovalKind, ParamValue
from service.domain.script import NotStarted, ScriptKind
from service.domain.survey import Survey


class NodeRunState(StrEnum):
    """Where a node run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    #: A gate is open, or the node is held by another run.
    WAITING = "waiting"
    #: The outcome of an acting script is unknown: a person must look.
    STUCK = "stuck"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more."""
        return self not in OPEN_STATES


OPEN_STATES = frozenset({NodeRunState.QUEUED, NodeRunState.RUNNING, NodeRunState.WAITING, NodeRunState.STUCK})
#: The states in which an acting node run has its node to itself.
HOLDING_STATES = frozenset({NodeRunState.RUNNING, NodeRunState.WAITING, NodeRunState.STUCK})

#: The state of a run is the first of these that one of its node runs has.
RUN_STATE_ORDER = (
    NodeRunState.RUNNING,
    NodeRunState.WAITING,
    NodeRunState.STUCK,
    NodeRunState.QUEUED,
    NodeRunState.FAILED,
    NodeRunState.EXPIRED,
    NodeRunState.DENIED,
    NodeRunState.CANCELLED,
    NodeRunState.SUCCEEDED,
)


def run_state(states: Iterable[NodeRunState]) -> NodeRunState:
    """Return the state of a run, given those of its node runs (at least one)."""
    present = set(states)
    return next(state for state in RUN_STATE_ORDER if state in present)


class StepOutcome(StrEnum):
    """What became of one step."""

    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    DENIED = "denied"
    WOULD_CHANGE = "would_change"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What became of the node."""

    #: Acted, and verified.
    CURED = "cured"
    #: Nothing to do, and verified.
    WELL = "well"
    #: The targets were gone before we acted: no credit taken.
    CLEARED = "cleared"
    NOT_CURED = "not_cured"
    UNKNOWN = "unknown"


class WellNow(StrEnum):
    """What a dry run's verify saw; it decides nothing."""

    YES = "yes"
    NO = "no"
    COULD_NOT_LOOK = "could_not_look"


class AttemptState(StrEnum):
    """How one dispatch stands in our record."""

    #: Committed, perhaps sent: nobody knows until the node is asked.
    INTENDED = "intended"
    RUNNING = "running"
    FINISHED = "finished"
    UNKILLABLE = "unkillable"
    NOT_STARTED = "not_started"
    REBOOTED = "rebooted"
    #: Not settled in time, or by nobody ever.
    UNKNOWN = "unknown"

    @property
    def open(self) -> bool:
        """Whether the node must still be asked."""
        return self in (AttemptState.INTENDED, AttemptState.RUNNING)


class GateState(StrEnum):
    """How a gate stands."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    #: The node booted, or the look is no longer true.
    VOID = "void"
    #: A reviewed rule answered it beforehand.
    WAIVED = "waived"
    OVERRIDDEN = "overridden"

    @property
    def lets_run(self) -> bool:
        """Whether `run` may be sent."""
        return self in (GateState.APPROVED, GateState.WAIVED, GateState.OVERRIDDEN)


class ResolveAs(StrEnum):
    """The ways out of a stuck node run."""

    SETTLE_AGAIN = "settle_again"
    CHANGED = "changed"
    FAILED = "failed"
    RETRY = "retry"


class TriggerKind(StrEnum):
    """What a run was started by."""

    PERSON = "person"
    ALERT = "alert"
    ESCALATION = "escalation"
    SWEEP = "sweep"
    #: A person played it from an exported script, and brought the journal.
    BY_HAND = "by_hand"


@dataclass(frozen=True)
class StepResult:
    """What became of one step, as far as it went."""

    step: str
    #: None: not reached, or under way.
    outcome: StepOutcome | None
    reason: str = ""
    verdict: Verdict | None = None
    well_now: WellNow | None = None


@dataclass(frozen=True)
class Trigger:
    """Why there is a run."""

    kind: TriggerKind
    #: The rule, the run that escalated, the sweep; empty for a person.
    name: str = ""


@dataclass(frozen=True)
class Run:
    """One request on 1 to N nodes."""

    id: str
    runbook: str
    digest: str
    dry_run: bool
    requested_by: str
    #: Persons who count as requester at a second-person gate, `requested_by` among them.
    requesters: tuple[str, ...]
    trigger: Trigger
    params: Mapping[str, ParamValue]
    created_at: datetime
    reason: str = ""
    #: Steps whose gate a reviewed rule has waived by name.
    waived: tuple[str, ...] = ()
    retry_of: str | None = None
    escalated_from: str | None = None
    #: A retry skips acting steps before this one.
    from_step: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class NodeRun:
    """The part of a run on one node: claimed, executed, and judged by itself."""

    id: str
    run_id: str
    node: str
    state: NodeRunState
    #: Its place in the order of the run; the canary wave comes first.
    position: int
    dry_run: bool
    #: Whether it takes the node for itself.
    acts: bool
    runbook: str
    created_at: datetime
    verdict: Verdict | None = None
    #: One sentence: why it waits, or how it ended.
    reason: str = ""
    #: Attributes of the node as they were when the run was requested, `name` and `pools` too.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: The pool by which a percentage of nodes is counted; None: the whole inventory.
    pool: str | None = None
    #: When it is due; None: it waits for a decision or for capacity.
    wake_at: datetime | None = None
    owner: str | None = None
    epoch: int = 0
    first_boot_id: str | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str = ""
    #: What became of each step, as of the last time it was judged.
    results: tuple[StepResult, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Attempt:
    """One real dispatch of one script to one machine, recorded before it is sent."""

    id: str
    node_run_id: str
    step: str
    kind: ScriptKind
    #: Counts up over the whole node run.
    number: int
    #: A round begins with each look: check, gate, run and verify of one round belong together.
    round: int
    state: AttemptState
    intended_at: datetime
    script_sha256: str
    #: Whether it changes the machine.
    acting: bool = False
    not_after: datetime | None = None
    boot_id: str | None = None
    #: What `$UNSTICK_TARGETS` held at the start (`run`, `verify`), or what check wrote.
    targets: tuple[str, ...] = ()
    not_started: NotStarted | None = None
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    pid: int | None = None
    wchan: str | None = None
    #: When the node was last asked, in vain or not, how the attempt stands.
    asked_at: datetime | None = None
    #: When the node last said anything about it.
    answered_at: datetime | None = None
    #: Whether the watchdog or a stop ended it, proven dead.
    ended_by_us: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    output_sha256: str | None = None
    truncated: bool = False


@dataclass(frozen=True)
class Gate:
    """A stop before `run`, and the answer of a person."""

    id: str
    run_id: str
    node_run_id: str
    node: str
    step: str
    round: int
    kind: ApprovalKind
    state: GateState
    #: SHA-256 of (plan digest, node, step, boot_id, targets): the thing that is approved.
    digest: str
    boot_id: str
    targets: tuple[str, ...]
    opened_at: datetime
    expires_at: datetime
    #: The attempt of the check whose output the person saw.
    check_attempt_id: str
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
    #: What ran on the node when it was opened. It changes by itself, so no digest binds it. None: nobody looked.
    survey: Survey | None = None

    @property
    def occupants(self) -> str:
        """Return what ran on the node when it was opened, as one line; empty: nobody looked."""
        return self.survey.words if self.survey is not None else ""

    @property
    def over(self) -> tuple[str, ...]:
        """Return why a person is asked though a rule had waived it."""
        return self.survey.over if self.survey is not None else ()


@dataclass(frozen=True)
class Resolution:
    """What a person said of a stuck node run."""

    id: str
    node_run_id: str
    resolve_as: ResolveAs
    by: str
    reason: str
    at: datetime
    #: The number of the last attempt that the person knew of; the resolution speaks of that one.
    after_number: int


def retried_by(resolutions: Iterable[Resolution]) -> tuple[str, ...]:
    """Return who had a step begun anew: he asks for what follows from it as whoever requested the run."""
    return tuple(one.by for one in resolutions if one.resolve_as is ResolveAs.RETRY)


@dataclass(frozen=True)
class Hold:
    """A person says: hands off this node."""

    node: str
    by: str
    reason: str
    at: datetime
    until: datetime | None = None

    def active(self, now: datetime) -> bool:
        """Whether it still holds at this moment."""
        return self.until is None or now < self.until

    @property
    def words(self) -> str:
        """Return who holds the node, until when and why, such as `on hold by ann: the vendor looks at it`."""
        until = f" until {self.until.isoformat(sep=' ', timespec='minutes')}" if self.until is not None else ""
        return f"on hold by {self.by}{until}: {self.reason}"


@dataclass(frozen=True)
class History:
    """All that was recorded of one node run, in order: the input of `next_action`."""

    node_run: NodeRun
    attempts: tuple[Attempt, ...] = ()
    gates: tuple[Gate, ...] = ()
    resolutions: tuple[Resolution, ...] = ()


#: How long nobody hears of an acting script before its outcome counts as unknown.
UNSETTLED_AFTER = timedelta(minutes=15)
#: The same for scripts that only read: then the look has failed.
UNSEEN_AFTER = timedelta(seconds=30)
#: How often a step is looked at again because its run was not started.
FRESH_LOOKS = 2
#: How long a run waits for a node that another unstick holds.
HELD_FOR = timedelta(hours=1)
