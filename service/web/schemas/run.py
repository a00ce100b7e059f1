"""Runs: the request, and what is shown of it."""

import re
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from service.app.show_run import NodeView, RunRow, RunView, StepView
from service.domain.run import (
    Attempt,
    AttemptState,
    NodeRunState,
    ResolveAs,
    Run,
    StepOutcome,
    TriggerKind,
    Verdict,
    WellNow,
)
from service.domain.script import NotStarted, ScriptKind
from service.web.schemas.common import (
    MOST_CHARACTERS,
    SAFE,
    UNSAFE,
    Given,
    MustReason,
    NodeName,
    Reason,
    RunbookName,
    Shown,
    StepId,
    Text,
)
from service.web.schemas.gate import GateDetail

ParamName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=63)]
_LEAST, _MOST = -(2**63), 2**63 - 1


def _param_value(value: object) -> object:
    match value:
        case bool():
            return value
        case int() if _LEAST <= value <= _MOST:
            return value
        case str() if len(value) > MOST_CHARACTERS:
            raise ValueError(f"It may have {MOST_CHARACTERS} characters.")
        case str() if not re.fullmatch(SAFE, value):
            raise ValueError(UNSAFE)
        case str():
            return value
        case _:
            raise ValueError("It must be text, a whole number, true or false.")


#: One check instead of a union: of a union each member would tell its own reason, one below the other.
ParamValue = Annotated[
    Any,
    AfterValidator(_param_value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SAFE, "maxLength": MOST_CHARACTERS},
                {"type": "integer", "minimum": _LEAST, "maximum": _MOST},
                {"type": "boolean"},
            ]
        }
    ),
]


class Selector(Given):
    """Nodes by what they are: a pool, attributes, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["pool"], "properties": {"pool": {"type": "string"}}},
                {"required": ["attributes"], "properties": {"attributes": {"minProperties": 1}}},
            ]
        }
    )

    pool: Annotated[Text, Field(min_length=1)] | None = None
    attributes: dict[Text, Text] = Field(default_factory=dict, max_length=50)

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if self.pool is None and not self.attributes:
            raise ValueError("Name a pool or an attribute; a selector of nothing would be every node.")
        return self


class RunRequestBody(Given):
    """What somebody wants to have done."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "runbook": "abort-stuck-fuse",
                    "nodes": ["gpu-01"],
                    "params": {"hold_seconds": 60},
                    "dry_run": True,
                    "reason": "Readers of /data hang since 15:40.",
                }
            ]
        }
    )

    runbook: RunbookName
    nodes: list[NodeName] = Field(default_factory=list, max_length=5000, description="Names, or give a selector.")
    selector: Selector | None = None
    params: dict[ParamName, ParamValue] = Field(default_factory=dict, max_length=100)
    dry_run: StrictBool = Field(default=False, description="Look only, and say what would be done.")
    reason: Reason = ""
    take_over: StrictBool = Field(default=False, description="End a run that only waits on a node, and take its place.")


class Retry(Given):
    """How a run is requested again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"failed_nodes": True, "reason": "The link is back."}]})

    from_step: StepId | None = Field(default=None, description="Acting steps before this one are left out.")
    failed_nodes: StrictBool = Field(
        default=False, description="Only the nodes on which the first run did not succeed."
    )
    reason: Reason = ""


class Cancel(Given):
    """Why a run is to end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Wrong node."}]})

    reason: Reason = ""


class CancelRequested(Shown):
    """How far a cancel has come."""

    requested: list[str] = Field(description="Nodes on which nothing more is sent; a script under way is stopped.")
    stuck: list[str] = Field(description="Nodes whose outcome is unknown: they stay so until they are resolved.")
    note: str = "Cancel is requested; a command on a node may still be running until the run says how it ended."


class Resolve(Given):
    """How a stuck node goes on."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"as": "settle_again", "reason": "The switch is back, the node answers."}]}
    )

    resolve_as: ResolveAs = Field(
        alias="as",
        description="settle_again asks the node, changed goes on at verify, failed ends it, retry begins at check.",
    )
    reason: MustReason = Field(description="What you saw on the node.")


class TriggerDetail(Shown):
    """Why there is a run."""

    kind: TriggerKind
    name: str = Field(description="The rule, the run that escalated, the sweep; empty for a person.")


class AttemptDetail(Shown):
    """One dispatch of one script to one machine."""

    id: str
    script: ScriptKind = Field(validation_alias=AliasChoices("kind", "script"))
    number: int = Field(description="Counts up over the whole node run.")
    round: int = Field(description="Check, run and verify of one look belong together.")
    state: AttemptState
    reason: str
    not_started: NotStarted | None = Field(description="Why it did not run; proof that nothing was executed.")
    acting: bool
    exit_code: int | None
    signal: int | None
    pid: int | None
    wchan: str | None
    boot_id: str | None
    targets: list[str]
    script_sha256: str
    intended_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stdout_bytes: int
    stderr_bytes: int
    output_sha256: str | None = Field(description="Of `/attempts/{id}/output`; null while it runs.")
    truncated: bool

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Return the attempt as it is shown."""
        return cls.model_validate(attempt)


