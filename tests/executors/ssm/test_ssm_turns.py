"""No more than two commands of ours on a node, first come first served."""

import threading

import pytest

from lab.process import wait_until
from service.executors.ssm.turns import NoTurn, Turns


class Holder:
    """A thread that takes a turn and holds it until told."""

    def __init__(self, turns: Turns, node: str = "gpu-01") -> None:
        self.holds = threading.Event()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._hold, args=(turns, node))
        self.thread.start()

    def _hold(self, turns: Turns, node: str) -> None:
        with turns.take(node, seconds=30):
            self.holds.set()
            self.done.wait(30)

    def let_go(self) -> None:
        self.done.set()
        self.thread.join()


def test_a_third_waits_and_the_one_that_came_first_goes_first() -> None:
    turns = Turns()
    first, second = Holder(turns), Holder(turns)
    wait_until(lambda: first.holds.is_set() and second.holds.is_set(), "two hold")
    third = Holder(turns)
    wait_until(lambda: len(turns._waiting["gpu-01"]) == 1, "the third waits")
    fourth = Holder(turns)
    wait_until(lambda: len(turns._waiting["gpu-01"]) == 2, "the fourth waits")

    first.let_go()
    wait_until(third.holds.is_set, "the third goes on")

    assert not fourth.holds.is_set()
    for holder in (second, third, fourth):
        holder.let_go()
    assert (dict(turns._under_way), dict(turns._waiting)) == ({}, {})


def test_another_node_waits_for_nobody() -> None:
    turns = Turns()
    holders = [Holder(turns), Holder(turns), Holder(turns, "gpu-02")]

    wait_until(lambda: all(holder.holds.is_set() for holder in holders), "all hold")

    for holder in holders:
        holder.let_go()


def test_who_waits_too_long_is_told_and_leaves_the_line() -> None:
    turns = Turns()
    holders = [Holder(turns), Holder(turns)]
    wait_until(lambda: all(holder.holds.is_set() for holder in holders), "two hold")

    with pytest.raises(NoTurn), turns.take("gpu-01", seconds=0.05):
        pass

    holders[0].let_go()
    with turns.take("gpu-01", seconds=30):
        holders[1].let_go()
