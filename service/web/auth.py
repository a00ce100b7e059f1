"""Who asks, and whether he may. Everything is refused but what stands here as open; there is no way to turn it off."""

import re
from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import HTTPBearer
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.app.service import Service
from service.app.tokens import authenticate
from service.domain.errors import BrokenRule, Forbidden, Unauthenticated, UnstickError
from service.domain.person import Permission, Person, roles_that_may, way_to_role
from service.web import errors
from service.web.page_paths import DOORS, is_page

#: What anybody may read: whether the service lives, and how it is spoken to.
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", *DOORS})
OPEN_FOLDER = "/static/"
#: Where senders of alerts deliver. They prove themselves by what they send, which the route's declaration sees to.
_WEBHOOK = re.compile(r"/webhooks/[^/]+")
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
#: Longer than any token that we make.
_LONGEST_TOKEN = 200


class Authentication:
    """Knows the person before anything else of a request is looked at, its body and its address included."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        """Guard this application with the tokens of this service."""
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let known persons through, and everybody to what is open."""
        # At the pages it is `page_guard.PageGuard` that knows who asks: a token opens none of them.
        if scope["type"] != "http" or is_open(scope["path"]) or is_webhook(scope) or is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        refusal = await _identified(self._service, scope)
        await (refusal or self._app)(scope, receive, send)


class StillKnown:
    """Asks once more when the body is there: it may come slowly, and a token may be revoked meanwhile."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        """Stand behind whatever reads the body."""
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through whose token is still good."""
        if scope["type"] == "http" and "unstick.person" in scope and scope["method"] not in _WITHOUT_BODY:
            refusal = await _identified(self._service, scope)
            await (refusal or self._app)(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Declares(SecurityBase):
    """Who may use a route, as it is declared: without one it is not served."""

    permission: Permission


class Needs(Declares):
    """The permission that a person must have."""

    def __init__(self, permission: Permission) -> None:
        """Ask for this permission."""
        self.permission = permission
        self.scheme_name = "token"
        self.model = HTTPBearer(description="A token that `unstick token create` has printed.")

    async def __call__(self, request: Request) -> Person:
        """Return the person; Forbidden when he lacks the permission."""
        person = request.scope.get("unstick.person")
        if not isinstance(person, Person):
            raise errors.UNKNOWN
        insist_on(person, self.permission)
        return person


Reads = Annotated[Person, Depends(Needs(Permission.READ))]
Requests = Annotated[Person, Depends(Needs(Permission.REQUEST))]
Cancels = Annotated[Person, Depends(Needs(Permission.CANCEL))]
Resolves = Annotated[Person, Depends(Needs(Permission.RESOLVE))]
Holds = Annotated[Person, Depends(Needs(Permission.HOLD))]
Overrides = Annotated[Person, Depends(Needs(Permission.OVERRIDE))]
Pauses = Annotated[Person, Depends(Needs(Permission.PAUSE))]


def identify(service: Service, headers: Headers) -> Person:
    """Return the person whose token came along; Unauthenticated."""
    return authenticate(service, token_in(headers))


def token_in(headers: Headers) -> str:
    """Return the token that came along, whatever it is worth; Unauthenticated without one that could be ours."""
    given = headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    token = token.strip()
    if scheme.lower() != "bearer" or not token.isascii() or not 0 < len(token) <= _LONGEST_TOKEN:
        raise errors.UNKNOWN
    return token


async def _identified(service: Service, scope: Scope) -> ASGIApp | None:
    """Write down in the scope whose token came along; return the refusal of whoever is not known."""
    try:
        scope["unstick.person"] = await run_in_threadpool(identify, service, Headers(scope=scope))
    except Unauthenticated:
        return errors.answer(errors.problem_of(errors.UNKNOWN))
    except UnstickError as error:
        return errors.answer(errors.problem_of(error))
    return None


def insist_on(person: Person, permission: Permission) -> None:
    """Raise Forbidden when a person lacks a permission."""
    if not person.may(permission):
        raise Forbidden(
            f"{person.with_roles}, which may not {permission}.",
            way_to_role(person, *roles_that_may(permission)),
        )


def is_webhook(scope: Scope) -> bool:
    """Whether a request delivers alerts: its sender shows no person's token."""
    return bool(scope["method"] == "POST" and _WEBHOOK.fullmatch(scope["path"]))


def is_open(path: str) -> bool:
    """Whether anybody may read this."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def permissions(route: APIRoute) -> frozenset[Permission]:
    """Return the permissions that a route declares."""
    return frozenset(_declared(route.dependant))


def refuse_undeclared(routes: Iterable[BaseRoute]) -> None:
    """Raise BrokenRule for a route that is neither open nor says which permission it needs."""
    for route in routes:
        path = getattr(route, "path", "")
        declares = isinstance(route, APIRoute) and len(permissions(route)) == 1
        harmless = isinstance(route, Route | Mount) and is_open(path if isinstance(route, Route) else f"{path}/")
        if not (declares or harmless):
            raise BrokenRule(f"The route {path} declares no permission.")


def _declared(dependant: Dependant) -> Iterable[Permission]:
    call: object = dependant.call
    if isinstance(call, Declares):
        yield call.permission
    for inner in dependant.dependencies:
        yield from _declared(inner)
