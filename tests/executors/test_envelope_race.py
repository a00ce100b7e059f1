"""A door that closes while a start is on its way to it."""

import fcntl
from collections.abc import Callable

import pytest

from lab.process import wait_until
from service.domain.script import NotStarted
from tests.executors.envelope_place import Place, acting, order, ref

pytestmark = pytest.mark.needs_root


def test_a_start_that_is_under_way_finds_the_door_that_was_closed_meanwhile(own_place: Callable[..., Place]) -> None:
    place = own_place()
    place.start(order("true"))
    given = acting("touch /run/ran")

    with (place.folder / "lock").open("a") as lock:
        # The start has made its folder and waits for the node; it has not come to the door.
        fcntl.flock(lock, fcntl.LOCK_EX)
        transport = place.begin(given)
        wait_until((place.folder / given.attempt_id).is_dir, "the start has made its folder")
        asked = place.settle(ref(given))
    assert transport.stdout is not None
    said = transport.stdout.read()
    place.cut(transport)
    late = place.start(given)

    assert [report.not_started for report in (asked, late)] == [NotStarted.VOID, NotStarted.VOID]
    assert b'"not_started"' in said
    assert not place.file("ran").exists()
