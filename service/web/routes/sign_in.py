"""Sign in to the pages with a token, and out again."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from service.app.sessions import REFUSED, close_session, open_session
from service.domain.errors import BrokenRule, Unauthenticated
from service.web import rendering
from service.web.failed_sign_ins import WINDOW, FailedSignIns
from service.web.page_needs import Form, VisitReads, read_form, visit_in
from service.web.page_paths import SIGN_IN, safe_next
from service.web.routes.common import Serving, operation_id
from service.web.schemas.page_forms import SignInForm
from service.web.sessions import give, secret_of, take

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False)
_log = structlog.get_logger(__name__)


@router.get(SIGN_IN)
def show_sign_in(request: Request, to: Annotated[str, Query(alias="next")] = "", out: str = "") -> Response:
    """Ask for a token, or lead on whoever has signed in."""
    if visit_in(request) is not None:
        return RedirectResponse(safe_next(to), 303)
    told = "You are signed out." if out else ""
    return rendering.page("sign_in", visit=None, to=safe_next(to), refused="", told=told)


@router.post(SIGN_IN)
def sign_in(service: Serving, request: Request, form: Form) -> Response:
    """Open a session for whoever shows a token that may read; lead on to where he wanted to go."""
    given = read_form(SignInForm, form)
    address, now = request.client.host if request.client else "", service.clock.now()
    failed = _failed(request)
    if not failed.may_try(address, now=now):
        seconds = int(WINDOW.total_seconds())
        refused = f"Too many tokens were tried from your address. Wait {seconds} seconds, then try once more."
        return _again(given, refused=refused, status=429, headers={"Retry-After": str(seconds)})
    try:
        opened = open_session(service, given.token, address=address, before=secret_of(request.headers))
    except Unauthenticated:
        failed.count(address, now=now)
        _log.warning("sign_in.refused", address=address)
        return _again(given, refused=str(REFUSED), status=401, headers={"WWW-Authenticate": 'Bearer realm="unstick"'})
    answer = RedirectResponse(safe_next(given.next), 303)
    give(answer, opened.secret)
    return answer


@router.post("/sign-out")
def sign_out(service: Serving, visit: VisitReads) -> Response:
    """End the session, here and wherever its cookie was copied to."""
    close_session(service, visit.session)
    answer = RedirectResponse(f"{SIGN_IN}?out=1", 303)
    take(answer)
    return answer


def _again(given: SignInForm, *, refused: str, status: int, headers: dict[str, str]) -> Response:
    answer = rendering.page("sign_in", visit=None, status=status, to=safe_next(given.next), refused=refused, told="")
    answer.headers.update(headers)
    return answer


def _failed(request: Request) -> FailedSignIns:
    failed = request.app.state.failed_sign_ins
    if not isinstance(failed, FailedSignIns):
        raise BrokenRule("The application was made without a bound on failures.")
    return failed
