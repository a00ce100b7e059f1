"""Lists stay fast however long the history is: each query walks an index, and none counts or skips."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from service.app.ports import AuditFilter, Reader, RunFilter
from service.domain.run import GateState, NodeRunState
from service.store import cursor
from service.store.sql_store import SqlStore
from tests.store.made import NOON, behind

pytest_plugins = ["lab.fixtures"]

RUNS = cursor.encode("runs", NOON, "r1")
GATES = cursor.encode("gates", NOON, "g1")
EVENTS = cursor.encode("audit", NOON, 7)


def runs(which: RunFilter) -> Callable[[Reader], object]:
    return lambda reader: reader.runs(which, cursor=RUNS, limit=50)


def audit(which: AuditFilter) -> Callable[[Reader], object]:
    return lambda reader: reader.audit(which, cursor=EVENTS, limit=50)


def plans(store: SqlStore, url: str, look: Callable[[Reader], object]) -> list[tuple[str, str]]:
    """Return each statement of a look with its plan."""
    asked: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        asked.append((statement, parameters))

    engine: Engine = store._database.reader
    event.listen(engine, "before_cursor_execute", note)
    store.read(look)
    event.remove(engine, "before_cursor_execute", note)
    found = []
    with behind(url) as connection:
        explain = "EXPLAIN QUERY PLAN"
        if connection.dialect.name == "postgresql":
            explain = "EXPLAIN"
            # The tables are empty: without this it would rightly read them whole.
            connection.execute(text("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off"))
        for statement, parameters in asked:
            if statement.startswith("SELECT"):
                rows = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
                # SQLAlchemy says LIMIT n OFFSET 0 to SQLite.
                skips_none = isinstance(parameters, tuple) and parameters[-1:] == (0,)
                shown = statement.removesuffix(" OFFSET ?") if skips_none else statement
                found.append((shown, "\n".join(str(row[-1]) for row in rows)))
    return found


@pytest.mark.parametrize(
    "look",
    [
        runs(RunFilter()),
        runs(RunFilter(node="gpu-01")),
        runs(RunFilter(node="gpu-01", state=NodeRunState.FAILED, runbook="free-gpu")),
        runs(RunFilter(state=NodeRunState.FAILED)),
        runs(RunFilter(runbook="free-gpu")),
        runs(RunFilter(requested_by="ann", dry_run=True)),
        audit(AuditFilter()),
        audit(AuditFilter(run_id="r1")),
        audit(AuditFilter(node="gpu-01", since=NOON, until=NOON)),
        audit(AuditFilter(person="ann")),
        audit(AuditFilter(action="node.held", until=NOON)),
        audit(AuditFilter(since=NOON)),
        lambda reader: reader.audit_after(7, run_id=None, limit=50),
        lambda reader: reader.audit_after(7, run_id="r1", limit=50),
        lambda reader: reader.gates(None, cursor=GATES, limit=50),
        lambda reader: reader.gates(GateState.OPEN, cursor=GATES, limit=50),
        lambda reader: reader.due(NOON, limit=50),
        lambda reader: reader.next_wake(),
        lambda reader: reader.node_runs("r1"),
        lambda reader: reader.run_by_key("ann", "key"),
    ],
)
def test_a_list_walks_an_index_in_its_order(store: SqlStore, url: str, look: Callable[[Reader], object]) -> None:
    found = plans(store, url, look)

    assert found
    for statement, plan in found:
        assert not re.search(r"\bOFFSET\b|\bcount\(", statement), statement
        assert re.search(r"USING (COVERING )?INDEX|USING INTEGER PRIMARY KEY|Index (Only )?Scan", plan), plan
        assert not re.search(r"TEMP B-TREE|SCAN \w+$|SCAN \w+\n|Seq Scan|Sort", plan), (statement, plan)


@pytest.mark.parametrize(
    "look",
    [
        lambda reader: reader.backlog(),
        lambda reader: reader.owned_by_others("me"),
        lambda reader: reader.holder("gpu-01"),
        lambda reader: reader.open_acting(),
        lambda reader: reader.open_acting(runbook="free-gpu"),
        lambda reader: reader.open_acting(node="gpu-01"),
    ],
)
def test_what_is_open_is_found_without_a_look_at_what_has_ended(
    store: SqlStore, url: str, look: Callable[[Reader], object]
) -> None:
    for statement, plan in plans(store, url, look):
        partial = r"(uq_node_runs_one_acting|ix_node_runs_(open|due|claimed)|ix_gates_state)"
        assert re.search(partial, plan), (statement, plan)
        assert not re.search(r"SCAN \w+$|SCAN \w+\n|Seq Scan", plan), (statement, plan)
