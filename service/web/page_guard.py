"""Stands before the pages: who has signed in, and whether a form was sent from a page of ours.

It is to the pages what `auth.Authentication` and `limits.BodyLimits` are to the API. A token opens no page, and a
session opens nothing else.
"""

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.app.service import Service
from service.app.sessions import vouched_anew
from service.domain.errors import ConfigInvalid, Forbidden, InvalidInput, Unauthenticated, UnstickError
from service.domain.login import Identity
from service.web import errors
from service.web.limits import CLOSE, read_body, replay
from service.web.page_paths import DOORS, SIGN_IN, is_page, wants_page
from service.web.proxied import identity_of
from service.web.schemas.problem import Problem
from service.web.sessions import Visit, visit_of

MOST_BYTES: Final = 64 * 1024
#: The field that each form carries.
FIELD: Final = "form_token"
_MOST_FIELDS: Final = 20
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN: Final = Forbidden(
    "This form was not sent from a page of this session.", "Open the page again and answer there."
)
_log = structlog.get_logger(__name__)


class PageGuard:
    """Lets to the pages who has signed in, and to what changes something only their own forms."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        """Stand before the pages of this application."""
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find out who asks, read the form, and hand both on; or refuse."""
        if scope["type"] != "http" or not is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            scope["unstick.visit"] = await run_in_threadpool(self._visit, scope)
            if scope["method"] not in _SAFE:
                form = await _form(scope, receive)
                if isinstance(form, Problem):
                    await errors.answer(form, headers=CLOSE, scope=scope)(scope, receive, send)
                    return
                scope["unstick.form"] = form
                # It may have come slowly: who was signed out meanwhile decides nothing with it.
                scope["unstick.visit"] = await run_in_threadpool(self._visit, scope)
                receive = replay(b"", receive)
        except Unauthenticated as error:
            await _unknown(scope, error)(scope, receive, send)
        except UnstickError as error:
            await errors.answer(errors.problem_of(error), scope=scope)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _visit(self, scope: Scope) -> Visit | None:
        """Return who asks, None at the door for whoever has not signed in; Unauthenticated elsewhere."""
        try:
            identity = scope["unstick.identity"] = self._identity(scope)
            visit = visit_of(self._service, Headers(scope=scope))
            return replace(visit, session=vouched_anew(self._service, visit.session, identity))
        except Unauthenticated:
            if scope["path"] in DOORS:
                return None
            raise

    def _identity(self, scope: Scope) -> Identity | None:
        """Return for whom the proxy vouches; None when it cannot be believed, which the door tells."""
        try:
            return identity_of(self._service, scope)
        except ConfigInvalid as error:
            _log.error("proxy.unusable", reason=error.reason, way_out=error.way_out)
            scope["unstick.proxy_fault"] = "The proxy before this service cannot be believed; the log says why."
        except Unauthenticated as error:
            scope["unstick.proxy_fault"] = str(error)
        return None


async def _form(scope: Scope, receive: Receive) -> Mapping[str, str] | Problem:
    """Return the fields of a form that was sent from a page of ours; Forbidden, InvalidInput."""
    headers = Headers(scope=scope)
    _insist_on_origin(headers)
    body = await read_body(headers, receive, most_bytes=MOST_BYTES)
    if isinstance(body, Problem):
        return body
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return errors.http_problem(415, "The body is not a form.", way_out="Open the page again and answer there.")
    form = _fields(body)
    given, visit = form.pop(FIELD, ""), scope["unstick.visit"]
    # At the door there is no session yet that a form could be bound to; where it came from was seen above.
    if (
        visit is not None
        and scope["path"] not in DOORS
        and not hmac.compare_digest(given.encode(), visit.form_token.encode())
    ):
        raise _FOREIGN
    return form


def _insist_on_origin(headers: Headers) -> None:
    """Raise Forbidden when a browser does not say that the form is of our own.

    Sec-Fetch-Site is the browser's own word (Fetch Metadata); one that does not send it sends Origin with each POST.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin", "")
    own = site == "same-origin" if site is not None else _host(origin) == headers.get("host", "").lower() != ""
    if not own:
        raise _FOREIGN


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise InvalidInput("The form cannot be read.", "Open the page again and answer there.") from error
    # A browser ends the lines of a text with CR LF (HTML, "multipart form data").
    form = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if len(form) != len(pairs):
        raise InvalidInput("A field of the form came twice.", "Open the page again and answer there.")
    return form


def _unknown(scope: Scope, error: Unauthenticated) -> ASGIApp:
    """Return the way to the door for who only looks; what was to be changed is not, and says so."""
    if scope["method"] in _SAFE and wants_page(scope):
        return RedirectResponse(f"{SIGN_IN}?next={quote(scope['path'])}", 303)
    told = Unauthenticated(f"{error.reason} Nothing was done.", error.way_out)
    return errors.answer(errors.problem_of(told), scope=scope)
