"""Deliveries that are taken together: in one piece, each with an answer of its own, and none lost or doubled."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from service.app.receive_alerts import MOST_WAITING
from service.app.take_delivery import Taken, take_deliveries
from service.app.tokens import create_token, valid_tokens
from service.domain.audit import first_fault
from service.domain.delivery import AlertVerdict
from service.domain.errors import Unavailable
from service.domain.person import Role
from tests.app.alerting import every, follow, judge, rule, verdicts
from tests.app.killed_taking import build, sent
from tests.support.world import World

ROOT = Path(__file__).resolve().parents[2]
BEGAN = datetime.now(UTC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = build(f"sqlite:///{tmp_path}/unstick.db", BEGAN)
    with closing(made):
        yield follow(made, rule())


def facts(world: World) -> Counter[str]:
    assert first_fault(world.service.store.audit_events()) is None
    return Counter(event.fact.action for event in world.service.store.audit_events())


class Watched:
    """Counts the transactions, and may play that so many alerts wait to be judged."""

    def __init__(self, store: Any, *, waiting: int | None = None) -> None:
        self._store, self._waiting = store, waiting
        self.writes = 0

    def write(self, change: Callable[..., Any]) -> Any:
        def counted(transaction: Any) -> Any:
            self.writes += 1
            waiting = self._waiting
            if waiting is not None:
                transaction.waiting_alerts = lambda most: min(most, waiting)
            return change(transaction)

        return self._store.write(counted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def told(answers: Any) -> list[str]:
    return ["away" if isinstance(one, Unavailable) else "again" if one.receipt.repeated else "taken" for one in answers]


def test_deliveries_are_recorded_in_one_transaction_and_what_came_before_is_not_taken_twice(world: World) -> None:
    take_deliveries(world.service, sent("gpu-01 old"))
    watched = Watched(world.service.store)
    service = replace(world.service, store=watched)

    answers = take_deliveries(service, sent("gpu-01 old", "gpu-02 new", "gpu-02 new", "gpu-03", "gpu-03"))

    assert (told(answers), watched.writes) == (["again", "taken", "again", "taken", "taken"], 1)
    assert answers[2].receipt.delivery_id == answers[1].receipt.delivery_id  # type: ignore[union-attr]
    assert facts(world) == {"delivery.received": 4}


def test_the_use_of_tokens_that_come_together_is_noted_with_one_write(world: World) -> None:
    texts = [
        create_token(world.service, name, roles=frozenset({Role.SOURCE}), person=name, by="t") for name in ("a", "b")
    ]
    watched = Watched(world.service.store)

    valid = valid_tokens(replace(world.service, store=watched), texts)

    noted = world.service.store.read(lambda reader: reader.tokens())
    assert ([valid[text].name for text in texts], watched.writes) == (["a", "b"], 1)
    assert [one.last_used_at is not None for one in noted] == [True, True]


def test_those_for_which_no_room_is_left_are_sent_away_and_the_others_are_taken(world: World) -> None:
    full = Watched(world.service.store, waiting=MOST_WAITING - 2)
    service = replace(world.service, store=full)

    answers = take_deliveries(service, sent("gpu-01", "gpu-02", "gpu-03"))

    assert (told(answers), len(every(world))) == (["taken", "taken", "away"], 2)


def test_one_that_the_record_refuses_leaves_nothing_of_its_neighbours_until_they_are_taken_without_it(
    world: World,
) -> None:
    with pytest.raises(OverflowError):
        take_deliveries(world.service, sent("gpu-01", "gpu-02 huge", "gpu-03"))
    after = (facts(world), every(world))

    answers = take_deliveries(world.service, sent("gpu-01", "gpu-03"))

    assert (after, told(answers)) == ((Counter(), []), ["taken", "taken"])


def test_a_kill_between_the_commit_and_the_answers_loses_nothing_and_starts_nothing_twice(
    world: World, tmp_path: Path
) -> None:
    bodies = ["gpu-01", "gpu-02 called", "gpu-03"]
    url = f"sqlite:///{tmp_path}/unstick.db"
    command = [sys.executable, "-m", "tests.app.killed_taking", url, BEGAN.isoformat(), *bodies]
    killed = subprocess.run(command, cwd=ROOT, check=False)
    recorded = facts(world)

    answers = take_deliveries(world.service, sent(*bodies))

    assert (killed.returncode, recorded) == (-signal.SIGKILL, {"delivery.received": 3})
    assert told(answers) == ["taken", "again", "taken"]
    assert Counter(verdicts(judge(world))) == {AlertVerdict.RAN: 3, AlertVerdict.DEDUPLICATED: 2}
    assert facts(world)["run.requested"] == 3
    assert all(isinstance(one, Taken) for one in answers)
