"""What an admin does about alerts from the page of gates: pause, resume, reset a breaker."""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from service.app.pause_alerts import pause_alerts, reset_breaker, resume_alerts
from service.web.page_needs import Form, VisitPauses, read_form
from service.web.page_paths import GATES
from service.web.routes.common import Serving, operation_id
from service.web.schemas.page_forms import ResetForm, WhyForm

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False, prefix="/alerting")


@router.post("/pause")
def pause_page(service: Serving, visit: VisitPauses, form: Form) -> Response:
    """Let no alert start anything until somebody resumes."""
    pause_alerts(service, person=visit.person, reason=read_form(WhyForm, form).reason)
    return RedirectResponse(GATES, HTTPStatus.SEE_OTHER)


@router.post("/resume")
def resume_page(service: Serving, visit: VisitPauses, form: Form) -> Response:
    """End the pause."""
    resume_alerts(service, person=visit.person, reason=read_form(WhyForm, form).reason)
    return RedirectResponse(GATES, HTTPStatus.SEE_OTHER)


@router.post("/reset")
def reset_page(service: Serving, visit: VisitPauses, form: Form) -> Response:
    """Close a breaker that has latched."""
    given = read_form(ResetForm, form)
    reset_breaker(service, given.breaker, person=visit.person, reason=given.reason)
    return RedirectResponse(GATES, HTTPStatus.SEE_OTHER)
