"""Sweeps, and the fleet as they see it."""

from datetime import datetime
from typing import Self

from pydantic import Field

from service.app.sweep_fleet import FleetRow, SweepShown
from service.domain.sweep import Finding, StepFinding
from service.web.schemas.common import RUN_ID, Given, Reason, Shown


class SweepDetail(Shown):
    """One sweep of rules.yaml, and how its schedule stands."""

    name: str
    runbook: str
    cron: str = Field(description="In UTC.", examples=["17 3 * * *"])
    jitter_seconds: float
    ends_within_seconds: float
    pool: str | None
    attributes: dict[str, str]
    nodes_at_once: int
    nodes: int = Field(description="Nodes that it means at this moment.")
    next_at: datetime | None = Field(description="null: the engine has not reckoned it yet.")
    last_at: datetime | None
    last_run_id: str | None
    missed: int = Field(description="Times that had gone by when it was last played.")
    skipped_at: datetime | None = Field(description="When a time was last skipped.")
    skipped: str = Field(description="Why.")

    @classmethod
    def of(cls, one: SweepShown) -> Self:
        """Return the sweep as it is shown."""
        sweep, state = one.sweep, one.state
        return cls(
            name=sweep.name,
            runbook=sweep.runbook,
            cron=sweep.schedule.text,
            jitter_seconds=sweep.jitter.total_seconds(),
            ends_within_seconds=sweep.ends_within.total_seconds(),
            pool=sweep.pool,
            attributes=dict(sweep.attributes),
            nodes_at_once=sweep.nodes_at_once,
            nodes=one.nodes,
            next_at=state.next_at if state is not None else None,
            last_at=state.last_at if state is not None else None,
            last_run_id=state.last_run_id if state is not None else None,
            missed=state.missed if state is not None else 0,
            skipped_at=state.skipped_at if state is not None else None,
            skipped=state.skipped if state is not None else "",
        )


class SweepRequest(Given):
    """Why a sweep is played now."""

    reason: Reason = ""


class SweepStarted(Shown):
    """The run of a sweep."""

    run_id: str = Field(examples=[RUN_ID])


class FleetStep(Shown):
    """What the newest look says of one step."""

    id: str
    title: str
    finding: Finding | None = Field(description="null: it was never asked.")
    reason: str
    since: datetime | None = Field(description="Since when it is found, without a look between that saw it fine.")


class FleetNode(Shown):
    """One node in the eyes of one sweep."""

    node: str
    pools: list[str]
    sweep: str
    runbook: str
    finding: Finding | None = Field(
        description="null: it was never looked at, or never at one of the steps. Only `fine` is healthy."
    )
    looked_at: datetime | None
    age_seconds: float | None = Field(description="How old this look is.")
    answered_at: datetime | None = Field(description="When every step that was asked was last answered.")
    run_id: str | None
    steps: list[FleetStep]

    @classmethod
    def of(cls, row: FleetRow, *, now: datetime) -> Self:
        """Return the row as it is shown."""
        look = row.look
        said = {one.step: one for one in look.steps} if look is not None else {}
        # A runbook may have lost a step since, or got one.
        titles = dict(row.titles) or {step: step for step in said}
        return cls(
            node=row.node,
            pools=list(row.pools),
            sweep=row.sweep,
            runbook=row.runbook,
            finding=row.finding,
            looked_at=look.looked_at if look is not None else None,
            age_seconds=(now - look.looked_at).total_seconds() if look is not None else None,
            answered_at=look.answered_at if look is not None else None,
            run_id=look.run_id if look is not None else None,
            steps=[
                _step(step, title, said=said.get(step), since=row.since.get(step)) for step, title in titles.items()
            ],
        )


def _step(step: str, title: str, *, said: StepFinding | None, since: datetime | None) -> FleetStep:
    finding = said.finding if said is not None else None
    return FleetStep(id=step, title=title, finding=finding, reason=said.reason if said is not None else "", since=since)
