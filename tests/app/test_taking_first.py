"""While deliveries are recorded judging waits, and not for ever."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.process import wait_until
from service.app.taking_first import TakingFirst
from service.domain.delivery import AlertVerdict
from service.engine.local import LocalEngine
from tests.app.alerting import alert, deliver, every, follow, rule, verdicts
from tests.app.conftest import Make, works

#: It only stops a hang.
HANG = 60.0


def always() -> bool:
    return True


def test_without_deliveries_nobody_waits() -> None:
    first = TakingFirst()
    with first.taking():
        pass

    assert first.wait_for_quiet(0.0, wanted=always)


def test_a_wait_ends_when_the_delivery_is_recorded() -> None:
    first = TakingFirst()
    waited: list[bool] = []
    with first.taking():
        waiting = threading.Thread(target=lambda: waited.append(first.wait_for_quiet(HANG, wanted=always)))
        waiting.start()
        before = [*waited]
    waiting.join(HANG)

    assert (before, waited) == ([], [True])


def test_a_wait_has_a_bound_and_ends_when_nobody_wants_it() -> None:
    first = TakingFirst()

    with first.taking():
        ended = [first.wait_for_quiet(0.0, wanted=always), first.wait_for_quiet(HANG, wanted=lambda: False)]

    assert ended == [False, False]


def test_after_several_at_once_it_is_quiet_only_when_no_other_comes_soon() -> None:
    at = [0.0]
    first = TakingFirst(now=lambda: at[0])
    with first.taking(), first.taking():
        at[0] = 10.0

    soon = first.wait_for_quiet(0.0, wanted=always)
    at[0] = 10.1

    assert (soon, first.wait_for_quiet(0.0, wanted=always)) == (False, True)


@pytest.mark.parametrize("quiet", [True, False])
def test_judging_lets_deliveries_be_recorded_first_and_has_its_turn_all_the_same(make: Make, quiet: bool) -> None:
    world = follow(make(works("cure")), rule())
    deliver(world, alert(world))
    seen: list[list[AlertVerdict | None]] = []

    class Asked(TakingFirst):
        """Answers at once, and notes what was judged by then."""

        def wait_for_quiet(self, seconds: float, *, wanted: Callable[[], bool]) -> bool:
            seen.append(verdicts(every(world)))
            return quiet

    engine = LocalEngine(replace(world.service, taking_first=Asked()), owner="here")
    engine.start()
    try:
        wait_until(lambda: verdicts(every(world)) == [AlertVerdict.RAN], "the alert is judged", seconds=HANG)
    finally:
        engine.stop(HANG)

    assert seen[0] == [None]
