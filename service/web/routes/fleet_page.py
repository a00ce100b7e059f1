"""The page of the fleet: what sweeps have seen, the worst first."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from service.app.sweep_sheets import sheets
from service.web import rendering
from service.web.fleet_view import view_of
from service.web.page_needs import VisitReads
from service.web.page_paths import FLEET
from service.web.routes.common import Serving, operation_id
from service.web.schemas.query import FleetPageQuery

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False)
#: Nodes of each sweep where several are shown, and of one that was asked for alone.
_FEW: Final = 20
_MANY: Final = 100


@router.get(FLEET)
def show_fleet_page(service: Serving, visit: VisitReads, query: Annotated[FleetPageQuery, Query()]) -> Response:
    """Show of each sweep its sums and its nodes, the worst first; of a sweep that is asked for page by page."""
    names = [one.name for one in service.rules.current().sweeps]
    alone = query.sweep or (names[0] if len(names) == 1 else None)
    # A cursor is of one sweep, and says nothing of another.
    after = query.cursor if alone is not None else None
    found = sheets(service, pool=query.pool, sweep=alone, after=after, limit=_MANY if alone is not None else _FEW)
    now = service.clock.now()
    return rendering.page(
        "fleet",
        visit=visit,
        views=[view_of(one, now=now) for one in found],
        names=names,
        pools=sorted({pool for node in service.inventory.current().nodes.values() for pool in node.pools}),
        query=query,
        later=after is not None,
        now=now,
    )
