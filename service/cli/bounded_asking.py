"""Asks a server that may be anything: an answer that never ends fills no memory, and nobody waits for its end."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import httpx

from service.domain.bounded_bytes import whole

#: More than any answer of the service that is asked for here (bytes, unpacked).
MOST_BYTES: Final = 4 * 1024 * 1024
#: For one answer with its body (seconds).
WHOLE: Final = 30.0
#: What says of a body how it was packed, and is not true of the unpacked one.
_OF_THE_PACKED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class Asking:
    """Speaks to one server. No redirect is followed, so that nothing is sent to another host than was named."""

    def __init__(self, url: str, *, local: bool) -> None:
        """Ask at this address; without a proxy of the surroundings where it is this machine."""
        timeout = httpx.Timeout(20.0, connect=5.0)
        self._http = httpx.Client(base_url=url, timeout=timeout, trust_env=not local, follow_redirects=False)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._http.close()

    def get(
        self, path: str, *, params: Mapping[str, int] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Return an answer with its body; httpx.RequestError also where it has no end or cannot be unpacked."""
        return self._ask(self._http.build_request("GET", path, params=params, headers=headers))

    def post(self, path: str, *, data: Mapping[str, str], headers: Mapping[str, str]) -> httpx.Response:
        """Send a form; as `get`."""
        return self._ask(self._http.build_request("POST", path, data=data, headers=headers))

    def forget_cookies(self) -> None:
        """Send no cookie any more that was set until now."""
        self._http.cookies.clear()

    def _ask(self, request: httpx.Request) -> httpx.Response:
        ends = time.monotonic() + WHOLE
        answer = self._http.send(request, stream=True)
        try:
            body = whole(answer.iter_bytes(), most=MOST_BYTES, late=lambda: time.monotonic() > ends)
            if body is None:
                raise httpx.RemoteProtocolError(f"{request.url.path} answers without an end", request=request)
        finally:
            answer.close()
        kept = [pair for pair in answer.headers.multi_items() if pair[0] not in _OF_THE_PACKED]
        told = httpx.Response(answer.status_code, headers=kept, content=body, request=request)
        told.elapsed = answer.elapsed
        return told
