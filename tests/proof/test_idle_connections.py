"""A thousand connections that say nothing, or half of something, and one client that wants an answer."""

import resource
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from service.web.connections import Bounds
from tests.proof.counts import count
from tests.web.slow_clients import GET, serving

pytestmark = pytest.mark.proof

#: Each of both kinds. Both ends of each are in this process.
SOCKETS = count("idle_sockets", 500)
HEALTHY = count("requests_beside_idle_sockets", 200)


def test_f16_idle_sockets_and_half_headers_keep_nobody_out(record_property: Callable[[str, object], None]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        statuses, slowest, opened = _beside_idle_ones()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    record_property("proof", "idle sockets and half-sent headers beside a client that is answered each time")
    record_property("count", f"{opened} sockets, {len(statuses)} answers, the slowest after {slowest:.2f} s")
    assert statuses == [200] * HEALTHY


def _beside_idle_ones() -> tuple[list[int], float, int]:
    """Return each status, the longest wait (seconds), and how many sockets said nothing or half a header."""
    statuses, slowest = [], 0.0
    with serving(Bounds()) as served, ExitStack() as stack:
        for number in range(2 * SOCKETS):
            one = stack.enter_context(served.connect())
            if number % 2:
                one.sendall(GET[: 1 + number % (len(GET) - 2)])
        for _ in range(HEALTHY):
            asked = time.monotonic()
            statuses.append(served.get())
            slowest = max(slowest, time.monotonic() - asked)
    return statuses, slowest, 2 * SOCKETS
