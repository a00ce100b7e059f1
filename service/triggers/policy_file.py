"""The policy as a file: policy.yaml, read strictly, read again when it changes. Without one the defaults hold."""

import re
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import ErrorDetails

from service.app.entry_faults import explain
from service.app.finding import Finding
from service.app.kept_file import KeptFile
from service.app.runbook_schema import Entry, Line, SomeTime, refuse, shown
from service.app.runbook_yaml import Bounds, Document, Where
from service.app.strict_file import named, read_strictly
from service.domain.errors import ConfigInvalid, InvalidInput
from service.domain.known_secrets import KNOWN
from service.domain.pattern import check_pattern, matches
from service.domain.policy import BlastRadius, Freeze, Keep, Policy, WindowCap
from service.domain.survey import OccupantLimits
from service.triggers.rights_schema import RightEntry, read_rights

_OF_A_POLICY = Bounds(
    64 * 1024, 2_000, "Remove freezes that are over.", if_empty="Remove the file; defaults hold then."
)
_WEEK = timedelta(days=7)
_LONGEST_PATTERN = 300

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _moment(value: object) -> datetime:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?Z", value):
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError as error:
            raise refuse(f"is {value}, which is no time", "Write it as 2026-12-24T08:00Z.") from error
    raise refuse(f"is {shown(value)}", "Write a time in UTC, as 2026-12-24T08:00Z.")


def _time_of_day(value: object) -> time:
    if isinstance(value, str) and re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", value):
        return time.fromisoformat(value)
    raise refuse(f"is {shown(value)}", 'Write a time of day in UTC, in quotes, as "18:00".')


