"""Every refusal as problem+json (RFC 9457), or as a page: what is wrong, and what to do next.

Never a traceback, never an input.
"""

import inspect
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Scope

from service.domain.errors import BrokenRule, Unauthenticated, UnstickError
from service.web import rendering
from service.web.page_paths import wants_page
from service.web.schemas.common import SAFE, UNSAFE
from service.web.schemas.problem import Fault, Problem

MEDIA_TYPE = "application/problem+json"
Responses = dict[int | str, dict[str, Any]]
#: One answer to everybody who is not known, whatever the cause.
UNKNOWN = Unauthenticated(
    "A valid token is needed.", "Send `Authorization: Bearer TOKEN`; `unstick token create` makes one."
)
_WAYS_OUT = {
    400: "Send JSON.",
    404: "/docs lists every address.",
    405: "The header Allow lists the methods.",
}
#: What HTTP itself refuses. Python's own phrases differ from version to version.
_CODES = {
    400: ("bad_request", "The request cannot be read."),
    404: ("not_found", "There is no such thing."),
    405: ("method_not_allowed", "The address has other methods."),
    408: ("too_slow", "The request came too slowly."),
    413: ("too_large", "The request is too large."),
    415: ("not_json", "The request is not JSON."),
    429: ("too_many", "Too much was asked at once."),
    422: ("invalid_input", "The text that was given cannot be understood."),
}
_MOST_FAULTS = 20


class ProblemResponse(JSONResponse):
    """A problem as an answer."""

    media_type = MEDIA_TYPE


def declared(*statuses: int) -> Responses:
    """Return what a route declares of its refusals, for the OpenAPI document."""
    return {status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in sorted(statuses)}


def declared_with_body(*statuses: int) -> Responses:
    """Return the same for a route that takes a body."""
    return declared(*statuses, 400, 408, 413, 415)


def problem_of(error: UnstickError) -> Problem:
    """Return an error of the service as a problem; what only a developer should read is left out."""
    title = inspect.getdoc(type(error)) or type(error).__name__
    if isinstance(error, BrokenRule):
        return internal_problem(None)
    return Problem(
        type=f"urn:unstick:problem:{error.code}",
        title=title.splitlines()[0],
        status=error.status,
        detail=error.reason,
        way_out=error.way_out,
        code=error.code,
    )


def internal_problem(request_id: str | None) -> Problem:
    """Return the problem of a defect: it says where to look, and nothing of what is inside."""
    return Problem(
        type="urn:unstick:problem:internal",
        title="The service has failed.",
        status=500,
        detail="Something inside the service went wrong; what was asked may not have been done.",
        way_out="Look at what is recorded (GET /api/v1/runs, `unstick runs`), then ask again. "
        "The log of the service has the cause under the request id.",
        code="internal",
        request_id=request_id,
    )


def http_problem(status: int, detail: str, *, way_out: str = "", errors: Sequence[Fault] = ()) -> Problem:
    """Return the problem of a request that HTTP itself refuses."""
    code, title = _CODES.get(status, ("refused", "The request is refused."))
    return Problem(
        type=f"urn:unstick:problem:{code}",
        title=title,
        status=status,
        detail=detail,
        way_out=way_out,
        code=code,
        errors=list(errors),
    )


def answer(problem: Problem, *, headers: Mapping[str, str] | None = None, scope: Scope | None = None) -> Response:
    """Return a problem as a response: as a page for a browser at a page's address."""
    more = {"WWW-Authenticate": 'Bearer realm="unstick"'} if problem.status == HTTPStatus.UNAUTHORIZED else {}
    if scope is not None and wants_page(scope):
        refusal = rendering.refusal(problem, scope)
        refusal.headers.update({**(headers or {}), **more})
        return refusal
    body = problem.model_dump(mode="json", exclude_defaults=True)
    return ProblemResponse(body, problem.status, headers={**(headers or {}), **more})


def add_handlers(app: FastAPI) -> None:
    """Answer expected errors; the unexpected ones end in `edge.Edge`."""
    app.add_exception_handler(UnstickError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, UnstickError) or isinstance(error, BrokenRule):
        raise error
    return answer(problem_of(error), scope=request.scope)


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    faults = [_fault(one) for one in error.errors()[:_MOST_FAULTS]]
    detail = "; ".join(f"{fault.where}: {fault.reason.removesuffix('.')}" for fault in faults[:3])
    more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
    problem = http_problem(422, f"{detail}{more}.", way_out="/docs shows what is expected.", errors=faults)
    return answer(problem, scope=request.scope)


async def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = {"Allow": ", ".join(_methods(request))}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        problem = http_problem(405, f"{request.method} is not possible here.", way_out=_WAYS_OUT[405])
        return answer(problem, headers=allow, scope=request.scope)
    detail = {400: "The body cannot be read as JSON.", 404: "There is nothing at this address."}.get(
        error.status_code, HTTPStatus(error.status_code).phrase
    )
    problem = http_problem(error.status_code, detail, way_out=_WAYS_OUT.get(error.status_code, ""))
    return answer(problem, scope=request.scope)


def _methods(request: Request) -> list[str]:
    """Return every method that some route has at this path; Starlette knows only the first route's."""
    path = request.scope["path"]
    here = [route for route in request.app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]
    # An address that stands there as it is hides those with a variable in its place.
    exact = [route for route in here if route.path == path]
    found = {"OPTIONS"}.union(*(route.methods or () for route in exact or here))
    if "GET" in found:
        found.add("HEAD")
    return sorted(found)


def _fault(error: Mapping[str, Any]) -> Fault:
    """Return one finding of pydantic, without the value: it may be anything, and long."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return Fault(where=_printable(where), reason="There is no such field.")
    if error["type"] == "json_invalid":
        return Fault(where="body", reason=f"It is not JSON: {error.get('ctx', {}).get('error', '')}")
    if error["type"] == "string_pattern_mismatch" and error.get("ctx", {}).get("pattern") == SAFE:
        return Fault(where=_printable(where), reason=UNSAFE)
    return Fault(where=_printable(where), reason=_printable(str(error["msg"]).removeprefix("Value error, ")))


def _printable(text: str) -> str:
    """Return a text without what a terminal or an encoder would stumble over, cut when it is long."""
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text[:300])
    return shown + ("..." if len(text) > 300 else "")