class StepDetail(Shown):
    """One step of a node run, as far as it went."""

    id: str
    outcome: StepOutcome | None = Field(description="Null: not reached, or under way.")
    reason: str
    verdict: Verdict | None
    well_now: WellNow | None = Field(description="What a dry run's verify saw.")
    targets: list[str]
    attempts: list[AttemptDetail]

    @classmethod
    def of(cls, view: StepView) -> Self:
        """Return the step as it is shown."""
        result = view.result
        return cls(
            id=result.step,
            outcome=result.outcome,
            reason=result.reason,
            verdict=result.verdict,
            well_now=result.well_now,
            targets=list(view.targets),
            attempts=[AttemptDetail.of(attempt) for attempt in view.attempts],
        )


class ResolutionDetail(Shown):
    """What a person has said of a node while it was stuck."""

    resolve_as: ResolveAs = Field(serialization_alias="as")
    by: str
    reason: str
    at: datetime


class NodeRunDetail(Shown):
    """The part of a run on one node."""

    id: str
    node: str
    state: NodeRunState
    verdict: Verdict | None
    reason: str = Field(description="Why it waits, or how it ended.")
    position: int = Field(description="Its place in the order of the run.")
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested_by: str | None
    resolutions: list[ResolutionDetail] = Field(description="How persons had it go on while it was stuck, in order.")
    steps: list[StepDetail]

    @classmethod
    def of(cls, view: NodeView) -> Self:
        """Return the node run as it is shown."""
        one = view.node_run
        return cls(
            id=one.id,
            node=one.node,
            state=one.state,
            verdict=one.verdict,
            reason=one.reason,
            position=one.position,
            started_at=one.started_at,
            ended_at=one.ended_at,
            cancel_requested_by=one.cancel_requested_by,
            resolutions=[ResolutionDetail.model_validate(said) for said in view.resolutions],
            steps=[StepDetail.of(step) for step in view.steps],
        )


class RunSummary(Shown):
    """A run as a list shows it."""

    id: str
    runbook: str
    state: NodeRunState
    dry_run: bool
    requested_by: str
    trigger: TriggerDetail
    digest: str = Field(description="Of the plan: every script as it is sent, to every node.")
    created_at: datetime
    reason: str
    retry_of: str | None
    escalated_from: str | None


class RunListed(RunSummary):
    """A run of a list, with its first nodes."""

    first_nodes: list[str] = Field(description="At most three.")
    more_nodes: bool

    @classmethod
    def of(cls, row: RunRow) -> Self:
        """Return the row as it is shown."""
        head = row.head
        more = {"state": head.state, "first_nodes": list(head.first_nodes), "more_nodes": head.more_nodes}
        return cls.model_validate(_fields(row.run) | more)


class RunDetail(RunSummary):
    """A run with its nodes, steps, attempts and gates; output is under `/attempts/{id}/output`."""

    params: dict[str, str | int | bool]
    requesters: list[str] = Field(description="Who counts as requester at a second-person gate.")
    waived: list[str] = Field(description="Steps whose gate a reviewed rule has waived.")
    from_step: str | None
    gates: list[GateDetail]
    nodes: list[NodeRunDetail]

    @classmethod
    def of(cls, view: RunView) -> Self:
        """Return the run as it is shown."""
        run = view.run
        more = {
            "state": view.state,
            "params": dict(run.params),
            "requesters": list(run.requesters),
            "waived": list(run.waived),
            "from_step": run.from_step,
            "gates": [GateDetail.of(gate) for gate in view.gates],
            "nodes": [NodeRunDetail.of(node) for node in view.nodes],
        }
        return cls.model_validate(_fields(run) | more)


def _fields(run: Run) -> dict[str, object]:
    names = ("id", "runbook", "dry_run", "requested_by", "digest", "created_at", "reason", "retry_of", "escalated_from")
    return {name: getattr(run, name) for name in names} | {"trigger": TriggerDetail.model_validate(run.trigger)}
