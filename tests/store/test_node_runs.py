"""Node runs: claims, epochs, one acting at a time on a node, and what is not lost between."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from service.app.ports import Backlog, RunFilter, Transaction
from service.domain.errors import Conflict, EpochLost, NotFound
from service.domain.run import HOLDING_STATES, NodeRun, NodeRunState, StepOutcome, StepResult, Verdict, WellNow
from service.store.sql_store import SqlStore
from tests.store.made import NOON, SOURCE, add, gate, node_run, plan, run

pytest_plugins = ["lab.fixtures"]

LATER = NOON + timedelta(minutes=1)


def read(store: SqlStore, node_run_id: str = "r1-gpu-01") -> NodeRun:
    return store.read(lambda reader: reader.node_run(node_run_id))


def claim(store: SqlStore, node_run_id: str = "r1-gpu-01", *, owner: str = "me", now: datetime = NOON) -> NodeRun:
    claimed = store.write(lambda transaction: transaction.claim(node_run_id, owner=owner, now=now))
    assert claimed is not None
    return claimed


def save(store: SqlStore, changed: NodeRun) -> None:
    store.write(lambda transaction: transaction.save_node_run(changed))


def release(store: SqlStore, changed: NodeRun) -> None:
    store.write(lambda transaction: transaction.release(changed))


def state_of_run(store: SqlStore, run_id: str = "r1") -> NodeRunState:
    return store.read(lambda reader: reader.heads([run_id]))[run_id].state


def test_a_node_run_comes_back_as_it_was_saved(store: SqlStore) -> None:
    add(store, run())
    changed = replace(
        claim(store),
        state=NodeRunState.STUCK,
        verdict=Verdict.UNKNOWN,
        reason="nobody knows",
        wake_at=LATER,
        first_boot_id="boot-1",
        started_at=NOON,
        ended_at=LATER,
        cancel_requested_by="ann",
        cancel_reason="enough",
        results=(StepResult("look", StepOutcome.OK, "r", Verdict.WELL, WellNow.YES), StepResult("abort", None)),
    )

    save(store, changed)

    assert read(store) == changed


def test_a_claim_is_taken_once(store: SqlStore) -> None:
    add(store, run())

    first = store.write(lambda transaction: transaction.claim("r1-gpu-01", owner="a", now=NOON))
    second = store.write(lambda transaction: transaction.claim("r1-gpu-01", owner="b", now=NOON))

    assert first == replace(node_run(), owner="a", epoch=1)
    assert second is None
    assert read(store) == first


@pytest.mark.parametrize(
    "not_due",
    [{"wake_at": LATER}, {"wake_at": None}, {"state": NodeRunState.FAILED}],
)
def test_what_is_not_due_is_not_claimed(store: SqlStore, not_due: dict[str, Any]) -> None:
    add(store, run(), node_run(**not_due))

    claimed = store.write(lambda transaction: transaction.claim("r1-gpu-01", owner="a", now=NOON))

    assert claimed is None


def test_due_rows_are_open_unclaimed_and_oldest_first(store: SqlStore) -> None:
    wakes = {"gpu-01": 30, "gpu-02": 10, "gpu-03": 20, "gpu-04": 90}
    parts = [node_run("r1", node, wake_at=NOON + timedelta(seconds=after)) for node, after in wakes.items()]
    add(store, run(), *parts, node_run("r1", "gpu-05", state=NodeRunState.FAILED), node_run("r1", "gpu-06"))
    claim(store, "r1-gpu-06")

    due = store.read(lambda reader: reader.due(LATER, limit=10))
    two = store.read(lambda reader: reader.due(LATER, limit=2))

    assert [one.node for one in due] == ["gpu-02", "gpu-03", "gpu-01"]
    assert two == due[:2]
    assert store.read(lambda reader: reader.next_wake()) == NOON + timedelta(seconds=10)


def test_nothing_wakes_an_empty_store(store: SqlStore) -> None:
    assert store.read(lambda reader: reader.next_wake()) is None


def test_a_write_with_a_lost_epoch_changes_nothing(store: SqlStore) -> None:
    add(store, run())
    old = claim(store)
    taken = store.write(lambda transaction: transaction.take_from(old, owner="other"))

    assert taken == replace(old, owner="other", epoch=2)
    with pytest.raises(EpochLost, match="taken by other"):
        save(store, replace(old, state=NodeRunState.FAILED))
    with pytest.raises(EpochLost):
        release(store, replace(old, state=NodeRunState.FAILED))
    assert read(store) == taken
    assert store.read(lambda reader: reader.owned_by_others("me")) == (taken,)
    assert store.read(lambda reader: reader.owned_by_others("other")) == ()


def test_a_claim_that_changed_hands_is_not_taken(store: SqlStore) -> None:
    add(store, run())
    old = claim(store)
    store.write(lambda transaction: transaction.take_from(old, owner="b"))

    assert store.write(lambda transaction: transaction.take_from(old, owner="c")) is None
    release(store, replace(read(store), state=NodeRunState.SUCCEEDED))
    assert store.write(lambda transaction: transaction.take_from(replace(old, epoch=2, owner="b"), owner="c")) is None


def test_a_released_node_run_is_claimed_again_with_the_next_epoch(store: SqlStore) -> None:
    add(store, run())

    release(store, replace(claim(store), state=NodeRunState.RUNNING, wake_at=LATER))

    assert read(store) == node_run(state=NodeRunState.RUNNING, epoch=1, wake_at=LATER)
    assert claim(store, now=LATER).epoch == 2


@pytest.mark.parametrize("state", sorted(HOLDING_STATES))
def test_one_acting_node_run_has_a_node_to_itself(store: SqlStore, state: NodeRunState) -> None:
    add(store, run("r1"), node_run("r1", state=state))
    add(store, run("r2"))

    with pytest.raises(
        Conflict, match=f"gpu-01 is taken by node run r1-gpu-01 of run r1 .free-gpu, {state}."
    ) as caught:
        save(store, replace(read(store, "r2-gpu-01"), state=NodeRunState.RUNNING))

    assert "unstick show r1" in caught.value.way_out
    assert read(store, "r2-gpu-01") == node_run("r2")
    holder = store.read(lambda reader: reader.holder("gpu-01"))
    assert holder == node_run("r1", state=state)
    assert store.read(lambda reader: reader.holder("gpu-02")) is None


def test_a_run_that_begins_on_a_taken_node_is_refused_whole(store: SqlStore) -> None:
    add(store, run("r1"), node_run("r1", state=NodeRunState.RUNNING))

    with pytest.raises(Conflict, match="gpu-01 is taken by node run r1-gpu-01"):
        add(store, run("r2"), node_run("r2", "gpu-02"), node_run("r2", "gpu-01", state=NodeRunState.WAITING))

    assert store.read(lambda reader: reader.node_runs("r2")) == ()


def test_those_who_do_not_act_take_no_node(store: SqlStore) -> None:
    add(store, run("r1"), node_run("r1", state=NodeRunState.RUNNING))
    add(store, run("r2"), node_run("r2", acts=False))

    save(store, replace(read(store, "r2-gpu-01"), state=NodeRunState.RUNNING))

    assert read(store, "r2-gpu-01").state is NodeRunState.RUNNING


def test_a_taken_node_leaves_the_rest_of_the_write_usable(store: SqlStore) -> None:
    add(store, run("r1"), node_run("r1", state=NodeRunState.RUNNING))
    add(store, run("r2"))

    def wait_instead(transaction: Transaction) -> None:
        mine = transaction.node_run("r2-gpu-01")
        try:
            transaction.save_node_run(replace(mine, state=NodeRunState.RUNNING))
        except Conflict as error:
            transaction.save_node_run(replace(mine, reason=error.reason, wake_at=None))

    store.write(wait_instead)

    assert "taken by node run r1-gpu-01" in read(store, "r2-gpu-01").reason


def test_the_node_changes_hands_in_one_write(store: SqlStore) -> None:
    add(store, run("r1"), node_run("r1", state=NodeRunState.RUNNING))

    def escalate(transaction: Transaction) -> None:
        transaction.save_node_run(replace(transaction.node_run("r1-gpu-01"), state=NodeRunState.FAILED))
        next_one = node_run("r2", state=NodeRunState.RUNNING)
        transaction.add_run(run("r2"), source=SOURCE, plan=plan(), node_runs=[next_one])

    store.write(escalate)

    holder = store.read(lambda reader: reader.holder("gpu-01"))
    assert holder is not None
    assert holder.id == "r2-gpu-01"


def test_an_end_is_final(store: SqlStore) -> None:
    add(store, run(), node_run(state=NodeRunState.CANCELLED))
    ended = read(store)

    with pytest.raises(Conflict, match="has ended as cancelled"):
        save(store, replace(ended, state=NodeRunState.SUCCEEDED))
    save(store, replace(ended, reason="the script ended later, with 0"))

    assert read(store) == replace(ended, reason="the script ended later, with 0")


def test_a_cancel_is_not_undone_by_whoever_did_not_see_it(store: SqlStore) -> None:
    add(store, run())
    claimed = claim(store)

    store.write(lambda transaction: transaction.request_cancel("r1-gpu-01", by="ann", reason="wrong node"))
    store.write(lambda transaction: transaction.request_cancel("r1-gpu-01", by="bob", reason="me too"))
    release(store, replace(claimed, reason="step 2"))

    found = read(store)
    assert (found.cancel_requested_by, found.cancel_reason, found.reason) == ("ann", "wrong node", "step 2")


def test_an_ended_node_run_is_neither_cancelled_nor_woken(store: SqlStore) -> None:
    ended = node_run(state=NodeRunState.FAILED, wake_at=None)
    add(store, run(), ended)

    store.write(lambda transaction: transaction.request_cancel(ended.id, by="ann", reason="late"))
    store.write(lambda transaction: transaction.wake([ended.id], at=NOON))

    assert read(store) == ended


def test_a_wake_makes_unclaimed_node_runs_due(store: SqlStore) -> None:
    add(store, run(), node_run(wake_at=None), node_run("r1", "gpu-02", wake_at=LATER), node_run("r1", "gpu-03"))

    store.write(lambda transaction: transaction.wake(["r1-gpu-01", "r1-gpu-02"], at=NOON))
    store.write(lambda transaction: transaction.wake([], at=NOON))

    assert [one.wake_at for one in store.read(lambda reader: reader.node_runs("r1"))] == [NOON, NOON, NOON]


@pytest.mark.parametrize("wanted", [None, LATER + timedelta(hours=1)])
def test_a_wake_that_comes_while_it_is_claimed_is_not_lost(store: SqlStore, wanted: datetime | None) -> None:
    add(store, run())
    claimed = claim(store)

    store.write(lambda transaction: transaction.wake([claimed.id], at=LATER))
    store.write(lambda transaction: transaction.wake([claimed.id], at=LATER + timedelta(seconds=9)))
    save(store, replace(claimed, wake_at=None))
    release(store, replace(claimed, state=NodeRunState.WAITING, wake_at=wanted))

    assert read(store).wake_at == LATER


def test_a_wake_does_not_put_off_what_is_due_before(store: SqlStore) -> None:
    add(store, run())
    claimed = claim(store)

    store.write(lambda transaction: transaction.wake([claimed.id], at=LATER))
    release(store, replace(claimed, state=NodeRunState.WAITING, wake_at=NOON))

    assert read(store).wake_at == NOON


def test_a_wake_before_the_claim_or_before_the_end_has_no_effect_later(store: SqlStore) -> None:
    add(store, run())
    claimed = claim(store)
    store.write(lambda transaction: transaction.wake([claimed.id], at=NOON))
    release(store, replace(claimed, wake_at=None))
    again = claim(store)

    release(store, replace(again, state=NodeRunState.WAITING, wake_at=None))
    assert read(store).wake_at is None

    store.write(lambda transaction: transaction.wake([claimed.id], at=NOON))
    last = claim(store)
    store.write(lambda transaction: transaction.wake([claimed.id], at=NOON))
    release(store, replace(last, state=NodeRunState.SUCCEEDED, wake_at=None))
    assert read(store).wake_at is None


def test_the_state_of_a_run_follows_its_node_runs(store: SqlStore) -> None:
    add(store, run(), node_run(), node_run("r1", "gpu-02"))
    seen = [state_of_run(store)]

    for node, state in (
        ("gpu-01", NodeRunState.RUNNING),
        ("gpu-01", NodeRunState.WAITING),
        ("gpu-02", NodeRunState.FAILED),
        ("gpu-01", NodeRunState.SUCCEEDED),
    ):
        save(store, replace(read(store, f"r1-{node}"), state=state))
        seen.append(state_of_run(store))

    assert seen == ["queued", "running", "waiting", "waiting", "failed"]
    page = store.read(lambda reader: reader.runs(RunFilter(state=NodeRunState.FAILED), cursor=None, limit=5))
    assert page.items == (run(),)


def test_open_acting_node_runs_are_found_by_runbook_and_node(store: SqlStore) -> None:
    first = node_run("r1", created_at=LATER)
    second = node_run("r2", "gpu-02", state=NodeRunState.STUCK)
    other = node_run("r3", runbook="reboot")
    add(store, run("r1"), first)
    add(store, run("r2"), second, node_run("r2", "gpu-03", acts=False))
    add(store, run("r3"), other, node_run("r3", "gpu-04", state=NodeRunState.FAILED, runbook="reboot"))

    assert store.read(lambda reader: reader.open_acting()) == (second, other, first)
    assert store.read(lambda reader: reader.open_acting(runbook="free-gpu")) == (second, first)
    assert store.read(lambda reader: reader.open_acting(node="gpu-01")) == (other, first)
    assert store.read(lambda reader: reader.open_acting(runbook="reboot", node="gpu-02")) == ()


def test_the_backlog_counts_what_is_open(store: SqlStore) -> None:
    states = [NodeRunState.QUEUED, NodeRunState.QUEUED, NodeRunState.STUCK, NodeRunState.FAILED]
    add(store, run(), *[node_run("r1", f"gpu-0{n}", state=state) for n, state in enumerate(states, start=1)])
    store.write(lambda transaction: transaction.add_gate(gate()))

    backlog = store.read(lambda reader: reader.backlog())

    assert backlog == Backlog({NodeRunState.QUEUED: 2, NodeRunState.STUCK: 1}, open_gates=1)


def test_a_node_run_that_is_not_there_cannot_be_saved(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        save(store, node_run("r9"))


def test_a_write_reads_what_it_has_written(store: SqlStore) -> None:
    add(store, run())

    def change(transaction: Transaction) -> tuple[NodeRun, NodeRun]:
        transaction.save_node_run(replace(transaction.node_run("r1-gpu-01"), reason="inside"))
        return transaction.node_run("r1-gpu-01"), read_outside

    read_outside = read(store)
    inside, outside = store.write(change)

    assert (inside.reason, outside.reason, read(store).reason) == ("inside", "", "inside")
