"""Clients that are slow on purpose: none of them is waited for without an end, and none keeps others out."""

import threading
import time
from collections.abc import Iterator

import pytest

from service.web.connections import Bounds, Phase, default_bounds
from tests.web.slow_clients import LARGE, PATIENCE, Served, read_on, serving, status

#: Short, so that a test need not wait; what is asserted is that it ends, and never when.
QUICK = Bounds({Phase.HEADER: 1.5, Phase.BODY: 1.5, Phase.UNREAD: 1.5, Phase.CLOSING: 1.5}, tick=0.05)
HEADER = b"POST /small HTTP/1.1\r\nHost: unstick.test\r\n"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Give a server with short bounds."""
    with serving(QUICK) as one:
        yield one


def test_s15_a_connection_that_says_nothing_is_closed(served: Served) -> None:
    with served.connect() as silent:
        assert read_on(silent) == b""


def test_s15_a_header_that_drips_is_answered_with_408(served: Served) -> None:
    with served.connect() as slow:
        drip = threading.Thread(target=_drip, args=(slow, HEADER + b"X-Slow: "), name="drip")
        drip.start()
        said = read_on(slow)
        drip.join(PATIENCE)

    assert said.startswith(b"HTTP/1.1 408 ")


def test_s15_a_second_header_on_a_kept_connection_is_not_waited_for_either(served: Served) -> None:
    with served.connect() as slow:
        slow.sendall(b"GET /small HTTP/1.1\r\nHost: unstick.test\r\n\r\n")
        first = status(slow)
        slow.sendall(b"GET /sm")
        read_on(slow)

    assert first == 200


def test_s15_a_body_that_drips_after_its_answer_is_not_read_for_ever(served: Served) -> None:
    with served.connect() as slow:
        slow.sendall(HEADER + b"Content-Length: 1000000\r\n\r\n")
        drip = threading.Thread(target=_drip, args=(slow, b""), name="drip")
        drip.start()
        said = read_on(slow)
        drip.join(PATIENCE)

    assert said.startswith(b"HTTP/1.1 200 ")


def test_s15_an_answer_that_nobody_reads_is_given_up(served: Served) -> None:
    with served.connect(buffer=4096) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: unstick.test\r\n\r\n")
        _until(lambda: "/large" in served.ended)

        assert len(read_on(deaf)) < LARGE


def test_s15_a_stream_that_is_read_goes_on_for_longer_than_any_bound(served: Served) -> None:
    with served.connect() as listener:
        listener.sendall(b"GET /stream HTTP/1.1\r\nHost: unstick.test\r\nConnection: close\r\n\r\n")

        assert b"end" in read_on(listener)


def test_s15_idle_connections_keep_nobody_out() -> None:
    patient = Bounds({}, most=10, most_of_one=10)
    with serving(patient) as served:
        idle = [served.connect() for _ in range(30)]
        statuses = [served.get() for _ in range(5)]
        for one in idle:
            one.close()

    assert statuses == [200] * 5


def test_s15_there_are_fewer_connections_than_files_a_process_may_open() -> None:
    bounds = default_bounds()

    assert 50 <= bounds.most <= 1000
    assert bounds.most_of_one <= bounds.most // 2
    # With the last look: a header has 10 seconds, a body 15, an answer 30 to be read.
    assert bounds.tick == 1
    assert bounds.seconds == {Phase.HEADER: 9, Phase.BODY: 14, Phase.UNREAD: 30, Phase.CLOSING: 10}


def _drip(client: object, first: bytes) -> None:
    """Send one byte after the other until the other end has had enough."""
    try:
        client.sendall(first)  # type: ignore[attr-defined]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            client.sendall(b"x")  # type: ignore[attr-defined]
            time.sleep(0.02)
    except OSError:
        return


def _until(look: object) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
