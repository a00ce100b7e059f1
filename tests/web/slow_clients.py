"""A small application behind the connections of the service, and clients that are slow on purpose."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from service.web.connections import Bounds, bounded_server

#: Seconds; it only stops a hang.
PATIENCE = 60.0
#: More than the buffers of both ends hold, so that the end of it waits for a reader.
LARGE = 64 * 1024 * 1024
GET = b"GET /small HTTP/1.1\r\nHost: unstick.test\r\n\r\n"


@dataclass
class Served:
    """A server on loopback."""

    address: tuple[str, int]
    #: Paths whose answer has ended, whole or not.
    ended: list[str]

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        """Open a connection; `buffer` bounds what this end holds unread."""
        made = socket.socket()
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.settimeout(PATIENCE)
        made.connect(self.address)
        return made

    def get(self) -> int:
        """Ask as a healthy client does, and return the status."""
        with self.connect() as healthy:
            healthy.sendall(GET)
            return status(healthy)


def status(client: socket.socket) -> int:
    """Return the status of an answer; 0 when the connection ended without one."""
    try:
        head = client.recv(4096)
    except ConnectionError:
        return 0
    return int(head.split(b" ", 2)[1]) if head else 0


def read_on(client: socket.socket) -> bytes:
    """Return everything until the other end closes."""
    parts = []
    try:
        while part := client.recv(1024 * 1024):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


@contextmanager
def serving(bounds: Bounds) -> Iterator[Served]:
    """Serve /small, /large (64 MiB) and /stream (a line whenever the loop is free) within these bounds."""
    ended: list[str] = []

    async def application(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range({"/large": LARGE // 65536, "/stream": 60}.get(path, 0)):
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0.05 if path == "/stream" else 0)
            await send({"type": "http.response.body", "body": b"end", "more_body": False})
        finally:
            ended.append(path)

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server = bounded_server(application, bounds)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="web")
        thread.start()
        try:
            yield Served(listener.getsockname(), ended)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
