"""The HTTP side: one POST per call, JSON 1.1, on loopback; faults happen here, before and after a call takes effect."""

import contextlib
import json
import socket
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lab.ssm.calls import Call, Calls
from lab.ssm.control import PATH, Control
from lab.ssm.errors import Refusal, internal, throttled
from lab.ssm.faults import Outcome
from lab.ssm.service import answer
from lab.ssm.signature import Key
from lab.ssm.state import State

TARGET = "AmazonSSM."
CONTENT_TYPE = "application/x-amz-json-1.1"
LARGEST_BODY = 4 * 1024 * 1024
CONNECTIONS = 256
IDLE_SECONDS = 300.0
FULL_SECONDS = 0.1
REFUSALS = {
    Outcome.THROTTLE: throttled(),
    Outcome.TOO_MANY: Refusal("TooManyRequestsException", "Too Many Requests", status=429),
    Outcome.INTERNAL: internal(),
    Outcome.INTERNAL_AFTER: internal(),
    Outcome.UNAVAILABLE: Refusal("ServiceUnavailable", "The service is unavailable.", status=503),
    Outcome.DENY: Refusal("AccessDeniedException", "User is not authorized to perform this operation."),
    Outcome.EXPIRED: Refusal("ExpiredTokenException", "The security token included in the request is expired."),
}


class Cut(Exception):
    """End the connection without an answer."""


class Server(ThreadingHTTPServer):
    """The listening socket, its bounded connections, and what handlers need."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, state: State, calls: Calls, key: Key, *, control: Control) -> None:
        """Listen on a free port of loopback."""
        self.state, self.calls, self.key, self.control = state, calls, key, control
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._open: dict[int, tuple[socket.socket, threading.Thread]] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Give the address as an endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, and only as many at once as there may be."""
        while not self._free.acquire(timeout=FULL_SECONDS):
            if self.state.hub.closing.is_set():
                self.shutdown_request(request)
                return
        thread = threading.Thread(target=self._serve_one, args=(request, client_address), name="ssm http", daemon=True)
        with self._lock:
            self._open[id(request)] = (request, thread)
        thread.start()

    def end(self) -> None:
        """Stop listening, end all connections, and wait for their threads."""
        self.shutdown()
        with self._lock:
            left = list(self._open.values())
        for connection, _ in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for _, thread in left:
            thread.join()
        self.server_close()

    def _serve_one(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(id(request), None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away; anything else is a fault of ours and is shown."""
        if not isinstance(sys.exception(), OSError | Cut):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection; several calls may follow each other on it."""

    protocol_version = "HTTP/1.1"
    server_version = "Server"
    sys_version = ""
    timeout = IDLE_SECONDS
    server: Server

    def do_POST(self) -> None:
        """Answer a call, or a control request."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self.close_connection = True
            self._send(413, {"__type": "RequestEntityTooLarge"})
            return
        body = self.rfile.read(length)
        if self.path.startswith(PATH):
            self._control(body)
        elif self.path == "/":
            self._call(body)
        else:
            self._send(404, {"__type": "UnknownOperationException"})

    def do_GET(self) -> None:
        """Answer a control request."""
        if self.path.startswith(PATH):
            self._control(b"")
        else:
            self._send(404, {"__type": "UnknownOperationException"})

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Give the Date header, with the clock's error."""
        moment = time.time() if timestamp is None else timestamp
        return super().date_time_string(int(moment + self.server.state.hub.faults.clock_skew))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Write nothing: the log of calls is the log."""

    def _control(self, body: bytes) -> None:
        status, given = self.server.control.answer(
            self.command, self.path, body, authorization=self.headers.get("Authorization", "")
        )
        self._send(status, given)

    def _call(self, body: bytes) -> None:
        operation, outcome = "", Outcome.OK
        parameters: dict[str, Any] = {}
        at = self.server.state.hub.clock.moment()
        command_id = ""
        try:
            operation, parameters = self._request(body)
            outcome = self.server.state.hub.faults.outcome(operation)
            if not outcome.accepts:
                self._fail(outcome)
            given = answer(self.server.state, operation, parameters)
            command_id = str((given.get("Command") or {}).get("CommandId", ""))
            self._fail(outcome)
            answered, status = "ok", 200
        except Refusal as refusal:
            answered, status, given = refusal.code, refusal.status, _error(refusal)
        except Cut:
            answered, status, given = outcome.value, 0, {}
        identity = self.headers.get("amz-sdk-invocation-id", "")
        self.server.calls.add(Call(operation, parameters, at, answered, identity, command_id))
        if outcome in (Outcome.HANG, Outcome.HANG_AFTER):
            self.server.state.hub.closing.wait(self.server.state.hub.faults.hang_seconds)
        if status:
            self._send(status, given)
        else:
            self._cut()

    def _request(self, body: bytes) -> tuple[str, dict[str, Any]]:
        """Check the outside of a call: signature, target, content type, JSON."""
        skew = self.server.state.hub.faults.clock_skew
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.key.check(self.server.url, body, headers, skew=skew)
        target = self.headers.get("X-Amz-Target", "")
        if not target.startswith(TARGET):
            raise Refusal("UnknownOperationException", "X-Amz-Target does not name an operation of AmazonSSM.")
        if self.headers.get("Content-Type") != CONTENT_TYPE:
            raise Refusal("UnknownOperationException", f"The content type must be {CONTENT_TYPE}.")
        try:
            parameters = json.loads(body or b"{}")
        except ValueError as unreadable:
            raise Refusal("SerializationException", "The body is no JSON.") from unreadable
        if not isinstance(parameters, dict):
            raise Refusal("SerializationException", "The body is no object.")
        return target.removeprefix(TARGET), parameters

    def _fail(self, outcome: Outcome) -> None:
        """End a call in the way that was wanted of it."""
        if outcome in REFUSALS:
            raise REFUSALS[outcome]
        if outcome is not Outcome.OK:
            raise Cut

    def _send(self, status: int, given: dict[str, Any]) -> None:
        data = json.dumps(given).encode()
        self.send_response(status)
        self.send_header("x-amzn-RequestId", str(uuid.uuid4()))
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _error(refusal: Refusal) -> dict[str, Any]:
    """Give an error's body; `message` for common errors, `Message` for those of the model, as AWS has it."""
    name = "Message" if refusal.code.startswith("Invalid") else "message"
    return {"__type": refusal.code, name: refusal.message}
