"""Whether the service lives and can work, and its numbers."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.domain.errors import BrokenRule, UnstickError
from service.web.auth import Reads
from service.web.errors import declared
from service.web.metrics import Metrics
from service.web.routes.common import operation_id

router = APIRouter(generate_unique_id_function=operation_id, tags=["service"])
#: Returns why the service cannot work now, or None.
ReadinessCheck = Callable[[], str | None]


@router.get("/healthz", summary="Whether the process lives")
def show_health() -> dict[str, bool]:
    """Answer; nothing is looked at."""
    return {"alive": True}


@router.get("/readyz", summary="Whether it can work", responses={503: {"description": "Not now, and why."}})
def show_readiness(request: Request) -> JSONResponse:
    """Answer 200 when the store can be written and the engine lives, else 503 with the reasons."""
    reasons = [reason for check in request.app.state.readiness if (reason := _asked(check)) is not None]
    return JSONResponse({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


@router.get("/metrics", summary="Numbers for Prometheus", response_class=Response, responses=declared(401, 403, 503))
def show_metrics(request: Request, _person: Reads) -> Response:
    """Give requests, open node runs by state, and open gates. Prometheus needs a viewer's token (`authorization`)."""
    metrics = request.app.state.metrics
    if not isinstance(metrics, Metrics):
        raise BrokenRule("The application was made without metrics.")
    return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _asked(check: ReadinessCheck) -> str | None:
    try:
        return check()
    except UnstickError as error:
        return error.reason
