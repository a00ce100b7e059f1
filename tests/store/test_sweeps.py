"""Sweeps on both databases: what is written comes back, and only what is open is looked at."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from service.app.ports import Reader, Transaction
from service.domain.run import NodeRunState, Trigger, TriggerKind
from service.domain.sweep import Finding, NodeLook, OpenFinding, StepFinding, SweepState
from service.store.sql_store import SqlStore
from tests.store.made import NOON, add, node_run, run
from tests.store.test_plans import plans

pytest_plugins = ["lab.fixtures"]

STATE = SweepState("nightly", "17 3 * * *; jitter 0 s", NOON, NOON + timedelta(minutes=3))
STEPS = (StepFinding("a", Finding.NEEDS, "stück\u2028"), StepFinding("b", Finding.NOT_ASKED))
LOOK = NodeLook("gpu-01", "nightly", "points", "r1", NOON, Finding.NEEDS, STEPS, NOON)


def test_a_schedule_comes_back_and_the_later_one_stands(store: SqlStore) -> None:
    later = replace(STATE, last_run_id="r1", last_at=NOON, missed=2, skipped_at=NOON, skipped="It was busy.")

    store.write(lambda transaction: transaction.put_sweep(STATE))
    first = store.read(lambda reader: reader.sweep_state("nightly"))
    store.write(lambda transaction: transaction.put_sweep(later))

    assert first == STATE
    assert store.read(lambda reader: reader.sweep_states()) == (later,)
    assert store.read(lambda reader: reader.sweep_state("other")) is None


def test_the_newest_look_of_each_node_and_sweep_stands(store: SqlStore) -> None:
    newest = replace(LOOK, run_id="r2", finding=Finding.COULD_NOT_LOOK, answered_at=None, steps=())
    other = replace(LOOK, sweep="other")

    def write(transaction: Transaction) -> None:
        for look in (LOOK, other, newest, replace(LOOK, node="gpu-02")):
            transaction.put_look(look)

    store.write(write)

    assert store.read(lambda reader: reader.looks(["gpu-01"], ["nightly", "other"])) == (newest, other)
    assert store.read(lambda reader: reader.looks(["gpu-03"], ["nightly"])) == ()


def test_a_finding_is_open_until_it_is_seen_fine(store: SqlStore) -> None:
    first = OpenFinding("gpu-01", "nightly", "a", NOON, "b1")
    again = replace(first, since=NOON + timedelta(hours=1), boot_id="")
    other = replace(first, step="b")

    def write(transaction: Transaction) -> None:
        for finding in (first, other, again):
            transaction.put_finding(finding)
        transaction.remove_finding(other)

    store.write(write)

    assert store.read(lambda reader: reader.open_findings(["gpu-01", "gpu-02"], ["nightly"])) == (again,)


def test_only_open_runs_of_sweeps_have_places_and_those_that_sleep_wait_in_their_order(store: SqlStore) -> None:
    swept = run("r1", dry_run=True, trigger=Trigger(TriggerKind.SWEEP, "nightly"))
    names = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
    parts = [node_run("r1", name, position=number, acts=False) for number, name in enumerate(names)]
    awake = replace(parts[0], wake_at=NOON)
    asleep = [replace(one, wake_at=None) for one in parts[1:3]]
    ended = replace(parts[3], state=NodeRunState.SUCCEEDED, ended_at=NOON, wake_at=None)
    add(store, swept, awake, *asleep, ended)
    add(store, run("r2"), node_run("r2", "gpu-05"))

    assert store.read(lambda reader: reader.open_sweep_runs()) == (swept,)
    assert store.read(lambda reader: reader.awake_node_runs("r1")) == 1
    assert store.read(lambda reader: reader.asleep_node_runs("r1", limit=5)) == ("r1-gpu-02", "r1-gpu-03")
    assert store.read(lambda reader: reader.open_node_runs("r1", limit=2)) == ("r1-gpu-01", "r1-gpu-02")


@pytest.mark.parametrize(
    ("look", "walked"),
    [
        (lambda reader: reader.looks(["gpu-01", "gpu-02"], ["nightly"]), "sweep_looks"),
        (lambda reader: reader.open_findings(["gpu-01", "gpu-02"], ["nightly"]), "sweep_findings"),
        (lambda reader: reader.open_sweep_runs(), "ix_runs_state_created_at_id"),
        (lambda reader: reader.asleep_node_runs("r1", limit=1), "ix_node_runs_asleep"),
        (lambda reader: reader.awake_node_runs("r1"), "node_runs_run_id"),
        (lambda reader: reader.past_runs("gpu-01", limit=200), "ix_node_runs_node_run_created_at_run_id"),
    ],
)
def test_however_many_runs_there_were_an_index_leads_to_what_is_asked(
    store: SqlStore, url: str, look: Callable[[Reader], object], walked: str
) -> None:
    for statement, plan in plans(store, url, look):
        assert walked in plan, (statement, plan)
        assert not re.search(r"SCAN \w+$|SCAN \w+\n|Seq Scan", plan), (statement, plan)
