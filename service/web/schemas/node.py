"""Nodes and holds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from pydantic import ConfigDict, Field

from service.app.hold_node import Held
from service.domain.node import ExecutorKind, Inventory, Node, SourceKind, SourceState
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
    sources: list[str] = Field(description="The sources that vouch for it; empty: inventory.yaml names it.")
    stale: bool = Field(description="What its sources said is too old: nothing is planned on it.")
    hints: dict[str, str] = Field(description="What sources say of how it is. Proof of nothing.")
    hold: HoldDetail | None
    occupied_by: Occupied | None = Field(description="The acting run that has it; null: it is free.")

    @classmethod
    def of(cls, node: Node, *, stale: bool, holds: Mapping[str, Hold], holders: Mapping[str, NodeRun]) -> Self:
        """Return the node with its hold and its holder, if it has any."""
        hold, holder = holds.get(node.name), holders.get(node.name)
        return cls(
            name=node.name,
            executor=node.endpoint.executor,
            address=node.endpoint.address,
            pools=list(node.pools),
            controller=node.controller,
            attributes=dict(node.attributes),
            sources=list(node.sources),
            stale=stale,
            hints=dict(node.hints),
            hold=HoldDetail.model_validate(hold) if hold is not None else None,
            occupied_by=Occupied.model_validate(holder) if holder is not None else None,
        )


class SourceDetail(Shown):
    """How a source of nodes stands."""

    name: str
    kind: SourceKind
    answered_at: datetime | None = Field(description="When the last good answer was asked for; null: never.")
    age_seconds: float | None
    stale: bool = Field(description="Nothing is planned on nodes that it alone knows.")
    stale_after_seconds: float
    problem: str | None = Field(description="Why the last question brought no answer.")
    nodes: int

    @classmethod
    def of(cls, source: SourceState, *, now: datetime) -> Self:
        """Return the source as it stands now."""
        age = source.age(now)
        return cls(
            name=source.name,
            kind=source.kind,
            answered_at=source.answered_at,
            age_seconds=age.total_seconds() if age is not None else None,
            stale=source.stale(now),
            stale_after_seconds=source.stale_after.total_seconds(),
            problem=source.problem,
            nodes=source.nodes,
        )


class RefusedName(Shown):
    """A name that stands for no one machine."""

    name: str
    reason: str


class InventoryDetail(Shown):
    """Where nodes come from, and which names are not clear."""

    sources: list[SourceDetail]
    refused: list[RefusedName]
    problem: str | None = Field(
        description="Why inventory.yaml as it is now is not used, and the last good one is; null: it is used."
    )

    @classmethod
    def of(cls, inventory: Inventory, *, now: datetime) -> Self:
        """Return sources and refused names."""
        return cls(
            sources=[SourceDetail.of(source, now=now) for source in inventory.sources],
            refused=[RefusedName(name=name, reason=reason) for name, reason in inventory.refused.items()],
            problem=inventory.problem,
        )


class HoldRequest(Given):
    """Why nobody may touch a node, and until when."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "The vendor looks at it.", "until": "2099-12-01T08:00:00Z"}]}
    )

    reason: MustReason
    until: Moment | None = Field(default=None, description="Null: until it is released.")
    replace: bool = Field(default=False, description="Take the place of a hold that is there, whoever set it.")


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
    hold: HoldDetail = Field(description="The hold that has ended.")
