"""Rows that were changed behind the service's back are found by what the record says of them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from service.app.ports import Transaction
from service.app.resolve import resolve
from service.domain.agreement import Compared
from service.domain.audit import Fact
from service.domain.run import NodeRunState, ResolveAs, Run
from service.domain.script import Report, ReportState
from service.executors.scripted import Answer, exits
from service.store.sql_store import SqlStore
from tests.app.conftest import RUNBOOKS, table, works
from tests.store.conftest import KINDS
from tests.store.made import add, behind, gate, node_run
from tests.store.made import run as run_as_made
from tests.support.world import OPERATOR, World, local_nodes

pytest_plugins = ["lab.fixtures"]

NODES = ("gpu-01", "gpu-02", "gpu-03")
LOST = Answer(Report(ReportState.UNKILLABLE, pid=7, wchan="request_wait_answer"))


@pytest.fixture
def world(url: str) -> Iterator[World]:
    answers = {**works("cure"), "gpu-02:cure.run": [LOST], "gpu-03:cure.check": [exits(77)]}
    executor = table(NODES, answers)
    built = World.build(url, executor, inventory=local_nodes(*NODES), runbooks=RUNBOOKS)
    built.scripted = executor
    yield built
    built.close()


@pytest.fixture
def run(world: World) -> Run:
    """Give a run that is cured on one node, stuck on the next and well on the third, and another that waits."""
    made = world.request("cure", *NODES, params={"level": 3})
    world.play(made)
    world.request("cure", "gpu-01")
    world.settle()
    return made


def told(world: World) -> tuple[list[str], Compared]:
    store, compared = world.service.store, Compared()
    assert isinstance(store, SqlStore)
    return [f"{fault.about}: {fault.reason}" for fault in store.row_faults(compared)], compared


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_rows_that_the_service_wrote_agree_with_its_events(world: World, run: Run) -> None:
    before = told(world)
    resolve(world.service, run.id, node="gpu-02", resolve_as=ResolveAs.FAILED, reason="seen", person=OPERATOR)
    between = told(world)
    world.settle()

    after = told(world)

    assert before == between == after == ([], Compared(runs=2, node_runs=4, gates=3, not_comparable=0))


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "UPDATE gates SET decided_by = 'eve' WHERE node = 'gpu-01' AND state = 'approved'",
            "its answered by is eve, ",
        ),
        (
            "UPDATE gates SET state = 'approved', decided_by = 'eve' WHERE state = 'open'",
            "its state is approved, and seq",
        ),
        ("UPDATE gates SET state = 'granted' WHERE state = 'open'", "its state is granted, and seq"),
        ("UPDATE gates SET digest = 'x' WHERE state = 'open'", "its digest is x, and seq"),
        ("UPDATE gates SET targets = '[\"all\"]' WHERE state = 'open'", "its targets is ['all'], and seq"),
        ("UPDATE gates SET expires_at = opened_at WHERE state = 'open'", "its expires at is 2026-11-29T03:00:"),
        ("UPDATE node_runs SET verdict = 'well' WHERE verdict = 'cured'", "its verdict is well, and seq"),
        (
            "UPDATE node_runs SET verdict = 'cured' WHERE state = 'waiting'",
            "its verdict is cured, and no event says so",
        ),
        ("UPDATE node_runs SET state = 'failed' WHERE state = 'waiting'", "its state is failed, and no event says so"),
        ("UPDATE node_runs SET state = 'failed' WHERE state = 'stuck'", "its state is failed, and seq"),
        ("UPDATE node_runs SET reason = 'x' WHERE verdict = 'well'", "its reason is x, and seq"),
        ("UPDATE node_runs SET results = replace(results, 'ok', 'changed') WHERE verdict = 'well'", "its steps is {"),
        ("UPDATE node_runs SET results = '{' WHERE verdict = 'well'", "its steps is {, and seq"),
        ("UPDATE runs SET requested_by = 'eve' WHERE more_nodes = false", "its requested by is eve, and seq"),
        ("UPDATE runs SET params = replace(params, '3', '9')", "its params is {'level': 9}, and seq"),
        ("UPDATE runs SET state = 'succeeded' WHERE state = 'waiting'", "its state is succeeded, and seq"),
        ("DELETE FROM gates WHERE state = 'open'", "the row is gone, and seq"),
    ],
)
def test_a_row_that_was_changed_by_hand_is_named_with_both_words(
    world: World, run: Run, url: str, statement: str, reason: str
) -> None:
    with behind(url) as connection:
        changed = connection.execute(text(statement)).rowcount

    faults, _ = told(world)

    assert changed >= 1
    assert len(faults) == changed
    assert reason in faults[0]


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_rows_too_many_and_too_few_are_named(world: World, run: Run, url: str) -> None:
    taken = ("run_id", "node_run_id", "node", "step", "kind", "digest", "boot_id", "targets", "opened_at", "expires_at")
    same = ", ".join((*taken, "check_attempt_id", "reason"))
    with behind(url) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET session_replication_role = 'replica'"))
        connection.execute(
            text(
                f"INSERT INTO gates (id, round, state, decided_by, {same}) "
                f"SELECT id || 'x', 9, 'approved', 'eve', {same} FROM gates WHERE state = 'open'"
            )
        )
        connection.execute(text(f"DELETE FROM runs WHERE id = '{run.id}'"))

    (gone, forged), compared = told(world)

    assert gone.startswith(f"run/{run.id}: the row is gone, and seq 1 tells of it")
    assert forged.endswith("x: no event tells of this row")
    assert compared.runs == 1


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_a_node_that_was_taken_out_of_a_run_or_put_into_it_is_noticed(world: World, run: Run, url: str) -> None:
    with behind(url) as connection:
        connection.execute(text("UPDATE node_runs SET node = 'gpu-99' WHERE state = 'stuck'"))

    (fault,), _ = told(world)

    assert fault == f"run/{run.id}: its nodes are gpu-01, gpu-99, gpu-03, and gpu-01, gpu-02, gpu-03 were asked for"


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_what_an_earlier_version_did_not_tell_is_counted_and_no_fault(store: SqlStore) -> None:
    add(store, run_as_made(), node_run(state=NodeRunState.WAITING))
    opened = gate()
    told_then = {"gate": opened.id, "kind": opened.kind, "digest": opened.digest, "boot_id": opened.boot_id}
    body = {**told_then, "targets": list(opened.targets), "rule": None}
    fact = Fact("gate.opened", f"gate/{opened.id}", "unstick", run_id="r1", node=opened.node, step="abort", body=body)

    def record(transaction: Transaction) -> None:
        transaction.add_gate(opened)
        transaction.append(fact)

    store.write(record)
    compared = Compared()

    assert [fault.about for fault in store.row_faults(compared)] == ["run/r1"]
    assert (compared.gates, compared.not_comparable) == (1, 2)
