"""What a connection may cost: uvicorn itself waits for ever for a header, a body, and a client that reads nothing.

Measured of uvicorn 0.54: a half-sent header, a silent connection and an unread answer are each kept without an end.
A proxy in front would bound them too; this holds without one.
"""

import asyncio
import enum
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from service.web.places import place_of

#: After it was told to stop, a server lets requests go on for so long (seconds).
_REQUEST_GRACE: Final = 5
#: Files that are left for nodes, the database and scripts, of those that a process may open.
_OTHER_FILES: Final = 400
_TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\nX-Content-Type-Options: nosniff\r\n\r\n"
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 5\r\n"
    b"X-Content-Type-Options: nosniff\r\n\r\n"
)


class Phase(enum.Enum):
    """What a connection waits for."""

    #: The client sends nothing, or not yet a whole header.
    HEADER = "header"
    BODY = "body"
    #: We answer. Streams of events stay here for as long as they are read.
    ANSWER = "answer"
    #: The client does not read what we have sent.
    UNREAD = "unread"
    #: It is closed, but for what the client has not read.
    CLOSING = "closing"


@dataclass(frozen=True)
class Bounds:
    """How long each phase may last (seconds), and how many connections there may be."""

    seconds: Mapping[Phase, float] = field(
        # With the last look a header has come within 10 seconds and a body within 15.
        default_factory=lambda: {Phase.HEADER: 9.0, Phase.BODY: 14.0, Phase.UNREAD: 30.0, Phase.CLOSING: 10.0}
    )
    #: How often a connection is looked at.
    tick: float = 1.0
    most: int = 1000
    #: From one place; through a proxy on this machine all come from one, so of loopback there may be `most`.
    most_of_one: int = 200


def default_bounds() -> Bounds:
    """Return the bounds of a service: no more connections than this process may open files, with some to spare."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    usual = Bounds()
    if soft == resource.RLIM_INFINITY:
        return usual
    most = max(50, min(usual.most, soft - _OTHER_FILES))
    return Bounds(most=most, most_of_one=min(usual.most_of_one, most // 2))


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, with an end to all waiting for the client.

    When there are too many connections the one goes that has waited longest for a request, so that idle ones keep
    nobody out; while none of them is idle a new one gets 503.
    """

    bounds = default_bounds()

    def __init__(self, *given: Any, **named: Any) -> None:
        """Begin as uvicorn does."""
        super().__init__(*given, **named)
        self._seen: tuple[Phase, RequestResponseCycle | None, int] = (Phase.HEADER, None, 0)
        self._resumed = 0
        self._since = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        #: What counts as one address, so that nobody has many connections by having many addresses.
        self.place = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection if there is room, or if room can be made."""
        super().connection_made(transport)
        self.place = place_of(self.address)
        self._since = self.loop.time()
        self._ticker = self.loop.call_later(self.bounds.tick, self._tick)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._ticker is not None:
            self._ticker.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, and note when the next phase begins."""
        super().data_received(data)
        self._note()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._resumed += 1
        super().resume_writing()

    @property
    def idle_since(self) -> float | None:
        """Return since when (time of the loop) no request is under way; None while one is."""
        return self._since if self._phase() is Phase.HEADER else None

    @property
    def address(self) -> str:
        """Return where the client is, as its socket says."""
        return self.client[0] if self.client else ""

    def give_up(self, said: bytes = b"") -> None:
        """End the connection, with a last answer when none has begun."""
        if said and not self.transport.is_closing() and self.conn.our_state is h11.IDLE:
            self.transport.write(said)
            self.transport.close()
        else:
            self.transport.abort()

    def _tick(self) -> None:
        self._note()
        phase = self._seen[0]
        bound = self.bounds.seconds.get(phase)
        if bound is not None and self.loop.time() - self._since >= bound:
            self.give_up(_TOO_SLOW if phase is Phase.HEADER and self.conn.trailing_data[0] else b"")
        self._ticker = self.loop.call_later(self.bounds.tick, self._tick)

    def _note(self) -> None:
        """Note a new phase. The next request and the next reading are a new one too, dripping bytes are none."""
        seen = (self._phase(), self.cycle, self._resumed)
        if seen != self._seen:
            self._seen, self._since = seen, self.loop.time()

    def _phase(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.UNREAD
        if self.conn.their_state is h11.IDLE:
            return Phase.HEADER
        # While we do not read, it is not the client that is slow.
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return Phase.BODY
        return Phase.ANSWER

    def _make_room(self) -> None:
        here = [one for one in self.connections if isinstance(one, BoundedProtocol)]
        mine = [one for one in here if one.place == self.place]
        most_of_one = self.bounds.most if _is_loopback(self.address) else self.bounds.most_of_one
        if len(mine) > most_of_one:
            self._end_idle_one(mine)
        elif len(here) > self.bounds.most:
            self._end_idle_one(here)

    def _end_idle_one(self, some: list["BoundedProtocol"]) -> None:
        idle = [(since, one) for one in some if one is not self and (since := one.idle_since) is not None]
        if idle:
            min(idle, key=lambda each: each[0])[1].give_up()
        else:
            self.give_up(_FULL)


def bounded_server(app: ASGIApp, bounds: Bounds | None = None) -> uvicorn.Server:
    """Return what serves an application within these bounds, or within those of a service."""
    given = {} if bounds is None else {"bounds": bounds}
    config = uvicorn.Config(
        app,
        http=type("Bounded", (BoundedProtocol,), given),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # `forwarded.Forwarded` believes proxies; that uvicorn believes nobody leaves the socket's address to be seen.
        proxy_headers=False,
        timeout_graceful_shutdown=_REQUEST_GRACE,
    )
    return uvicorn.Server(config)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
