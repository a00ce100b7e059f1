"""What many requests ask at the same time is done together, and one that fails fails alone."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from service.domain.alert import Parsed
from service.domain.errors import Conflict, Unavailable
from service.domain.rule import AlertSource
from service.web.intake import MOST_BYTES_AT_ONCE, Intake
from service.web.together import Together
from tests.app.killed_taking import Named, sent
from tests.support.world import World

#: It only stops a hang.
HANG = 60.0


class Hall:
    """Plays what it is asked; the first call waits until it may go on."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def play(self, asked: Sequence[str]) -> Sequence[str | Exception]:
        self.calls.append([*asked])
        if len(self.calls) == 1:
            self.begun.set()
            assert self.go_on.wait(HANG)
        if "broken" in asked:
            raise Conflict("It is broken.")
        if "nobody" in asked:
            raise Unavailable("The disk is full.", "Make room.")
        return [Unavailable("Too many wait.") if one == "full" else one.upper() for one in asked]


def asked(hall: Hall, *words: str, most: int = 64, size: int = 1) -> list[object]:
    """Ask for one word, then for the others while the first is being played; return what each was told."""
    together: Together[str, str] = Together(hall.play, most=most, most_bytes=10)

    async def ask() -> list[object]:
        first = asyncio.create_task(together.ask(words[0], size=size))
        assert await asyncio.to_thread(hall.begun.wait, HANG)
        others = [asyncio.create_task(together.ask(word, size=size)) for word in words[1:]]
        await asyncio.sleep(0)
        hall.go_on.set()
        return [*await asyncio.gather(first, *others, return_exceptions=True)]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("most", "size", "calls"),
    [
        (64, 1, [["a"], ["b", "c", "d"]]),
        (2, 1, [["a"], ["b", "c"], ["d"]]),
        (64, 5, [["a"], ["b", "c"], ["d"]]),
        (64, 20, [["a"], ["b"], ["c"], ["d"]]),
    ],
)
def test_what_is_asked_while_a_call_is_under_way_is_played_in_the_next_one_within_its_bounds(
    most: int, size: int, calls: list[list[str]]
) -> None:
    hall = Hall()

    told = asked(hall, "a", "b", "c", "d", most=most, size=size)

    assert (told, hall.calls) == (["A", "B", "C", "D"], calls)


def test_one_that_is_wrong_is_told_so_alone_and_its_neighbours_are_played_by_themselves() -> None:
    hall = Hall()

    told = asked(hall, "a", "b", "broken", "c")

    assert [type(told[2]), told[:2], told[3]] == [Conflict, ["A", "B"], "C"]
    assert hall.calls == [["a"], ["b", "broken", "c"], ["b"], ["broken"], ["c"]]


def test_what_is_unavailable_is_so_for_all_and_is_not_tried_again() -> None:
    hall = Hall()

    told = asked(hall, "a", "b", "nobody")

    assert (told[0], [str(one) for one in told[1:]]) == ("A", ["The disk is full. Make room."] * 2)
    assert hall.calls == [["a"], ["b", "nobody"]]


def test_one_that_is_refused_is_refused_alone() -> None:
    told = asked(Hall(), "a", "full", "b")

    assert ([type(one) for one in told], told[0], told[2]) == ([str, Unavailable, str], "A", "B")


def test_a_request_that_ends_early_keeps_no_other_waiting() -> None:
    hall = Hall()
    together: Together[str, str] = Together(hall.play, most=64, most_bytes=10)

    async def ask() -> str:
        first = asyncio.create_task(together.ask("a"))
        assert await asyncio.to_thread(hall.begun.wait, HANG)
        gone, other = asyncio.create_task(together.ask("b")), asyncio.create_task(together.ask("c"))
        await asyncio.sleep(0)
        first.cancel()
        gone.cancel()
        hall.go_on.set()
        return await other

    assert asyncio.run(ask()) == "C"


def test_after_the_end_of_its_loop_it_works_on_the_next_one() -> None:
    hall = Hall()
    hall.go_on.set()
    together: Together[str, str] = Together(hall.play, most=64, most_bytes=10)

    assert [asyncio.run(together.ask(word)) for word in "ab"] == ["A", "B"]


class Slow(Named):
    """Reads a large body only when it may go on."""

    def __init__(self, began: datetime) -> None:
        super().__init__(began)
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def parse(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Parsed:
        if len(body) > MOST_BYTES_AT_ONCE:
            self.begun.set()
            assert self.go_on.wait(HANG)
        return super().parse(source, body, headers=headers, now=now)


def test_a_large_delivery_keeps_no_small_one_waiting(world: World) -> None:
    slow = Slow(world.service.clock.now())
    large, small = sent(f"gpu-01 {'x' * MOST_BYTES_AT_ONCE}", "gpu-02")

    async def take() -> list[bool]:
        intake = Intake(replace(world.service, receivers=slow))
        waits = asyncio.create_task(intake.take(large))
        try:
            assert await asyncio.to_thread(slow.begun.wait, HANG)
            first = await asyncio.wait_for(intake.take(small), HANG)
        finally:
            slow.go_on.set()
        return [first.receipt.repeated, (await waits).receipt.repeated]

    assert asyncio.run(take()) == [False, False]
