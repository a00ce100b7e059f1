"""Event streams: what was appended comes in order, once, and goes on after a cut."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import uvicorn

from lab.process import wait_until
from service.app.tokens import revoke_token
from service.domain.audit import AuditEvent, Fact
from service.domain.errors import Unavailable
from service.domain.person import Role
from service.web.app import create_app
from service.web.event_feed import EventFeed, Subscription
from service.web.routes import events
from tests.support.world import World
from tests.web.api import Api, problem

#: Only stops a hang.
DEADLINE = 60.0


def parsed(text: str) -> list[tuple[int, str]]:
    """Return seq and action of each event of a stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            event = json.loads(lines["data"])
            assert int(lines["id"]) == event["seq"]
            found.append((event["seq"], event["action"]))
    return found


def recorded(world: World, run_id: str, after: int = 0) -> list[tuple[int, str]]:
    """Return seq and action of each audit event of a run."""
    found = world.service.store.read(lambda reader: reader.audit_after(after, run_id=run_id, limit=1000))
    return [(event.seq, event.fact.action) for event in found]


@pytest.fixture
def ended(api: Api, world: World) -> str:
    """Give a dry run that has ended."""
    run_id = api.request(dry_run=True)
    world.settle()
    return run_id


@pytest.fixture
def server(api: Api) -> Iterator[str]:
    """Give the address of the application behind a real server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(api.app, log_config=None, timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        while not running.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        running.should_exit = True
        thread.join(DEADLINE)


def test_a_run_that_has_ended_is_told_from_its_beginning(api: Api, world: World, ended: str) -> None:
    answer = api.get(f"/runs/{ended}/events")

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert parsed(answer.text) == recorded(world, ended)
    assert parsed(answer.text)[-1][1] == "run.ended"


def test_a_stream_goes_on_after_the_last_event_id(api: Api, world: World, ended: str) -> None:
    third = recorded(world, ended)[2][0]

    resumed = api.ask("GET", f"/api/v1/runs/{ended}/events", headers={"Last-Event-ID": str(third)})
    asked = api.get(f"/runs/{ended}/events", after=third)

    assert parsed(resumed.text) == parsed(asked.text) == recorded(world, ended, after=third)


def test_whoever_has_everything_of_an_ended_run_is_told_not_to_connect_again(
    api: Api, world: World, ended: str
) -> None:
    last = recorded(world, ended)[-1][0]

    answer = api.ask("GET", f"/api/v1/runs/{ended}/events", headers={"Last-Event-ID": str(last)})

    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("given", ["-1", "x", "9" * 40])
def test_a_last_event_id_that_is_none_is_refused(api: Api, ended: str, given: str) -> None:
    answer = api.ask("GET", f"/api/v1/runs/{ended}/events", headers={"Last-Event-ID": given})

    assert problem(answer)[:2] == (422, "invalid_input")


def test_a_run_that_is_not_there_has_no_stream(api: Api) -> None:
    assert problem(api.get("/runs/none/events"))[:2] == (404, "not_found")


def test_the_headers_of_a_stream_are_had_without_it(api: Api) -> None:
    run_id = api.request()

    answer = api.ask("HEAD", f"/api/v1/runs/{run_id}/events")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


class Listener:
    """Reads a stream in a thread of its own until it ends."""

    def __init__(self, server: str, api: Api, run_id: str) -> None:
        """Begin to listen, and return with the first event of the run."""
        self.text = ""
        self.began = threading.Event()
        self._url = f"{server}/api/v1/runs/{run_id}/events"
        self._headers = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()
        assert self.began.wait(DEADLINE)

    def _listen(self) -> None:
        with httpx.stream("GET", self._url, headers=self._headers, timeout=DEADLINE) as answer:
            for part in answer.iter_text():
                self.text += part
                if "\ndata: " in self.text:
                    self.began.set()

    def heard(self) -> list[tuple[int, str]]:
        """Return what was heard once the stream has ended."""
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()
        return parsed(self.text)


def test_listeners_hear_a_run_as_it_goes_and_the_stream_ends_with_it(api: Api, world: World, server: str) -> None:
    run_id, other = api.request("gpu-01"), api.request("gpu-02", dry_run=True)
    listeners = [Listener(server, api, run_id) for _ in range(3)]

    world.settle()
    [gate] = api.get("/approvals").json()["items"]
    api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"]})
    world.settle()

    assert [listener.heard() for listener in listeners] == [recorded(world, run_id)] * 3
    assert other not in listeners[0].text


def test_a_stream_ends_when_its_token_is_revoked(
    api: Api, world: World, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", timedelta(milliseconds=50))
    listener = Listener(server, api, api.request())

    revoke_token(world.service, Role.VIEWER, by="admin")

    assert [action for _, action in listener.heard()] == ["run.requested"]


def test_a_stream_that_is_never_silent_tells_nothing_more_once_its_token_is_revoked(
    api: Api, world: World, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", timedelta(hours=1))
    listener = Listener(server, api, api.request())

    revoke_token(world.service, Role.VIEWER, by="admin")
    world.settle()

    assert [action for _, action in listener.heard()] == ["run.requested"]


def test_the_reader_ends_when_nobody_listens_and_begins_again(world: World) -> None:
    feed = EventFeed(world.service.store, poll=timedelta(milliseconds=1))

    async def listen_once() -> AuditEvent | None:
        with Subscription(feed, "r") as subscription:
            await asyncio.to_thread(feed.join, subscription)
            fact = Fact("note", "x", "p", run_id="r")
            await asyncio.to_thread(world.service.store.write, lambda transaction: transaction.append(fact))
            return await subscription.next(timedelta(seconds=DEADLINE))

    heard = [asyncio.run(listen_once()) for _ in range(2)]
    feed.close()

    assert [event.fact.action if event else None for event in heard] == ["note", "note"]
    # Those of other applications of this process end as well, each when it has looked again.
    wait_until(lambda: not any(thread.name == "event-feed" for thread in threading.enumerate()), "no reader is left")


def test_a_slow_listener_is_told_to_read_by_itself(world: World, ended: str) -> None:
    feed = EventFeed(world.service.store)
    event = world.service.store.read(lambda reader: reader.audit_after(0, run_id=ended, limit=1))[0]

    async def overrun() -> list[Any]:
        subscription = Subscription(feed, ended)
        subscription.offer([event] * 1000)
        return [await subscription.next(timedelta(seconds=DEADLINE)), await subscription.next(timedelta(0))]

    assert asyncio.run(overrun()) == [None, None]


def test_there_is_a_most_of_streams(world: World) -> None:
    feed = EventFeed(world.service.store, most_streams=1)

    async def one_too_many() -> None:
        feed.check_room()
        with Subscription(feed, "r") as subscription:
            await asyncio.to_thread(feed.join, subscription)
            feed.check_room()

    with pytest.raises(Unavailable, match="1 streams are open already"):
        asyncio.run(one_too_many())
    feed.close()


def test_an_application_is_built_with_a_feed_of_its_own(world: World) -> None:
    first, second = (create_app(world.service).state.event_feed for _ in range(2))

    assert first is not second
