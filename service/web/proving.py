"""Reads a delivery and proves its sender, before anything else of it is looked at."""

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from service.app.know_sender import STRANGER, Sender, know_by_signature
from service.app.service import Service
from service.app.take_delivery import Sent, Taken
from service.domain.errors import BrokenRule, Unauthenticated, Unavailable
from service.domain.person import Permission
from service.web import errors
from service.web.auth import Declares
from service.web.intake import Intake
from service.web.limits import CLOSE, read_body
from service.web.schemas.problem import Problem
from service.web.taking import Share

#: Of a sender that is not known yet; no sender that signs sends more.
MOST_BYTES = 1024 * 1024
#: Of a sender that has shown its token: a storm of an Alertmanager has some 5,000 alerts in 4 MiB.
MOST_BYTES_WITH_TOKEN = 8 * 1024 * 1024
#: What a small delivery counts as, so that their number is bounded too.
_LEAST_SHARE = 64 * 1024
#: A body that took longer may have outlived the token that came before it (seconds).
AT_ONCE: Final = 0.1
#: Seconds; Alertmanager, PagerDuty and SNS come again after a 503 by themselves.
RETRY_AFTER = 5


@dataclass(frozen=True)
class Proven:
    """What a source has sent, and who takes it."""

    intake: Intake
    sent: Sent

    async def take(self) -> Taken:
        """Return what became of it, once it is on the record; RefusedError when it cannot be taken now."""
        try:
            return await self.intake.take(self.sent)
        except Unavailable as error:
            raise unavailable(error) from error


class RefusedError(Exception):
    """A delivery is answered with a problem and a header."""

    def __init__(self, problem: Problem, headers: Mapping[str, str]) -> None:
        """Take the whole answer."""
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = headers


class Proves(Declares):
    """What a route of deliveries declares: its sender has proven to be the source of the address."""

    def __init__(self) -> None:
        """Stand for the permission to deliver."""
        self.permission = Permission.DELIVER
        self.scheme_name = "sender"
        self.model = HTTPBearer(description="The token of a source of kind alertmanager; other kinds sign the body.")

    async def __call__(self, request: Request, source: str) -> AsyncIterator[Proven]:
        """Give the delivery of a known sender; Unauthenticated, in the same words whatever is wrong."""
        service, share, intake = _state(request)
        headers = _headers(request)
        known = await _by_token(intake, source, headers=headers)
        most = MOST_BYTES if known is None else MOST_BYTES_WITH_TOKEN
        size = max(_LEAST_SHARE, _announced(request, most))
        address = _address(request)
        holder = share.holder(address, source) if known is None else None
        if not share.take(size, holder):
            raise unavailable(Unavailable("Too many deliveries are being taken.", "Send it again later."))
        try:
            began = time.monotonic()
            body = await _body(request, most)
            if known is not None and time.monotonic() - began > AT_ONCE:
                known = await _by_token(intake, source, headers=headers)
            if known is None:
                known = await _by_signature(service, source, body, headers=headers)
                share.trust(address, source)
            yield Proven(intake, Sent(known, body, headers))
        finally:
            share.give_back(size, holder)


_PROVES: Final = Proves()
Delivers = Annotated[Proven, Depends(_PROVES)]


class ProvenRoute(APIRoute):
    """A route whose only argument is `Delivers` and that returns a response: declared as any other, called directly.

    To find out at each request which arguments a function has costs more than all that the web does with a delivery.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what FastAPI calls with a request."""
        prove, endpoint = asynccontextmanager(_PROVES), self.endpoint

        async def handle(request: Request) -> Response:
            async with prove(request, request.path_params["source"]) as proven:
                answer: Response = await endpoint(proven)
                return answer

        return handle


def unavailable(error: Unavailable) -> RefusedError:
    """Return the answer to a sender that should come again: never 429, which Alertmanager does not send again."""
    return RefusedError(errors.problem_of(error), {"Retry-After": str(RETRY_AFTER)})


def add_handlers(app: FastAPI) -> None:
    """Answer refused deliveries."""
    app.add_exception_handler(RefusedError, _refused)


def _state(request: Request) -> tuple[Service, Share, Intake]:
    state = request.app.state
    service, share, intake = state.service, state.share, state.intake
    if not isinstance(service, Service) or not isinstance(share, Share) or not isinstance(intake, Intake):
        raise BrokenRule("The application was made without a service.")
    return service, share, intake


async def _refused(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusedError):
        raise error
    return errors.answer(error.problem, headers=error.headers)


async def _body(request: Request, most: int) -> bytes:
    read = await read_body(request.headers, request.receive, most_bytes=most)
    if isinstance(read, Problem):
        raise RefusedError(read, CLOSE)
    return read


async def _by_token(intake: Intake, source: str, *, headers: Mapping[str, str]) -> Sender | None:
    try:
        return await intake.know(source, headers)
    except Unavailable as error:
        raise unavailable(error) from error


async def _by_signature(service: Service, source: str, body: bytes, *, headers: Mapping[str, str]) -> Sender:
    try:
        return await run_in_threadpool(know_by_signature, service, source, body, headers=headers)
    except Unauthenticated as error:
        raise STRANGER from error
    except Unavailable as error:
        raise unavailable(error) from error


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _announced(request: Request, most: int) -> int:
    """Return how large a body says it will be; one that does not say may be as large as any."""
    length = request.headers.get("content-length", "")
    return min(int(length), most) if length.isascii() and length.isdigit() and len(length) <= 15 else most


def _headers(request: Request) -> Mapping[str, str]:
    """Return the headers, those that came twice as one text: no signature is right with another beside it."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        found[name] = f"{found[name]},{value}" if name in found else value
    return found
