"""Runs: what is added comes back, and lists find it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.app.ports import RunFilter, RunHead
from service.domain.errors import BrokenRule, Conflict, InvalidInput, NotFound
from service.domain.run import NodeRunState, Run, Trigger, TriggerKind
from service.store.sql_store import SqlStore
from tests.store.made import NOON, SOURCE, add, node_run, plan, run

pytest_plugins = ["lab.fixtures"]


def ids(store: SqlStore, which: RunFilter, *, limit: int = 100) -> list[str]:
    return [one.id for one in store.read(lambda reader: reader.runs(which, cursor=None, limit=limit)).items]


def test_a_run_comes_back_as_it_was_added(store: SqlStore) -> None:
    made = run(
        trigger=Trigger(TriggerKind.ESCALATION, "r0"),
        reason="it hangs \u2713",
        waived=("abort",),
        retry_of="r-1",
        escalated_from="r0",
        from_step="abort",
        idempotency_key="key",
        created_at=NOON + timedelta(microseconds=1),
    )

    add(store, made)

    assert store.read(lambda reader: reader.run("r1")) == made


def test_a_runs_plan_comes_back_as_it_was_added(store: SqlStore) -> None:
    add(store, run(), node_run(node="gpu-01"), node_run(node="gpu-02", position=1))

    assert store.read(lambda reader: reader.scripts("r1", "gpu-02")) == plan(["gpu-02"]).scripts
    assert store.read(lambda reader: reader.scripts("r1", "gpu-03")) == ()
    assert store.read(lambda reader: reader.runbook_source("r1")) == SOURCE


def test_what_is_not_there_is_not_found(store: SqlStore) -> None:
    with pytest.raises(NotFound, match="no run r9"):
        store.read(lambda reader: reader.run("r9"))
    with pytest.raises(NotFound, match="no run r9"):
        store.read(lambda reader: reader.runbook_source("r9"))
    with pytest.raises(NotFound, match="no node run n9"):
        store.read(lambda reader: reader.history("n9"))
    with pytest.raises(NotFound, match="no attempt a9"):
        store.read(lambda reader: reader.attempt("a9"))
    with pytest.raises(NotFound, match="no gate g9"):
        store.read(lambda reader: reader.gate("g9"))
    assert store.read(lambda reader: reader.histories("r9")) == ()


def test_an_idempotency_key_is_used_once_by_each_person(store: SqlStore) -> None:
    add(store, run("r1", idempotency_key="key"))

    with pytest.raises(Conflict, match="ann used this idempotency key for run r1"):
        add(store, run("r2", idempotency_key="key"))
    add(store, run("r3", idempotency_key="key", requested_by="bob"))
    add(store, run("r4"))
    add(store, run("r5"))

    found = store.read(lambda reader: reader.run_by_key("ann", "key"))
    assert found is not None
    assert found.id == "r1"
    assert store.read(lambda reader: reader.run_by_key("ann", "other")) is None
    assert sorted(ids(store, RunFilter())) == ["r1", "r3", "r4", "r5"]


def test_a_run_without_a_node_breaks_a_rule(store: SqlStore) -> None:
    with pytest.raises(BrokenRule):
        store.write(lambda transaction: transaction.add_run(run(), source=SOURCE, plan=plan(), node_runs=[]))


def test_runs_are_found_by_each_filter_newest_first(store: SqlStore) -> None:
    add(store, run("r1", at=NOON), node_run("r1", "gpu-01", state=NodeRunState.SUCCEEDED))
    add(store, run("r2", at=NOON + timedelta(seconds=1), runbook="reboot"), node_run("r2", "gpu-02"))
    add(store, run("r3", at=NOON + timedelta(seconds=2), dry_run=True), node_run("r3", "gpu-01", acts=False))
    add(store, run("r4", at=NOON + timedelta(seconds=3), requested_by="bob"), node_run("r4", "gpu-01"))

    assert ids(store, RunFilter()) == ["r4", "r3", "r2", "r1"]
    assert ids(store, RunFilter(runbook="reboot")) == ["r2"]
    assert ids(store, RunFilter(node="gpu-01")) == ["r4", "r3", "r1"]
    assert ids(store, RunFilter(state=NodeRunState.SUCCEEDED)) == ["r1"]
    assert ids(store, RunFilter(dry_run=True)) == ["r3"]
    assert ids(store, RunFilter(dry_run=False)) == ["r4", "r2", "r1"]
    assert ids(store, RunFilter(requested_by="bob")) == ["r4"]
    assert ids(store, RunFilter(node="gpu-01", state=NodeRunState.QUEUED, requested_by="ann")) == ["r3"]


@pytest.mark.parametrize("which", [RunFilter(), RunFilter(node="gpu-01"), RunFilter(state=NodeRunState.QUEUED)])
def test_pages_neither_repeat_nor_skip_while_runs_are_added(store: SqlStore, which: RunFilter) -> None:
    # Several runs share one time, so that the id must break the tie.
    for number in range(9):
        add(store, run(f"r{number}", at=NOON + timedelta(seconds=number // 3)))
    seen: list[Run] = []
    cursor: str | None = None

    for page_number in range(9):
        at = cursor
        page = store.read(lambda reader: reader.runs(which, cursor=at, limit=2))  # noqa: B023
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
        add(store, run(f"late{page_number}", at=NOON + timedelta(hours=1, seconds=page_number)))

    assert [one.id for one in seen] == [f"r{number}" for number in reversed(range(9))]


@pytest.mark.parametrize(
    "cursor", ["", "x", "AAAA", "bnVsbA", "WyJydW5zIl0", "\u00fc", "WzEsMiwzXQ", "[" * 5000, "WyJydW5zIiwiMjAyNiIsMV0"]
)
def test_a_cursor_that_no_list_gave_is_refused(store: SqlStore, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        store.read(lambda reader: reader.runs(RunFilter(), cursor=cursor, limit=2))


def test_a_cursor_of_another_list_is_refused(store: SqlStore) -> None:
    add(store, run("r1"))
    add(store, run("r2"))
    cursor = store.read(lambda reader: reader.runs(RunFilter(), cursor=None, limit=1)).next_cursor

    with pytest.raises(InvalidInput, match="cursor"):
        store.read(lambda reader: reader.gates(None, cursor=cursor, limit=1))


def test_a_page_of_no_rows_is_refused(store: SqlStore) -> None:
    with pytest.raises(InvalidInput):
        store.read(lambda reader: reader.runs(RunFilter(), cursor=None, limit=0))


def test_a_list_shows_state_and_first_nodes(store: SqlStore) -> None:
    four = [node_run("r1", f"gpu-0{number}", position=9 - number) for number in range(4)]
    add(store, run("r1"), *four)
    add(store, run("r2"), node_run("r2", "gpu-07", state=NodeRunState.FAILED))

    heads = store.read(lambda reader: reader.heads(["r1", "r2", "r9"]))

    assert heads == {
        "r1": RunHead(NodeRunState.QUEUED, ("gpu-03", "gpu-02", "gpu-01"), True),
        "r2": RunHead(NodeRunState.FAILED, ("gpu-07",), False),
    }


def test_a_node_is_once_in_a_run(store: SqlStore) -> None:
    twice = replace(node_run(), id="other", acts=False)

    with pytest.raises(Conflict):
        add(store, run(), node_run(), twice)

    assert ids(store, RunFilter()) == []
