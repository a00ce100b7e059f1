"""A web server of a test's own that takes messages, or does what a bad one would."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Taken:
    """What came in, and what is answered."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    #: Never answer before this is set.
    hangs: threading.Event | None = None
    #: Answered again and again until the other side leaves, or so many times; with a pause (seconds) between.
    endless: bytes = b""
    times: int = 100_000
    pause: float = 0.0
    #: How many bytes of that went out.
    sent: int = 0
    bodies: list[bytes] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0


@contextmanager
def listening(taken: Taken) -> Iterator[Taken]:
    """Listen on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            taken.bodies.append(body)
            taken.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            if taken.hangs is not None:
                taken.hangs.wait(60)
                return
            self.send_response(taken.status)
            for name, value in taken.headers.items():
                self.send_header(name, value)
            if not taken.endless:
                self.send_header("content-length", "0")
            self.end_headers()
            if taken.endless:
                self.go_on()

        def go_on(self) -> None:
            with suppress(OSError):
                for _ in range(taken.times):
                    taken.sent += self.connection.send(taken.endless)
                    time.sleep(taken.pause)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield taken
    finally:
        if taken.hangs is not None:
            taken.hangs.set()
        server.shutdown()
        thread.join()
        server.server_close()