def _redacted(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATTERN:
        raise refuse(f"is {shown(value)}", f"Write an expression of RE2's of at most {_LONGEST_PATTERN} characters.")
    try:
        check_pattern(value)
    except InvalidInput as error:
        raise refuse(error.reason.rstrip("."), error.way_out) from error
    if matches(value, ""):
        raise refuse("finds the empty text too", "Let it begin with what such a secret begins with.")
    return value


Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string"})]
Redacted = Annotated[str, BeforeValidator(_redacted), WithJsonSchema({"type": "string"})]
TimeOfDay = Annotated[time, BeforeValidator(_time_of_day), WithJsonSchema({"type": "string"})]


class WindowEntry(Entry):
    """At most so many nodes in a time."""

    most: int = Field(WindowCap().most, ge=1, le=100_000, description="Nodes that alerts may disrupt in that time.")
    within: SomeTime = Field(WindowCap().within, description="The time, at most 7 days.")


class BlastRadiusEntry(Entry):
    """How many nodes may be disrupted, over all runbooks."""

    nodes_at_once: int = Field(BlastRadius().nodes_at_once, ge=1, le=100_000, description="At the same time.")
    per_window: WindowEntry = Field(
        default_factory=lambda: WindowEntry.model_validate({}), description="More latches the breaker."
    )
    percent_of_pool: int = Field(
        BlastRadius().percent_of_pool, ge=1, le=100, description="Of each pool; rounded down, at least one node."
    )


class FreezeEntry(Entry):
    """A time in which no alert starts anything: from and to, or every week on some days."""

    name: Line = Field(description="What people know it by.")
    start: Moment | None = Field(None, alias="from", description="Once: from this time (UTC).")
    end: Moment | None = Field(None, alias="to", description="Once: to this time (UTC), not included.")
    days: list[Day] = Field(default_factory=list, max_length=7, description="Every week: the days on which it begins.")
    at: TimeOfDay = Field(time(0), description="Every week: when it begins (UTC).")
    lasts: SomeTime | None = Field(None, description="Every week: for how long, at most 7 days.")
    pools: list[Line] = Field(default_factory=list, description="Only for nodes in these pools; empty: for every node.")

    @model_validator(mode="after")
    def _one_kind(self) -> "FreezeEntry":
        once = self.start is not None and self.end is not None and not self.days and self.lasts is None
        weekly = bool(self.days) and self.lasts is not None and self.start is None and self.end is None
        if not once and not weekly:
            raise refuse("is neither once nor weekly", "Write `from` and `to`, or `days` and `lasts`.")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise refuse("ends before it begins", "Write a later `to`.")
        return self


class KeepEntry(Entry):
    """For how long what takes room is kept, in days. The audit stays for ever."""

    output_days: int = Field(Keep().output_days, ge=1, le=36_500, description="What scripts have said.")
    delivery_days: int = Field(
        Keep().delivery_days, ge=1, le=36_500, description="What monitors have sent; an alert that has run stays."
    )


Most = Annotated[int | None, Field(ge=0, le=100_000)]


class OccupantsEntry(Entry):
    """How much may run on a node before a person answers the gates that a rule has waived."""

    pods: Most = Field(None, description="Pods, but for those of a DaemonSet, static ones, and those that have ended.")
    jobs: Most = Field(None, description="Jobs of Slurm.")
    users: Most = Field(None, description="Users with a session, but for system users and the login of unstick.")
    gpu_processes: Most = Field(None, description="Processes that compute on a GPU.")
    only_for: list[Line] = Field(
        default_factory=list, max_length=200, description="Only on nodes in these pools; empty: on every node."
    )

    @model_validator(mode="after")
    def _something(self) -> "OccupantsEntry":
        if all(most is None for most in (self.pods, self.jobs, self.users, self.gpu_processes)):
            raise refuse("limits nothing", "Name how many `pods`, `jobs`, `users` or `gpu_processes` there may be.")
        return self


class PolicyFile(Entry):
    """The whole file."""

    blast_radius: BlastRadiusEntry = Field(
        default_factory=lambda: BlastRadiusEntry.model_validate({}), description="How far alerts may go."
    )
    freezes: list[FreezeEntry] = Field(default_factory=list, max_length=200, description="When nothing may be started.")
    occupants: OccupantsEntry | None = Field(
        None, description="What may run on a node that an alert disrupts without a person."
    )
    rights: list[RightEntry] | None = Field(
        None, max_length=1_000, description="Who may do what; without it the roles of tokens decide alone."
    )
    keep: KeepEntry = Field(
        default_factory=lambda: KeepEntry.model_validate({}), description="What goes after a while."
    )
    break_glass: bool = Field(
        default=False, description="Whether the role break-glass may override a gate; everybody is told when it does."
    )
    redact: list[Redacted] = Field(
        default_factory=list,
        max_length=20,
        description="Expressions of RE2's that find secrets of the house; all that each finds is masked.",
    )


class FilePolicy(KeptFile[Policy]):
    """The policy of one file. A file that became wrong or is gone does not loosen anything: the last good one stays.

    Its break-glass does not: it opens, so it is off until the file that is there says that it is on.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of policy.yaml; nothing is read yet."""
        super().__init__(path, _load_and_redact, word="policy", if_absent=Policy())

    def look(self) -> tuple[Policy, ConfigInvalid | None]:
        """Return the policy with why the file as it is now is not used; None when it is."""
        policy, problem = super().look()
        if problem is None or not policy.break_glass:
            return policy, problem
        doubt = f"No gate may be overridden while policy.yaml is missing or wrong: {problem.reason}"
        return replace(policy, break_glass=False, break_glass_doubt=doubt), problem


def load_policy(path: Path) -> Policy:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    entry, document = read_strictly(path, PolicyFile, bounds=_OF_A_POLICY, begin="blast_radius", explain=_finding)
    rights = None if entry.rights is None else read_rights(entry.rights, document, str(path))
    return replace(_policy(entry), rights=rights)


def _load_and_redact(path: Path) -> Policy:
    """Read the file of a service: from then on what it calls secret is masked."""
    policy = load_policy(path)
    KNOWN.look_for(policy.redact)
    return policy


def _policy(entry: PolicyFile) -> Policy:
    radius = entry.blast_radius
    cap = WindowCap(radius.per_window.most, radius.per_window.within)
    return Policy(
        BlastRadius(radius.nodes_at_once, cap, radius.percent_of_pool),
        tuple(_freeze(one) for one in entry.freezes),
        Keep(entry.keep.output_days, entry.keep.delivery_days),
        OccupantLimits() if entry.occupants is None else _occupants(entry.occupants),
        break_glass=entry.break_glass,
        redact=tuple(entry.redact),
    )


def _occupants(entry: OccupantsEntry) -> OccupantLimits:
    return OccupantLimits(entry.pods, entry.jobs, entry.users, entry.gpu_processes, tuple(entry.only_for))


def _freeze(entry: FreezeEntry) -> Freeze:
    days = tuple(sorted({get_args(Day).index(day) for day in entry.days}))
    lasts = min(entry.lasts or timedelta(0), _WEEK)
    return Freeze(entry.name, entry.start, entry.end, days, entry.at, lasts, tuple(entry.pools))


def _finding(details: ErrorDetails, document: Document, file: str) -> Finding:
    where: Where = tuple(details["loc"])
    reason, way_out = explain(details, where, entry=_entry_of(where))
    return Finding(file, document.line(where), f"{named(where)} {reason}", way_out)


def _entry_of(where: Where) -> type[Entry]:
    """Return the model whose keys stand around a place."""
    if where[:2] == ("blast_radius", "per_window") and len(where) > 2:
        return WindowEntry
    if where[:1] == ("blast_radius",) and len(where) > 1:
        return BlastRadiusEntry
    if where[:1] == ("occupants",) and len(where) > 1:
        return OccupantsEntry
    if where[:1] == ("keep",) and len(where) > 1:
        return KeepEntry
    if where[:1] == ("rights",) and len(where) > 2:
        return RightEntry
    return FreezeEntry if where[:1] == ("freezes",) and len(where) > 2 else PolicyFile
