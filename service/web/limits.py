"""What the body of a request may cost: its size, time and kind. uvicorn itself bounds neither."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.web import errors
from service.web.auth import is_webhook
from service.web.page_paths import is_page
from service.web.schemas.problem import Problem

MOST_BYTES = 256 * 1024
#: A body that comes slower than this is refused; `connections` ends what goes on sending then.
LONGEST_WAIT = timedelta(seconds=12)
#: What was not read cannot be told from a next request: this connection ends here.
CLOSE: Mapping[str, str] = {"Connection": "close"}
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class BodyLimits:
    """Reads a body whole before the application sees it: JSON, not too large, not too slow."""

    def __init__(self, app: ASGIApp, *, most_bytes: int = MOST_BYTES, longest_wait: timedelta = LONGEST_WAIT) -> None:
        """Bound the bodies that this application is given."""
        self._app = app
        self._most_bytes = most_bytes
        self._longest_wait = longest_wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 408, 413 or 415, or hand the body on."""
        # Deliveries and forms are read where their sender is proven.
        read_elsewhere = scope["type"] != "http" or is_webhook(scope) or is_page(scope["path"])
        if read_elsewhere or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        read = await read_body(headers, receive, most_bytes=self._most_bytes, longest_wait=self._longest_wait)
        if isinstance(read, Problem):
            await errors.answer(read, headers=CLOSE)(scope, receive, send)
            return
        if read and not _is_json(headers):
            await errors.answer(_NOT_JSON)(scope, receive, send)
            return
        await self._app(scope, replay(read, receive), send)


async def read_body(
    headers: Headers, receive: Receive, *, most_bytes: int = MOST_BYTES, longest_wait: timedelta = LONGEST_WAIT
) -> bytes | Problem:
    """Return the whole body, or why it is not read: 400, 408 or 413, to be answered with `CLOSE`.

    One whose Content-Length is too much is not begun.
    """
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 15:
        return errors.http_problem(400, "Content-Length is not a number.")
    if int(length) > most_bytes:
        return _too_large(most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(longest_wait.total_seconds()):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return errors.http_problem(400, "The connection ended before the body did.")
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    return _too_large(most_bytes)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return errors.http_problem(408, "The body did not arrive in time.", way_out="Send it again.")


def _too_large(most_bytes: int) -> Problem:
    return errors.http_problem(413, f"A body may have {most_bytes} bytes.", way_out="Send less at once.")


_NOT_JSON = errors.http_problem(415, "The body is not JSON.", way_out="Send `Content-Type: application/json`.")


def _is_json(headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json"


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body that was read, then what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
