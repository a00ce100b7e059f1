"""Two services at the end of one chain: the second waits for the first, and plays its change once."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lab.process import wait_until
from service.app.ports import Transaction
from service.domain.audit import first_fault
from service.store.audit import extend_chain
from service.store.sql_store import SqlStore
from tests.store.made import NOON, behind, fact

pytest_plugins = ["lab.fixtures"]


#: Whether a session of this database waits for a lock.
SOMEBODY_WAITS = (
    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_change_waits_for_the_chain_and_is_played_once(store: SqlStore, url: str) -> None:
    played: list[int] = []

    def change(transaction: Transaction) -> None:
        played.append(1)
        transaction.append(fact(2))

    # One connection for all looks: the change gives up its wait after three seconds, and would be played again.
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as looking:

        def somebody_waits() -> bool:
            return looking.execute(SOMEBODY_WAITS).fetchone() == (True,)

        with behind(url) as other:
            extend_chain(other, [fact(1)], at=NOON)
            asked = pool.submit(store.write, change)
            wait_until(somebody_waits, "the change waits for the chain")
        asked.result(60)

    events = list(store.audit_events())
    assert played == [1]
    assert [one.fact.body["n"] for one in events] == [1, 2]
    assert first_fault(events) is None
