"""What a roll-out asks the record: few rows, however many nodes there are."""

from datetime import timedelta
from itertools import product

from service.domain.limits import has_failed
from service.domain.run import NodeRun, NodeRunState, Verdict
from service.store.sql_store import SqlStore
from tests.store.made import NOON, add, node_run, run

pytest_plugins = ["lab.fixtures"]

LATER = NOON + timedelta(minutes=1)


def ids(*found: NodeRun) -> list[str]:
    return [one.id for one in found]


def test_a_rollout_is_told_exactly_its_failures_and_its_first_wave(store: SqlStore) -> None:
    kinds = product(NodeRunState, [None, *Verdict])
    parts = [
        node_run(node=f"n{number:02}", position=number, state=state, verdict=verdict, acts=False)
        for number, (state, verdict) in enumerate(kinds)
    ]
    add(store, run(), *parts)

    counted = store.read(lambda reader: reader.rollout("r1", canary=0))
    with_canaries = store.read(lambda reader: reader.rollout("r1", canary=2))

    assert ids(*counted) == ids(*(one for one in parts if has_failed(one)))
    assert ids(*with_canaries) == ids(*(one for one in parts if has_failed(one) or one.position < 2))


def test_only_those_that_have_their_nodes_count_as_acting(store: SqlStore) -> None:
    queued = node_run(node="gpu-01")
    holding = node_run(node="gpu-02", state=NodeRunState.WAITING)
    reading = node_run(node="gpu-03", state=NodeRunState.RUNNING, acts=False)
    other = node_run(node="gpu-04", state=NodeRunState.RUNNING, runbook="other")
    add(store, run(), queued, holding, reading, other)

    assert ids(*store.read(lambda reader: reader.acting_on_nodes("free-gpu"))) == ["r1-gpu-02"]


def test_those_that_are_due_anyway_are_not_woken(store: SqlStore) -> None:
    ending = node_run(node="gpu-01", state=NodeRunState.RUNNING)
    due = node_run(node="gpu-02")
    asleep = node_run(node="gpu-03", wake_at=None)
    later = node_run(node="gpu-04", wake_at=LATER)
    asking = node_run(node="gpu-05", owner="me")
    running = node_run(node="gpu-06", state=NodeRunState.RUNNING, wake_at=None)
    add(store, run(), ending, due, asleep, later, asking, running)

    found = store.read(lambda reader: reader.asleep(ending, now=NOON))

    assert found == ("r1-gpu-03", "r1-gpu-04", "r1-gpu-05")


def test_other_runs_wait_for_the_runbook_and_for_the_node_when_both_act(store: SqlStore) -> None:
    ending = node_run(node="gpu-01", state=NodeRunState.RUNNING)
    add(store, run(), ending)
    same_node = node_run("r2", "gpu-01", runbook="other", wake_at=None)
    same_runbook = node_run("r2", "gpu-02", wake_at=None)
    neither = node_run("r2", "gpu-03", runbook="other", wake_at=None)
    reading = node_run("r2", "gpu-04", acts=False, wake_at=None)
    add(store, run("r2"), same_node, same_runbook, neither, reading)

    found = store.read(lambda reader: reader.asleep(ending, now=NOON))

    assert found == ("r2-gpu-01", "r2-gpu-02")


def test_a_run_tells_which_states_its_nodes_have(store: SqlStore) -> None:
    add(store, run(), node_run(node="gpu-01"), node_run(node="gpu-02", state=NodeRunState.FAILED))

    assert store.read(lambda reader: reader.states("r1")) == {NodeRunState.QUEUED, NodeRunState.FAILED}
