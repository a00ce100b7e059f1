"""Sweeps and the fleet: what is looked at on a schedule, and what was seen."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from service.app.sweep_fleet import fleet, list_sweeps
from service.app.sweep_request import run_sweep
from service.web.auth import Reads, Requests
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.common import Listed, RunbookName
from service.web.schemas.query import FleetQuery
from service.web.schemas.sweep import FleetNode, SweepDetail, SweepRequest, SweepStarted

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["sweeps"], responses=declared(401, 403, 422, 503)
)
SweepName = Annotated[RunbookName, Path(description="The sweep.", examples=["ghost-vram"])]


@router.get("/sweeps", summary="List sweeps")
def list_all_sweeps(service: Serving, _person: Reads) -> Listed[SweepDetail]:
    """Show every sweep of `rules.yaml`, in its order: when it is played next, and how the last time went."""
    return Listed(items=[SweepDetail.of(one) for one in list_sweeps(service)])


@router.post("/sweeps/{sweep}/run", status_code=202, summary="Play a sweep now", responses=declared_with_body(404, 409))
def run_one_sweep(
    service: Serving, person: Requests, sweep: SweepName, response: Response, body: SweepRequest | None = None
) -> SweepStarted:
    """Look at its nodes now, beside its schedule. Nothing acts; what it finds goes the way of every alert.

    Who asks counts as requester of what a rule starts for it. 409 while an earlier run of this sweep is open.
    """
    run = run_sweep(service, sweep, person=person, reason=body.reason if body is not None else "")
    response.headers["Location"] = f"{API}/runs/{run.id}"
    return SweepStarted(run_id=run.id)


@router.get("/fleet", summary="Show what sweeps have seen, by node", responses=declared(404))
def show_fleet(service: Serving, _person: Reads, query: Annotated[FleetQuery, Query()]) -> Listed[FleetNode]:
    """Show of each node and sweep the newest look, and each node that was never looked at."""
    rows, more = fleet(service, pool=query.pool, sweep=query.sweep, after=query.cursor, limit=query.limit)
    now = service.clock.now()
    return Listed(items=[FleetNode.of(row, now=now) for row in rows], next_cursor=more)
