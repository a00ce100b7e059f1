"""History grows: what a page costs does not. Cost is counted in SQLite's own steps, never in time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from service.app.ports import AuditFilter, Page, Reader, RunFilter
from service.domain.run import NodeRunState
from service.domain.script import Stream
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, add, append, attempt, behind, fact, run

pytest_plugins = ["lab.fixtures"]

#: Steps of one page beside those that the rows themselves cost, on an empty history.
ALLOWANCE = 2
EVERY = 50
NUMBERS = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :runs)"
TIME = "strftime('%Y-%m-%dT%H:%M:%S.000000Z', 1700000000 + n, 'unixepoch')"
SEEDS = (
    f"""{NUMBERS} INSERT INTO runs (id, runbook, digest, dry_run, requested_by, requesters, trigger_kind, trigger_name,
    params, created_at, reason, waived, state, first_nodes, more_nodes, source_sha256, envelope_sha256, controllers)
    SELECT printf('h%09d', n), 'book-' || (n % 20), 'd', 0, 'ann', '[]', 'person', '', '{{}}', {TIME}, '', '[]',
    CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, '[]', 0,
    (SELECT sha256 FROM runbook_sources), 'e', '{{}}' FROM number""",
    f"""{NUMBERS} INSERT INTO node_runs (id, run_id, node, state, position, dry_run, acts, runbook, created_at, reason,
    epoch, cancel_reason, attributes, results, run_created_at)
    SELECT printf('h%09d-n', n), printf('h%09d', n), 'gpu-' || (n % 1000),
    CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, 0, 0, 1, 'book-' || (n % 20), {TIME}, '', 1, '', '{{}}',
    '[]', {TIME} FROM number""",
    f"""{NUMBERS} INSERT INTO attempts (id, node_run_id, step, kind, number, round, state, intended_at, script_sha256,
    acting, ended_by_us, targets, reason, stdout_bytes, stderr_bytes, truncated)
    SELECT printf('h%09d-a%d', n, step), printf('h%09d-n', n), 'step', 'check', step, 1, 'finished', {TIME}, 's', 0, 0,
    '[]', '', 0, 0, 0 FROM number, (SELECT 1 AS step UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5)""",
    f"""{NUMBERS} INSERT INTO output_chunks SELECT printf('h%09d-a1', n), 'stdout', 0, 20000, zeroblob(20000)
    FROM number WHERE n % 100 = 0""",
    f"""{NUMBERS}, five(step) AS (VALUES (0), (1), (2), (3), (4)) INSERT INTO audit_events
    SELECT (n - 1) * 5 + step + 1, {TIME}, CASE WHEN n % 1000 = 0 THEN 'node.held' ELSE 'attempt.finished' END, 'x',
    'ann', '', printf('h%09d', n), 'gpu-' || (n % 1000), '', '{{}}', 'b', n || '.' || step, 'h' FROM number, five""",
)


@pytest.fixture(scope="module", params=[5_000, pytest.param(200_000, marks=pytest.mark.proof)])
def grown(request: pytest.FixtureRequest, migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give a store with a long history, and how many runs that is."""
    path = tmp_path_factory.mktemp("grown") / "unstick.db"
    path.write_bytes(migrated_file.read_bytes())
    url = f"sqlite:///{path}"
    store = SqlStore.open(url, TestClock())
    add(store, run("first"))
    with behind(url) as connection:
        guard = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'audit_events_next'")).scalar_one()
        # A history that is made up is no chain.
        connection.execute(text("DROP TRIGGER audit_events_next"))
        for seed in SEEDS:
            connection.execute(text(seed), {"runs": request.param})
        connection.exec_driver_sql(guard)
    yield store, request.param
    store.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


class Steps:
    """Counts what SQLite does, in steps of its virtual machine."""

    def __init__(self, store: SqlStore) -> None:
        self.count = 0
        self._store = store
        store._database.reader.dispose()
        event.listen(store._database.reader, "connect", self._listen)

    def of(self, look: Callable[[Reader], Any]) -> tuple[int, Any]:
        self._store.read(lambda reader: reader.hold("warm"))
        self.count = 0
        found = self._store.read(look)
        return self.count, found

    def _listen(self, connection: Any, _record: Any) -> None:
        def one() -> int:
            self.count += 1
            return 0

        connection.set_progress_handler(one, 10)


def page(which: RunFilter | AuditFilter, cursor: str | None) -> Callable[[Reader], Page[Any]]:
    if isinstance(which, RunFilter):
        return lambda reader: reader.runs(which, cursor=cursor, limit=EVERY)
    return lambda reader: reader.audit(which, cursor=cursor, limit=EVERY)


def test_a_late_page_costs_what_the_first_one_costs(grown: tuple[SqlStore, int]) -> None:
    store, runs = grown
    steps = Steps(store)
    filters = (
        RunFilter(),
        RunFilter(node="gpu-7"),
        RunFilter(state=NodeRunState.FAILED),
        RunFilter(runbook="book-3"),
        AuditFilter(),
        AuditFilter(node="gpu-7"),
        AuditFilter(action="node.held"),
    )
    for which in filters:
        first, found = steps.of(page(which, None))
        pages = 1
        highest = first
        while found.next_cursor is not None and pages < 1000:
            cost, found = steps.of(page(which, found.next_cursor))
            highest = max(highest, cost)
            pages += 1

        # About thirty steps for each row and column that is read, and none for those that are passed over.
        assert first < EVERY * 100, which
        assert highest <= first * ALLOWANCE, (which, pages, runs)


def test_what_is_open_costs_nothing_for_what_has_ended(grown: tuple[SqlStore, int]) -> None:
    store, _ = grown
    steps = Steps(store)
    for look in (
        lambda reader: reader.backlog(),
        lambda reader: reader.next_wake(),
        lambda reader: reader.owned_by_others("me"),
        lambda reader: reader.open_acting(),
        lambda reader: reader.holder("gpu-7"),
        lambda reader: reader.audit(AuditFilter(person="nobody"), cursor=None, limit=EVERY),
    ):
        cost, _found = steps.of(look)

        assert cost < 50


def test_the_store_goes_on_behind_a_long_history(grown: tuple[SqlStore, int]) -> None:
    store, runs = grown

    append(store, fact(1))
    store.write(lambda transaction: transaction.add_attempt(attempt("first-gpu-01")))

    newest = store.read(lambda reader: reader.audit_after(runs * 5, run_id=None, limit=9))
    assert [one.seq for one in newest] == [runs * 5 + 1]
    assert len(store.read(lambda reader: reader.output("h000000100-a1", Stream.STDOUT))) == 20_000
