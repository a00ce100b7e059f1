"""A claim reads and then writes: of many who want the same at once, in two services, exactly one gets it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from service.domain.run import NodeRun
from service.store.sql_store import SqlStore
from tests.store.made import NOON, TestClock, add, node_run, run

pytest_plugins = ["lab.fixtures"]

PARTS = [f"gpu-{number:02}" for number in range(20)]
OWNERS = ("a1", "a2", "a3", "b1", "b2", "b3")


def claim(store: SqlStore, node_run_id: str, *, owner: str) -> NodeRun | None:
    return store.write(lambda transaction: transaction.claim(node_run_id, owner=owner, now=NOON))


def test_of_many_who_claim_at_once_in_two_services_each_part_goes_to_one(
    store: SqlStore, url: str, clock: TestClock
) -> None:
    add(store, run(), *(node_run("r1", node) for node in PARTS))
    other = SqlStore.open(url, clock)
    ready = Barrier(len(OWNERS))

    def claim_all(owner: str) -> list[str]:
        mine = store if owner.startswith("a") else other
        ready.wait(60)
        claimed = [claim(mine, f"r1-{node}", owner=owner) for node in PARTS]
        return [one.node for one in claimed if one is not None]

    with ThreadPoolExecutor(len(OWNERS)) as threads:
        got = dict(zip(OWNERS, threads.map(claim_all, OWNERS), strict=True))
    other.close()

    assert Counter(node for nodes in got.values() for node in nodes) == Counter(PARTS)
    stored = store.read(lambda reader: reader.node_runs("r1"))
    assert {one.node: (one.owner, one.epoch) for one in stored} == {
        node: (owner, 1) for owner, nodes in got.items() for node in nodes
    }
