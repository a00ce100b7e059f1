"""The outermost layer: headers on every answer, HEAD, counting, and the end of what nobody expected."""

import time
from collections.abc import Mapping
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.app.service import Service
from service.web import errors
from service.web.limits import CLOSE
from service.web.metrics import Metrics

#: For everything that is not a page: nothing may be loaded, shown in a frame, or kept.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# As they are sent: every answer has them.
_RAW_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
_TWO_LENGTHS = errors.http_problem(
    400, "The request has both Content-Length and Transfer-Encoding.", way_out="Send one."
)
_log = structlog.get_logger(__name__)


class Edge:
    """Answers every request with the house's headers, and a defect with a problem that tells nothing."""

    def __init__(self, app: ASGIApp, *, service: Service, metrics: Metrics) -> None:
        """Stand around this application."""
        self._app = app
        self._service = service
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; what it raises ends here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        answered = _Answer(send, request_id=self._service.clock.new_id())
        scope["unstick.request_id"] = answered.request_id
        method = scope["method"]
        app = errors.answer(_TWO_LENGTHS, headers=CLOSE, scope=scope) if _has_two_lengths(scope) else self._app
        try:
            await app(scope, receive, answered)
        except Exception as error:
            # The web edge, one of the two places that catch everything: recorded here, and told without its inside.
            _log.exception("request failed", request_id=answered.request_id, method=method, path=scope["path"])
            if answered.status is not None:
                # The answer has begun; only a cut connection tells the client that it is not whole.
                raise ConnectionAbortedError from error
            problem = errors.internal_problem(answered.request_id)
            await errors.answer(problem, scope=scope)(scope, receive, answered)
        finally:
            self._metrics.count(
                method=method,
                route=_route(scope),
                status=answered.status or 0,
                seconds=time.perf_counter() - began,
            )


class HeadAsGet:
    """Answers HEAD as GET without the body (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before this application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask as GET, and leave the body out."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked: dict[str, Any] = {**scope, "method": "GET", "unstick.head": True}
        ended = False

        async def without_body(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(asked, receive, without_body)
        scope["route"] = asked.get("route")


class _Answer:
    """Sends an answer on, with the headers that it does not set itself."""

    def __init__(self, send: Send, *, request_id: str) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            set_already = {name.lower() for name, _ in message["headers"]}
            own = [pair for pair in _RAW_HEADERS if pair[0] not in set_already]
            message["headers"] = [*message["headers"], *own, (b"x-request-id", self.request_id.encode())]
        await self._send(message)


def _has_two_lengths(scope: Scope) -> bool:
    """Whether a request says in two ways where its body ends, so that a proxy may see another request in it.

    RFC 9112, 6.1 lets a server refuse it, and has it close the connection in any case; h11 does neither.
    """
    headers = Headers(scope=scope)
    return "content-length" in headers and "transfer-encoding" in headers


def _route(scope: Scope) -> str:
    """Return the template of the route that answered: what was asked for would be a label without bounds."""
    return getattr(scope.get("route"), "path", None) or "none"
