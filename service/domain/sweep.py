"""Sweeps: dry runs on a schedule, and what they have found on each node."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from service.domain.delivery import RecordedAlert
from service.domain.node import Inventory, Node
from service.domain.run import NodeRun, NodeRunState, StepOutcome, StepResult, WellNow
from service.domain.runbook import ParamValue, Runbook, Step, Where
from service.domain.schedule import Schedule

#: The source of the alerts that findings become; nobody can deliver as it.
SOURCE = "sweep"
#: The name that these alerts have.
ALERT_NAME = "SweepFinding"
#: The annotation that says when the look began.
LOOKED_AT = "looked_at"
#: The cell of what no look tells of yet.
NEVER = "never"
#: More missed times are not counted.
_MOST_MISSED = 1000


@dataclass(frozen=True)
class Sweep:
    """One line of the reviewed file: which nodes are looked at, by what, and when."""

    name: str
    runbook: str
    schedule: Schedule
    pool: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    #: Each time is put off by less than this, by its name and the time itself.
    jitter: timedelta = timedelta(0)
    #: Nodes that are looked at together, at most.
    nodes_at_once: int = 20
    #: A node that has not answered by then could not be looked at.
    ends_within: timedelta = timedelta(hours=1)

    @property
    def words(self) -> str:
        """Return what makes it another schedule when it is changed."""
        return f"{self.schedule.text}; jitter {int(self.jitter.total_seconds())} s"

    def due_at(self, planned: datetime) -> datetime:
        """Return when a planned time is due: the same at each question, also after a restart."""
        seconds = int(self.jitter.total_seconds())
        if seconds == 0:
            return planned
        digest = hashlib.sha256(f"{self.name} {planned.isoformat()}".encode()).digest()
        return planned + timedelta(seconds=int.from_bytes(digest[:8], "big") % seconds)

    def covers(self, node: Node) -> bool:
        """Whether a node is one of those that are meant."""
        of_pool = self.pool is None or self.pool in node.pools
        return of_pool and all(node.attributes.get(name) == value for name, value in self.attributes.items())


@dataclass(frozen=True)
class SweepState:
    """How the schedule of one sweep stands."""

    name: str
    #: The `words` of the sweep by which this was reckoned.
    schedule: str
    #: The next time by the schedule, and when it is due with its jitter.
    planned_at: datetime
    next_at: datetime
    #: The last run that it has made, on its time or at a person's word.
    last_run_id: str | None = None
    last_at: datetime | None = None
    #: Times that went by before the last one was played.
    missed: int = 0
    skipped_at: datetime | None = None
    #: Why a time was skipped, in one sentence.
    skipped: str = ""


class Finding(StrEnum):
    """What a look says of one step, or of a node as a whole."""

    #: Its check names something to act on.
    NEEDS = "needs"
    #: It has nothing to act on, and what it proves is not so.
    NOT_WELL = "not_well"
    COULD_NOT_LOOK = "could_not_look"
    FINE = "fine"
    #: Its condition is false there.
    NOT_ASKED = "not_asked"

    @property
    def fires(self) -> bool:
        """Whether it becomes an alert."""
        return self in (Finding.NEEDS, Finding.NOT_WELL)

    @property
    def shown(self) -> str:
        """Return the cell of a table: short, so that four points stand in 80 columns."""
        match self:
            case Finding.NEEDS:
                return "NEEDS"
            case Finding.NOT_WELL:
                return "NOT WELL"
            case Finding.COULD_NOT_LOOK:
                return "?"
            case Finding.FINE:
                return "fine"
            case Finding.NOT_ASKED:
                return "-"
            case _:
                assert_never(self)


#: In which order a person reads them; None: no look yet. Only what is seen fine is healthy, and stands last.
WORST_FIRST: tuple[Finding | None, ...] = (
    Finding.NEEDS,
    Finding.NOT_WELL,
    Finding.COULD_NOT_LOOK,
    None,
    Finding.NOT_ASKED,
    Finding.FINE,
)


@dataclass(frozen=True)
class StepFinding:
    """What a look says of one step."""

    step: str
    finding: Finding
    #: One sentence, or empty.
    reason: str = ""


@dataclass(frozen=True)
class NodeLook:
    """The newest look of one sweep at one node."""

    node: str
    sweep: str
    runbook: str
    run_id: str
    looked_at: datetime
    finding: Finding
    steps: tuple[StepFinding, ...]
    #: When a look last told something of every step; None: never.
    answered_at: datetime | None = None


@dataclass(frozen=True)
class OpenFinding:
    """What was found and was not seen fine since: one occasion of one fault."""

    node: str
    sweep: str
    step: str
    since: datetime
    #: The boot on which it was found; another boot is another occasion.
    boot_id: str = ""


def defaults(name: str, runbook: str) -> Sweep:
    """Return a sweep of which nothing but the name is known any more: its last run is open, and the file has it not."""
    return Sweep(name, runbook, Schedule("0 0 1 1 *"))


def first_state(sweep: Sweep, now: datetime) -> SweepState:
    """Return how a sweep stands that was never played, or whose schedule has changed."""
    planned = sweep.schedule.after(now)
    return SweepState(sweep.name, sweep.words, planned, sweep.due_at(planned))


def is_ahead(sweep: Sweep, state: SweepState, *, now: datetime) -> bool:
    """Whether the time that was planned lies further ahead than the schedule says: the clock was set back.

    One time of the schedule is left out, so that what was played already does not come again.
    """
    after = sweep.schedule.after
    return state.planned_at > after(after(now))


def next_planned(sweep: Sweep, planned: datetime, *, now: datetime) -> tuple[datetime, int]:
    """Return the first planned time that is still to come, and how many have gone by after `planned`."""
    missed = 0
    coming = sweep.schedule.after(planned)
    while sweep.due_at(coming) <= now:
        missed += 1
        if missed >= _MOST_MISSED:
            return sweep.schedule.after(now), missed
        coming = sweep.schedule.after(coming)
    return coming, missed


def columns(runbook: Runbook) -> tuple[Step, ...]:
    """Return the steps of which a dry run tells something."""
    return tuple(step for step in runbook.steps if not step.always and (step.check or step.verify))


def applies(runbook: Runbook, node: Node, *, inventory: Inventory) -> bool:
    """Whether a runbook could be planned on a node: it has what is needed."""
    controlled = node.controller in inventory.controllers
    return all(name in node.attributes for name in runbook.needs) and (
        controlled or all(step.where is Where.NODE for step in runbook.steps)
    )


def look_of(sweep: str, runbook: Runbook, *, node_run: NodeRun, now: datetime) -> NodeLook:
    """Return what an ended node run of a sweep tells."""
    results = {result.step: result for result in node_run.results}
    steps = tuple(_step(results.get(step.id, StepResult(step.id, None)), node_run) for step in columns(runbook))
    finding = _of_node({one.finding for one in steps}, node_run)
    answered = not any(one.finding is Finding.COULD_NOT_LOOK for one in steps) and bool(steps)
    return NodeLook(node_run.node, sweep, runbook.name, node_run.run_id, now, finding, steps, now if answered else None)


def told_at(alert: RecordedAlert) -> datetime:
    """Return the moment of which an alert tells, by which it is old or not.

    A monitor says since when a fault is there, and is believed for a while; a sweep has just looked.
    """
    looked_at = alert.annotations.get(LOOKED_AT) if alert.source == SOURCE else None
    return datetime.fromisoformat(looked_at) if looked_at else alert.starts_at


def _step(result: StepResult, node_run: NodeRun) -> StepFinding:
    match result.outcome:
        case StepOutcome.WOULD_CHANGE:
            return StepFinding(result.step, Finding.NEEDS, result.reason)
        case StepOutcome.OK if result.well_now is WellNow.NO:
            return StepFinding(result.step, Finding.NOT_WELL, result.reason)
        case StepOutcome.OK:
            return StepFinding(result.step, Finding.FINE, result.reason)
        case StepOutcome.SKIPPED:
            return StepFinding(result.step, Finding.NOT_ASKED, result.reason)
        case _:
            late = node_run.state is NodeRunState.CANCELLED
            reason = node_run.reason if late else result.reason or node_run.reason
            return StepFinding(result.step, Finding.COULD_NOT_LOOK, reason)


def _of_node(found: set[Finding], node_run: NodeRun) -> Finding:
    for finding in (Finding.NEEDS, Finding.NOT_WELL, Finding.COULD_NOT_LOOK):
        if finding in found:
            return finding
    if node_run.state is not NodeRunState.SUCCEEDED:
        return Finding.COULD_NOT_LOOK
    return Finding.FINE if Finding.FINE in found else Finding.NOT_ASKED
