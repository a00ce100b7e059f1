"""Alerts and the deliveries that they came in: look, and play again."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from service.app import show_run
from service.app.alert_ports import AlertFilter
from service.app.replay_alert import replay_alert
from service.web.auth import Reads, Requests
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.common import Id, Listed
from service.web.schemas.delivery import AlertDetail, AlertListed, DeliveryDetail, Replay
from service.web.schemas.query import AlertsQuery
from service.web.schemas.run import RunDetail

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["alerts"], responses=declared(401, 403, 422, 503)
)
_AN_ID = "0198c3a2-6c2f-7a10-8b1d-2f6a9d0e4c77"
AlertId = Annotated[Id, Path(description="The alert.", examples=[f"{_AN_ID}-00000"])]
DeliveryId = Annotated[Id, Path(description="The delivery.", examples=[_AN_ID])]


@router.get("/alerts", summary="List alerts, newest first")
def list_alerts(service: Serving, _person: Reads, query: Annotated[AlertsQuery, Query()]) -> Listed[AlertListed]:
    """Show what monitors have said, and of each alert what was decided and why."""
    which = AlertFilter(query.node, query.verdict, query.source, query.delivery_id)
    page = service.store.read(lambda reader: reader.alerts(which, cursor=query.cursor, limit=query.limit))
    return Listed(items=[AlertListed.model_validate(one) for one in page.items], next_cursor=page.next_cursor)


@router.get("/alerts/{alert_id}", summary="Show an alert", responses=declared(404))
def show_alert(service: Serving, _person: Reads, alert_id: AlertId) -> AlertDetail:
    """Show an alert with its labels and annotations."""
    return AlertDetail.of(service.store.read(lambda reader: reader.alert(alert_id)))


@router.post(
    "/alerts/{alert_id}/replay",
    status_code=202,
    summary="Play an alert again, as a dry run",
    responses=declared_with_body(404, 409),
)
def replay_one_alert(
    service: Serving, person: Requests, alert_id: AlertId, response: Response, body: Replay | None = None
) -> RunDetail:
    """Look at the node as the rules of now would, and say what would be done. Nothing acts, and no rail is asked."""
    run = replay_alert(service, alert_id, person=person, reason=body.reason if body is not None else "")
    response.headers["Location"] = f"{API}/runs/{run.id}"
    return RunDetail.of(show_run.show_run(service, run.id))


@router.get("/deliveries/{delivery_id}", summary="Show a delivery", responses=declared(404))
def show_delivery(service: Serving, _person: Reads, delivery_id: DeliveryId) -> DeliveryDetail:
    """Show what a monitor has sent; `GET /api/v1/alerts?delivery_id=...` lists its alerts."""
    return DeliveryDetail.of(service.store.read(lambda reader: reader.delivery(delivery_id)))
