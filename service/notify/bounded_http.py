"""Bounds what is read of a chat service's answer: one that never ends fills no memory and keeps no thread.

apprise's services call `requests.post` themselves, which reads a body to its end, and no option of theirs bounds it.
Each session of requests makes its adapters by the name `requests.sessions.HTTPAdapter`; the adapter here cuts a body
off, and only in a thread that has asked for it.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import requests.sessions
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

#: More than any chat service says of one message (bytes).
MOST_BYTES: Final = 1024 * 1024
_CHUNK: Final = 16 * 1024
_asked = threading.local()


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Let this thread read of each answer no more than a megabyte, and no longer than this."""
    _asked.seconds = seconds
    try:
        yield
    finally:
        _asked.seconds = None


class _BoundedAdapter(HTTPAdapter):
    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        """Return an answer. What is too long or too slow of its body is cut off: the status came before, and counts."""
        seconds = getattr(_asked, "seconds", None)
        given = dict(proxies) if proxies is not None else None
        if seconds is None or stream:
            return super().send(request, stream, timeout, verify, cert, given)
        answer = super().send(request, True, timeout, verify, cert, given)
        # Where requests itself keeps a body that was read. It reads one also of a redirect that is not followed.
        answer._content, answer._content_consumed = _body(answer.raw, seconds), True  # noqa: SLF001
        answer.close()
        return answer


def _body(raw: Any, seconds: float) -> bytes:
    until = time.monotonic() + seconds
    body = bytearray()
    try:
        while len(body) < MOST_BYTES and time.monotonic() < until:
            # What one packet brings, and not a full chunk: who trickles is left in time.
            some = raw.read1(_CHUNK, decode_content=True)
            if not some:
                break
            body += some
    except (HTTPError, OSError):
        # It has broken off, or is silent, after it had answered.
        pass
    return bytes(body[:MOST_BYTES])


vars(requests.sessions)["HTTPAdapter"] = _BoundedAdapter
