"""Sign in to the pages with a token, or as the proxy says, and out again."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from service.app.service import Service
from service.app.sessions import REFUSED, close_session, open_identity, open_session
from service.domain.errors import Unauthenticated
from service.domain.login import Identity
from service.web.door import address_of, door, failed_in, identity_in
from service.web.failed_sign_ins import WINDOW
from service.web.kept_refusal import Refusal, drop_refusal, kept_refusal
from service.web.page_needs import Form, VisitReads, read_form, visit_in
from service.web.page_paths import SIGN_IN, safe_next
from service.web.routes.common import Serving, operation_id
from service.web.schemas.page_forms import SignInForm
from service.web.sessions import give, secret_of, take

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False)
_log = structlog.get_logger(__name__)
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="unstick"'}


@router.get(SIGN_IN)
def show_sign_in(
    service: Serving, request: Request, to: Annotated[str, Query(alias="next")] = "", out: str = ""
) -> Response:
    """Ask who it is, or lead on whoever has signed in here, or at the proxy.

    Whoever has just signed out is not signed in again by the proxy before he has said so.
    """
    refusal = kept_refusal(request.headers)
    if refusal is not None:
        return _show_refusal(service, request, refusal)
    if visit_in(request) is not None:
        return RedirectResponse(safe_next(to), 303)
    identity = identity_in(request)
    if identity is not None and not out and not request.scope.get("unstick.head"):
        return _let_in(service, request, identity, to=to)
    return door(service, request, to=to, out=out)


@router.post(SIGN_IN)
def sign_in(service: Serving, request: Request, form: Form) -> Response:
    """Open a session for whoever shows a token that may read; lead on to where he wanted to go."""
    given = read_form(SignInForm, form)
    address, now, failed = address_of(request), service.clock.now(), failed_in(request)
    if not failed.may_try(address, now=now):
        seconds = int(WINDOW.total_seconds())
        refused = f"Too many tokens were tried from your address. Wait {seconds} seconds, then try once more."
        again = {"Retry-After": str(seconds)}
        return door(service, request, to=given.next, refused=refused, status=429, headers=again)
    try:
        opened = open_session(service, given.token, address=address, before=secret_of(request.headers))
    except Unauthenticated:
        failed.count(address, now=now)
        _log.warning("sign_in.refused", address=address)
        return door(service, request, to=given.next, refused=str(REFUSED), status=401, headers=_CHALLENGE)
    answer = RedirectResponse(safe_next(given.next), 303)
    give(answer, opened.secret)
    return answer


@router.post("/sign-out")
def sign_out(service: Serving, visit: VisitReads) -> Response:
    """End the session, here and wherever its cookie was copied to."""
    close_session(service, visit.session)
    known = visit.session.known
    answer = RedirectResponse(f"{SIGN_IN}?out={known.by if isinstance(known, Identity) else 1}", 303)
    take(answer)
    return answer


def _show_refusal(service: Service, request: Request, refusal: Refusal) -> Response:
    """Show why a provider's answer signed nobody in, once."""
    headers = _CHALLENGE if refusal.status == 401 else {}
    answer = door(service, request, to="", refused=refusal.words, status=refusal.status, headers=headers)
    drop_refusal(answer)
    return answer


def _let_in(service: Service, request: Request, identity: Identity, *, to: str) -> Response:
    """Open a session for whom the proxy vouches: its forms are then bound to it like those of any other."""
    address = address_of(request)
    try:
        opened = open_identity(service, identity, address=address, before=secret_of(request.headers))
    except Unauthenticated as error:
        _log.warning("sign_in.refused", address=address, reason=error.reason)
        return door(service, request, to=to, refused=str(error), status=401, headers=_CHALLENGE)
    answer = RedirectResponse(safe_next(to), 303)
    give(answer, opened.secret)
    return answer
