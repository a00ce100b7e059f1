"""Plans without a run: what would be sent."""

from fastapi import APIRouter

from service.app.request_run import prepare
from service.app.show_unconfined import show_unconfined
from service.web.auth import Reads
from service.web.errors import declared_with_body
from service.web.routes.common import API, Serving, operation_id
from service.web.routes.runs import run_request
from service.web.schemas.plan import PlanPreview
from service.web.schemas.run import RunRequestBody

#: Scripts are shown for so many nodes; they differ in the node's name and attributes only.
SHOWN_NODES = 20

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/plans",
    tags=["plans"],
    responses=declared_with_body(401, 403, 404, 409, 422, 503),
)


@router.post("", summary="Plan without a run")
def preview_plan(service: Serving, person: Reads, body: RunRequestBody) -> PlanPreview:
    """Render every script of a request, and record nothing. The body is that of `POST /runs`."""
    prepared = prepare(service, run_request(body, person=person.name))
    unconfined = show_unconfined(service, prepared.plan, nodes=prepared.plan.nodes[:SHOWN_NODES])
    return PlanPreview.of(prepared, shown=SHOWN_NODES, unconfined=unconfined)
