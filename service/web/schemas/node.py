"""Nodes and holds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from pydantic import ConfigDict, Field

from service.app.hold_node import Held
from service.domain.node import ExecutorKind, Node
from service.domain.run import Hold, NodeRun, NodeRunState
from service.web.schemas.common import Given, Moment, MustReason, Reason, Shown


class HoldDetail(Shown):
    """A person says hands off, until when and why."""

    by: str
    reason: str
    at: datetime
    until: datetime | None = Field(description="Null: until it is released.")


class Occupied(Shown):
    """Which run has a node to itself."""

    run_id: str
    runbook: str
    state: NodeRunState


class NodeDetail(Shown):
    """One machine of the inventory."""

    name: str
    executor: ExecutorKind
    address: str
    pools: list[str]
    controller: str | None
    attributes: dict[str, str]
    hold: HoldDetail | None
    occupied_by: Occupied | None = Field(description="The acting run that has it; null: it is free.")

    @classmethod
    def of(cls, node: Node, *, holds: Mapping[str, Hold], holders: Mapping[str, NodeRun]) -> Self:
        """Return the node with its hold and its holder, if it has any."""
        hold, holder = holds.get(node.name), holders.get(node.name)
        return cls(
            name=node.name,
            executor=node.endpoint.executor,
            address=node.endpoint.address,
            pools=list(node.pools),
            controller=node.controller,
            attributes=dict(node.attributes),
            hold=HoldDetail.model_validate(hold) if hold is not None else None,
            occupied_by=Occupied.model_validate(holder) if holder is not None else None,
        )


class HoldRequest(Given):
    """Why nobody may touch a node, and until when."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "The vendor looks at it.", "until": "2099-12-01T08:00:00Z"}]}
    )

    reason: MustReason
    until: Moment | None = Field(default=None, description="Null: until it is released.")


class HoldAnswer(Shown):
    """A hold, and what it has reached."""

    node: str
    hold: HoldDetail
    stopped_runs: list[str] = Field(description="Runs that end on this node without doing anything more.")
    running_runs: list[str] = Field(description="Runs that act at this moment, or are stuck: they go on.")

    @classmethod
    def of(cls, held: Held) -> Self:
        """Return the answer to a hold."""
        return cls(
            node=held.hold.node,
            hold=HoldDetail.model_validate(held.hold),
            stopped_runs=list(held.stopped_runs),
            running_runs=list(held.running_runs),
        )


class ReleaseRequest(Given):
    """Why a hold ends."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "It is back from the vendor."}]})

    reason: Reason = ""


class Released(Shown):
    """A node without a hold."""

    node: str
