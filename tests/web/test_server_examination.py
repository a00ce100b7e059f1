"""doctor looks at a running service from outside; what it could not see is not good."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from lab.ports import free_port
from service.app.ports import AuditFilter
from service.app.tokens import create_token
from service.cli.bounded_asking import MOST_BYTES
from service.cli.seen import Seen
from service.cli.server_examination import look_at_server
from service.client import connect
from service.domain.errors import Unavailable
from service.domain.person import Role
from service.web.app import create_app
from tests.support.world import World
from tests.web.phone import served


def look(url: str, token: str = "", *, ahead: timedelta = timedelta(0)) -> list[Seen]:
    return list(look_at_server(url, token, now=datetime.now(UTC) - ahead))


def bad(seen: list[Seen]) -> list[str]:
    return [one.text for one in seen if not one.good]


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with served(create_app(world.service)) as address:
        yield address


def actions(world: World) -> list[str]:
    newest = world.service.store.read(lambda reader: reader.audit(AuditFilter(), cursor=None, limit=50)).items
    return sorted(event.fact.action for event in newest if event.fact.action.startswith("session."))


def test_a_service_as_it_should_be_is_good_and_its_cookie_is_looked_at_by_signing_in_and_out(
    world: World, url: str
) -> None:
    token = create_token(world.service, "vera", roles=frozenset({Role.VIEWER}), person="vera", by="test")

    seen = look(url, token)

    assert bad(seen) == []
    assert [one.text.split(" (")[0] for one in seen] == [
        "It is reached without TLS, on this machine alone",
        f"{url} answers",
        "Its clock and that of this machine agree, by the Date of its answers",
        "It is ready: its store can be written and its engine lives",
        seen[4].text,
        "/healthz, /docs, /sign-in answer, with every header that keeps others out, and let no origin in",
        "/api/v1/runs and /metrics are closed to whoever comes without a token, or with a guessed one",
        "The API answers the token in UNSTICK_TOKEN",
        "The cookie of a session is kept from scripts, other hosts and plain HTTP",
    ]
    assert seen[4].text.startswith("It is of the version of this program, ")
    assert actions(world) == ["session.closed", "session.opened"]


def test_what_was_not_looked_at_is_said_and_is_not_good(url: str) -> None:
    without, wrong = bad(look(url)), bad(look(url, "unstick_wrong"))
    fast = bad(look(url, ahead=timedelta(minutes=5)))

    assert without == [
        "Whether it knows a token, and how its cookie is kept, was not looked at: UNSTICK_TOKEN is not set."
    ]
    assert [text.split(":")[0] for text in wrong] == ["The API does not answer the token in UNSTICK_TOKEN"]
    assert [text.split()[:3] for text in fast[:1]] == [["Its", "clock", "is"]]
    assert "ahead of this one" in fast[0]


def test_where_nobody_answers_nothing_is_good() -> None:
    address = f"http://127.0.0.1:{free_port()}"

    seen = look(address)

    assert [(one.good, one.text.startswith(f"{address} does not answer: ")) for one in seen] == [(False, True)]


class Open(BaseHTTPRequestHandler):
    """Something before the service that lets everybody in, drops headers, and keeps a cookie badly."""

    shown: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.shown.add(self.headers.get("Authorization", ""))
        body = {"/healthz": b'{"alive":true}', "/openapi.json": b'{"info":{"version":"0.0.0"}}'}.get(self.path, b"{}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path == "/healthz" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.shown.add(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(303)
        self.send_header("Set-Cookie", "__Host-unstick=secret; Path=/; SameSite=None; Domain=example.net")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        """Say nothing."""


@contextmanager
def answering(host: str = "127.0.0.1", *, handler: type[Open] = Open) -> Iterator[str]:
    server = ThreadingHTTPServer((host, 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_each_thing_that_is_wrong_is_told_with_a_way_out() -> None:
    with answering() as address:
        seen = look(address, "any")

    faults = "\n".join(bad(seen))
    for told in (
        "It is not ready: it answers 200.",
        "It is of version 0.0.0, and this program of ",
        "/docs comes with no policy of ours for what may run",
        "/sign-in comes without `X-Frame-Options: DENY`.",
        "/healthz comes with leave for other origins (Access-Control-Allow-Origin: *).",
        "/api/v1/runs is given to whoever comes without a token.",
        "/metrics is given to whoever comes without a token.",
        "/api/v1/runs is given to whoever comes with the token `admin`.",
        "The cookie of a session comes without Secure, HttpOnly, SameSite, no Domain.",
    ):
        assert told in faults
    assert all(one.way_out for one in seen if not one.good)


def test_no_token_is_sent_in_clear_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    Open.shown.clear()

    # Not the address by which a machine means itself.
    with answering("127.0.0.2") as address:
        seen = look(address, "unstick_of_ann")

    assert f"{address} is reached without TLS: who is on the way reads tokens." in bad(seen)
    assert bad(seen)[-1].endswith("was not looked at: no token is sent where others could read it.")
    assert not any("unstick_of_ann" in one for one in Open.shown)


class Hostile(Open):
    """Answers as the service does at first, and then with what is meant to harm whoever looks."""

    body: ClassVar[bytes] = b""
    packed: ClassVar[str] = "identity"

    def do_GET(self) -> None:
        if self.path == "/healthz":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Encoding", self.packed)
        self.end_headers()
        try:
            self.wfile.write(self.body)
            while not self.body:
                self.wfile.write(bytes(1 << 16))
        except OSError:
            # Whoever asked has seen enough.
            pass


@pytest.mark.parametrize(
    ("body", "packed", "told"),
    [
        (b"", "identity", "/readyz answers without an end"),
        (gzip.compress(bytes(MOST_BYTES + 1)), "gzip", "/readyz answers without an end"),
        (b"not packed", "gzip", "Error -3 while decompressing data"),
    ],
    ids=["endless", "small but packed", "not packed as it says"],
)
def test_an_answer_that_cannot_be_read_to_its_end_is_told_and_nothing_more_is_asked(
    monkeypatch: pytest.MonkeyPatch, body: bytes, packed: str, told: str
) -> None:
    monkeypatch.setattr(Hostile, "body", body)
    monkeypatch.setattr(Hostile, "packed", packed)

    with answering(handler=Hostile) as address:
        seen = look(address, "any")

    assert bad(seen)[0].startswith(f"{address} does not answer: {told}")
    assert len(bad(seen)) == 1


def test_what_a_server_says_stands_in_one_line_and_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"ready": False, "reasons": ["Ill.\ngood  It is ready", "x" * 100_000]}

    monkeypatch.setattr(Hostile, "body", json.dumps(said).encode())
    with answering(handler=Hostile) as address:
        told = bad(look(address))[0]
    monkeypatch.setattr(Hostile, "body", b"[" * 100_000)
    with answering(handler=Hostile) as address:
        deep = bad(look(address))[0]

    assert told.startswith("It is not ready: Ill. good It is ready xxx")
    assert len(told) < 1000
    assert deep == "It is not ready: it answers 200."


@pytest.mark.parametrize("body", [b"<p>Hello</p>", b"[" * 100_000, b""], ids=["page", "deep", "not packed as it says"])
def test_a_command_that_something_else_answers_says_so(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(Hostile, "body", body or b"not packed")
    monkeypatch.setattr(Hostile, "packed", "identity" if body else "gzip")

    with answering(handler=Hostile) as address, connect(address, "any") as client, pytest.raises(Unavailable) as told:
        client.get("/runs")

    said = "answers 200, and not as unstick does." if body else "Error -3 while decompressing data"
    assert said in told.value.reason
