"""What holds for every answer: headers, methods, bodies, defects."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.types import Message

from service.domain.errors import BrokenRule, Unavailable
from service.domain.person import Role
from service.web.app import create_app
from service.web.limits import MOST_BYTES, BodyLimits
from tests.support.world import World
from tests.web.api import CURE, Api, problem


class Broken:
    """A store of which every read raises."""

    def __init__(self, store: object, error: Exception, *, found: int = 1) -> None:
        """Raise this error once the token was found, and looked for again behind a body."""
        self._store = store
        self._error = error
        self._found = found
        self._reads = 0

    def read(self, look: Callable[[Any], Any]) -> Any:
        """Find the token, then break."""
        self._reads += 1
        if self._reads > self._found:
            raise self._error
        return self._store.read(look)  # type: ignore[attr-defined]

    def write(self, change: Callable[[Any], Any]) -> Any:
        """Refuse as a store that is full."""
        raise Unavailable("The store cannot be written.", "Make room.")


def broken(world: World, api: Api, error: Exception, *, found: int = 1) -> Api:
    """Return the application on a store that breaks."""
    store = Broken(world.service.store, error, found=found)
    return Api(create_app(replace(world.service, store=store)), api.tokens)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/api/v1/runs", Role.VIEWER),
        ("GET", "/api/v1/runs", None),
        ("GET", "/api/v1/runs/none", Role.VIEWER),
        ("GET", "/no-such", Role.VIEWER),
        ("PUT", "/api/v1/runs", Role.VIEWER),
        ("GET", "/docs", None),
        ("GET", "/static/docs.js", None),
        ("GET", "/healthz", None),
    ],
)
def test_s11_every_answer_has_the_headers_of_the_house(api: Api, method: str, path: str, role: Role | None) -> None:
    headers = api.ask(method, path, role=role).headers

    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-request-id"]
    assert "cache-control" in headers
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("origin", ["null", "https://elsewhere.example"])
def test_no_other_origin_is_let_in(api: Api, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}

    answers = [api.ask(method, "/api/v1/runs", headers=asked) for method in ("GET", "OPTIONS")]

    assert [name for answer in answers for name in answer.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/v1/runs"), ("GET", "/healthz"), ("POST", "/webhooks/prom")]
)
def test_s15_a_request_that_ends_in_two_ways_is_refused_and_its_connection_with_it(
    api: Api, method: str, path: str
) -> None:
    both = {"Content-Length": "4", "Transfer-Encoding": "chunked"}

    answer = api.ask(method, path, headers=both, content=b"0\r\n\r\n")

    assert problem(answer) == (400, "bad_request", "The request has both Content-Length and Transfer-Encoding.")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("error", [RuntimeError("secret path /etc/x"), BrokenRule("secret path /etc/x")])
def test_s21_a_defect_tells_nothing_of_its_inside(api: Api, world: World, error: Exception) -> None:
    answer = broken(world, api, error).get("/runs")

    body = answer.json()
    assert problem(answer)[:2] == (500, "internal")
    assert "secret" not in answer.text
    assert body["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_store_that_cannot_be_read_is_unavailable(api: Api, world: World) -> None:
    answer = broken(world, api, Unavailable("The store does not answer.", "Look at it.")).get("/runs")

    assert problem(answer) == (503, "unavailable", "The store does not answer.")


def test_a_store_that_cannot_be_written_accepts_nothing(api: Api, world: World) -> None:
    answer = broken(world, api, RuntimeError(), found=2).post("/runs", CURE)

    assert problem(answer) == (503, "unavailable", "The store cannot be written.")


def test_an_address_that_is_not_there_is_told_as_a_problem(api: Api) -> None:
    assert problem(api.get("/no-such")) == (404, "not_found", "There is nothing at this address.")
    assert problem(api.get("/runs/"))[0] in (404, 405, 422)


def test_a_method_that_is_not_possible_is_answered_with_those_that_are(api: Api) -> None:
    answer = api.ask("DELETE", "/api/v1/runs")

    assert problem(answer) == (405, "method_not_allowed", "DELETE is not possible here.")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


def test_options_lists_the_methods(api: Api) -> None:
    answer = api.ask("OPTIONS", "/api/v1/runs/none/cancel")

    assert (answer.status_code, answer.headers["allow"], answer.content) == (204, "OPTIONS, POST", b"")


@pytest.mark.parametrize("path", ["/api/v1/runs", "/healthz", "/docs", "/static/docs.js", "/api/v1/runs/none"])
def test_head_is_get_without_the_body(api: Api, path: str) -> None:
    head, get = (api.ask(method, path) for method in ("HEAD", "GET"))

    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/xml", "json"])
def test_a_body_that_is_not_declared_as_json_is_refused(api: Api, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}

    answer = api.ask("POST", "/api/v1/runs", role=Role.OPERATOR, content=json.dumps(CURE).encode(), headers=headers)

    assert problem(answer) == (415, "not_json", "The body is not JSON.")


def test_json_may_name_its_encoding(api: Api) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}

    answer = api.ask("POST", "/api/v1/runs", role=Role.OPERATOR, content=json.dumps(CURE).encode(), headers=headers)

    assert answer.status_code == 202


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{", b"[" * 100_000, b'{"a": ' * 10_000, b"NaN", b"1" * 6000])
def test_a_body_that_is_no_json_is_refused(api: Api, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    answer = api.ask("POST", "/api/v1/runs", role=Role.OPERATOR, content=content, headers=headers)

    assert problem(answer)[0] in (400, 422)


def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    body = {**CURE, "reason": "x" * MOST_BYTES}

    answer = api.post("/runs", body)

    assert problem(answer) == (413, "too_large", "A body may have 262144 bytes.")
    assert answer.headers["connection"] == "close"


def test_a_body_of_unknown_length_is_not_read_beyond_the_limit(api: Api) -> None:
    sent: list[int] = []

    async def endless() -> Any:
        while True:
            sent.append(65536)
            yield b" " * 65536

    answer = api.ask(
        "POST",
        "/api/v1/runs",
        role=Role.OPERATOR,
        content=endless(),
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 413
    assert sum(sent) <= 2 * MOST_BYTES


def answered(most_bytes: int, messages: list[Message], *, length: bytes | None = None) -> int:
    """Return the status that the limits give to a body; 200 when it was handed on."""
    statuses: list[int] = []

    async def application(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    headers = [(b"content-type", b"application/json")] + ([(b"content-length", length)] if length else [])
    limits = BodyLimits(application, most_bytes=most_bytes, longest_wait=timedelta(milliseconds=20))
    asyncio.run(limits({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send))
    return statuses[0]


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    part: Message = {"type": "http.request", "body": b"{", "more_body": True}

    assert answered(10, [part]) == 408


@pytest.mark.parametrize("length", [b"-1", b"x", b"1" * 30])
def test_a_length_that_is_no_number_is_refused(length: bytes) -> None:
    assert answered(10, [], length=length) == 400


def test_a_body_that_says_that_it_is_too_large_is_not_begun() -> None:
    assert answered(10, [], length=b"11") == 413


def test_a_body_of_exactly_the_limit_is_handed_on() -> None:
    parts: list[Message] = [
        {"type": "http.request", "body": b"12345", "more_body": True},
        {"type": "http.request", "body": b"67890", "more_body": False},
    ]

    assert answered(10, parts) == 200


def test_a_client_that_is_gone_is_not_taken_for_a_whole_body() -> None:
    assert answered(10, [{"type": "http.disconnect"}]) == 400


def test_the_process_lives_and_says_so(api: Api) -> None:
    assert api.ask("GET", "/healthz", role=None).json() == {"alive": True}


def _unavailable() -> str | None:
    raise Unavailable("The store does not answer.")


@pytest.mark.parametrize(
    ("checks", "status", "reasons"),
    [
        ([], 200, []),
        ([lambda: None], 200, []),
        ([lambda: None, lambda: "The engine has ended."], 503, ["The engine has ended."]),
        ([_unavailable], 503, ["The store does not answer."]),
    ],
)
def test_readiness_is_what_the_checks_say(
    world: World, checks: list[Callable[[], str | None]], status: int, reasons: list[str]
) -> None:
    api = Api(create_app(world.service, readiness=checks), {})

    answer = api.ask("GET", "/readyz", role=None)

    assert (answer.status_code, answer.json()) == (status, {"ready": not reasons, "reasons": reasons})


def test_numbers_are_for_those_who_may_read(api: Api, world: World) -> None:
    api.request()
    world.settle()
    api.ask("PUT", "/api/v1/no/such/address/at/all")

    metrics = api.ask("GET", "/metrics")

    assert metrics.headers["content-type"].startswith("text/plain")
    assert "unstick_gates_open 1.0" in metrics.text
    assert 'unstick_node_runs{state="waiting"} 1.0' in metrics.text
    assert 'unstick_http_requests_total{method="POST",route="/api/v1/runs",status="202"} 1.0' in metrics.text
    assert "such" not in metrics.text


def test_s10_what_is_asked_for_makes_no_label_of_a_number(api: Api) -> None:
    for method, path in (("GET", "/no%22%7D%201%0Aforged%201"), ("FORGED", "/metrics"), ("GET", "/api/v1/runs/forged")):
        api.ask(method, path)

    assert "forged" not in api.ask("GET", "/metrics").text.lower()
