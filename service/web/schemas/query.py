"""What may stand behind the question mark; an unknown name is refused, so that a misspelt filter is not ignored."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from service.domain.delivery import AlertVerdict
from service.domain.run import GateState, NodeRunState
from service.domain.script import Stream
from service.web.schemas.audit import TimelineFormat
from service.web.schemas.common import RUN_ID, Given, Id, Moment, NodeName, Text


def _not_blank(text: str | None) -> str | None:
    return text or None


#: A field of a form that was left empty is no filter.
Filter = Annotated[Text | None, AfterValidator(_not_blank)]
_SINCE = "Not before this moment, with its offset from UTC."
_UNTIL = "Before this moment, with its offset from UTC."


class Paged(Given):
    """A page of a list."""

    cursor: Filter = Field(default=None, description="`next_cursor` of the page before.")
    limit: int = Field(default=50, ge=1, le=200, description="Rows of a page.")


class RunsQuery(Paged):
    """Which runs."""

    runbook: Filter = Field(default=None, examples=["abort-stuck-fuse"])
    node: Filter = Field(default=None, examples=["gpu-01"])
    state: NodeRunState | None = None
    dry_run: bool | None = None
    requested_by: Filter = None


class PlanQuery(Paged):
    """Which nodes of a plan."""

    cursor: Annotated[str, StringConstraints(pattern=r"^[0-9]{0,6}$")] | None = Field(
        default=None, description="`next_cursor` of the page before."
    )
    limit: int = Field(default=20, ge=1, le=100, description="Nodes of a page.")


class ApprovalsQuery(Paged):
    """Which gates."""

    state: GateState | Literal["all"] = Field(default=GateState.OPEN, description="`all` shows every gate.")


class AlertsQuery(Paged):
    """Which alerts."""

    node: Filter = Field(default=None, examples=["gpu-01"])
    verdict: AlertVerdict | None = None
    source: Filter = Field(default=None, examples=["prom"])
    delivery_id: Filter = None


class NodesQuery(Paged):
    """Which nodes."""

    pool: Filter = Field(default=None, examples=["h100"])
    limit: int = Field(default=200, ge=1, le=1000, description="Rows of a page.")


class FleetQuery(Paged):
    """Which nodes, in the eyes of which sweep."""

    pool: Filter = Field(default=None, examples=["h100"])
    sweep: Filter = Field(default=None, examples=["ghost-vram"])
    limit: int = Field(default=200, ge=1, le=1000, description="Nodes of a page.")


class FleetPageQuery(Given):
    """Which part of the fleet a page shows; a field of its form that was left empty asks for nothing."""

    pool: Filter = None
    sweep: Filter = None
    cursor: Filter = None


class AuditQuery(Paged):
    """Which audit events."""

    run_id: Filter = None
    node: Filter = Field(default=None, examples=["gpu-01"])
    person: Filter = None
    action: Filter = Field(default=None, examples=["gate.approved"])
    since: Moment | None = Field(default=None, description=_SINCE)
    until: Moment | None = Field(default=None, description=_UNTIL)


class TimelineQuery(Paged):
    """Which timeline, and how it is written."""

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    run_id: Id | None = Field(default=None, description="Of this run.", examples=[RUN_ID])
    node: NodeName | None = Field(default=None, description="Or of this node.", examples=["gpu-01"])
    since: Moment | None = Field(default=None, description=f"{_SINCE} Of a node only.")
    until: Moment | None = Field(default=None, description=f"{_UNTIL} Of a node only.")
    written: TimelineFormat = Field(default=TimelineFormat.JSON, alias="format")
    limit: int = Field(default=500, ge=1, le=1000, description="Rows of a page; JSON of a run only.")


class OutputQuery(Given):
    """Which bytes of an output."""

    stream: Stream | Literal["all"] = Field(default="all", description="`all` is stdout, then stderr.")
    offset: int = Field(default=0, ge=0, le=2**31, description="Bytes to leave out, to follow a live stream.")
