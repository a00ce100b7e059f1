"""Where monitors deliver alerts: proven before it is read, kept before it is answered."""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import Response

from service.web import errors
from service.web.errors import declared
from service.web.proving import Delivers, ProvenRoute, RefusedError
from service.web.routes.common import API, operation_id
from service.web.schemas.delivery import Delivered

router = APIRouter(
    generate_unique_id_function=operation_id,
    route_class=ProvenRoute,
    prefix="/webhooks",
    tags=["alerts"],
    responses=declared(400, 401, 408, 413, 422, 503),
)


@router.post(
    "/{source}",
    status_code=202,
    response_model=Delivered,
    summary="Deliver alerts",
    responses={200: {"model": Delivered, "description": "It was taken before."}},
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {}}}, "required": True}},
)
async def deliver_alerts(proven: Delivers) -> Response:
    """Take what a monitor sends, in its own form; which one, `config/rules.yaml` says by the name of the source.

    202 means recorded: it is not lost any more, and is judged next. What is no fault is taken too. Nobody else than
    the source is let in: an Alertmanager shows its token, every other kind signs the raw bytes of the body.
    """
    taken = await proven.take()
    receipt = taken.receipt
    if taken.fault is not None:
        kept = f"{taken.fault.reason} It is kept as delivery {receipt.delivery_id}, and was not taken."
        raise RefusedError(errors.http_problem(400, kept, way_out=taken.fault.way_out), {})
    return Response(
        Delivered.of(taken).model_dump_json(),
        HTTPStatus.OK if receipt.repeated else HTTPStatus.ACCEPTED,
        {"Location": f"{API}/deliveries/{receipt.delivery_id}"},
        "application/json",
    )
