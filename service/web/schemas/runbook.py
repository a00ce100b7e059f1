"""Runbooks as they are offered."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, PlainSerializer

from service.app.ports import RunbookSource
from service.domain.runbook import ApprovalKind, Count, OnFailure, ParamType, Runbook, Where
from service.web.schemas.common import Shown

Seconds = Annotated[timedelta, PlainSerializer(lambda value: value.total_seconds(), return_type=float)]
CountText = Annotated[
    Count, PlainSerializer(lambda count: f"{count.number}%" if count.percent else str(count.number), return_type=str)
]


class ParamDetail(Shown):
    """One typed and bounded parameter."""

    name: str
    type: ParamType
    description: str
    default: str | int | bool | None = Field(description="Null: the value must be given.")
    pattern: str | None
    max_length: int
    choices: list[str | int | bool]
    min: int | None
    max: int | None


class StepOffered(Shown):
    """One step of a runbook."""

    id: str
    title: str
    where: Where
    acts: bool = Field(description="Whether its `run` changes the node.")
    read_only: bool
    always: bool
    undoes: str | None
    reboots: bool
    approval: ApprovalKind
    waivable: bool
    needs_reason: bool = Field(description="Whether who approves must say why.")
    on_failure: OnFailure
    timeout: Seconds = Field(description="Seconds that each script may take.")
    within: Seconds | None = Field(description="Seconds for which verify is asked again.")


class LimitsDetail(Shown):
    """What bounds a runbook over all of its runs."""

    concurrent_nodes: CountText | None = Field(description="A number, or a percentage of the pool.")
    canary: int
    max_failures: int
    cooldown: Seconds
    approval_expires: Seconds


class RunbookOffered(Shown):
    """A runbook as a list shows it."""

    name: str
    title: str
    owner: str
    description: str
    acts: bool = Field(description="Whether any step changes a node.")
    file_sha256: str
    revision: str

    @classmethod
    def of(cls, runbook: Runbook) -> Self:
        """Return the runbook as it is listed."""
        return cls.model_validate(runbook)


class RunbookDetail(RunbookOffered):
    """A runbook in full."""

    prevention: str
    known_not_to_cure: list[str]
    needs: list[str] = Field(description="Attributes that a node must have.")
    params: list[ParamDetail]
    steps: list[StepOffered]
    limits: LimitsDetail
    source: str = Field(description="The file as it is.")
    prelude: str = Field(description="Shell before every script.")

    @classmethod
    def full(cls, runbook: Runbook, source: RunbookSource) -> Self:
        """Return the runbook with its text."""
        names = ("prevention", "known_not_to_cure", "needs", "params", "steps", "limits", "prelude")
        parts: dict[str, object] = {name: getattr(runbook, name) for name in names}
        return cls.model_validate(RunbookOffered.of(runbook).model_dump() | parts | {"source": source.text})


class RunbookRefused(Shown):
    """A file that is not offered."""

    file: str
    reason: str


class RunbookList(Shown):
    """Every runbook, and every file that is none."""

    items: list[RunbookOffered]
    next_cursor: None = None
    refused: list[RunbookRefused] = Field(description="Files with faults; `unstick lint` says how to mend them.")
