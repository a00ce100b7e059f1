"""Pause, resume, breakers: whether alerts may start anything."""

from typing import Annotated

from fastapi import APIRouter, Path

from service.app.pause_alerts import pause_alerts, reset_breaker, resume_alerts, standing
from service.web.auth import Pauses, Reads
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.common import RunbookName
from service.web.schemas.pause import JudgedAgain, PauseDetail, StandingDetail, WhyRequest

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["alerts"], responses=declared(401, 403, 422, 503)
)
BreakerName = Annotated[RunbookName, Path(description="The breaker.", examples=["blast-radius"])]


@router.get("/pause", summary="Show whether alerts may start runs")
def show_pause(service: Serving, _person: Reads) -> StandingDetail:
    """Show the pause, if one is on, and the breakers."""
    return StandingDetail.of(standing(service))


@router.post("/pause", summary="Pause", responses=declared_with_body(409))
def pause(service: Serving, person: Pauses, body: WhyRequest) -> PauseDetail:
    """Let no alert start anything until somebody resumes. Alerts are held; runs that were started go on."""
    return PauseDetail.model_validate(pause_alerts(service, person=person, reason=body.reason))


@router.post("/resume", summary="Resume", responses=declared_with_body(409))
def resume(service: Serving, person: Pauses, body: WhyRequest) -> JudgedAgain:
    """End the pause, whoever began it. What it held is judged again, if it still fires."""
    return JudgedAgain(judged_again=resume_alerts(service, person=person, reason=body.reason))


@router.post("/breakers/{breaker}/reset", summary="Reset a breaker", responses=declared_with_body(404, 409))
def reset(service: Serving, person: Pauses, breaker: BreakerName, body: WhyRequest) -> JudgedAgain:
    """Close a breaker that has latched, after a look at what went wrong; what it counts begins anew."""
    return JudgedAgain(judged_again=reset_breaker(service, breaker, person=person, reason=body.reason))
