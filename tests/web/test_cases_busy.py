"""Many write, many look, and another program locks the file now and then: nobody sees it, and nothing is lost."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from service.app.tokens import create_token
from service.domain.person import Role
from service.domain.run import NodeRunState, StepOutcome
from service.domain.script import ScriptKind
from service.executors.scripted import ScriptedExecutor, exits
from service.main import build_engine
from service.web.app import create_app
from tests.app.conftest import RUNBOOKS
from tests.support.world import OPERATOR, RealClock, World, local_nodes
from tests.web.api import Api

NODES = tuple(f"n{number:02}" for number in range(30))
CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
#: Only stops a hang.
PATIENCE = 120


@pytest.fixture
def executor() -> ScriptedExecutor:
    answers = {CHECK: exits(0, targets=["it"], stdout="it hangs\n"), RUN: exits(0), VERIFY: exits(0)}
    return ScriptedExecutor({(node, "cure", kind): [answer] for node in NODES for kind, answer in answers.items()})


@pytest.fixture
def world(tmp_path: Path, executor: ScriptedExecutor) -> Iterator[World]:
    url = f"sqlite:///{tmp_path}/unstick.db"
    built = World.build(url, executor, inventory=local_nodes(*NODES), runbooks=RUNBOOKS, clock=RealClock())
    built.service, engine = build_engine(built.service, owner="tests")
    engine.start()
    yield built
    engine.stop(PATIENCE)
    built.close()


@contextmanager
def locking(file: Path) -> Iterator[None]:
    """Let another program have the database to itself for some milliseconds, again and again."""
    done = threading.Event()

    def lock() -> None:
        with closing(sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)) as other:
            while not done.wait(0.1):
                other.execute("BEGIN IMMEDIATE")
                done.wait(0.02)
                other.execute("ROLLBACK")

    thread = threading.Thread(target=lock)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_thirty_runs_end_while_twenty_look_and_one_approves(
    tmp_path: Path, world: World, executor: ScriptedExecutor
) -> None:
    tokens = {role: create_token(world.service, role, roles=frozenset({role}), person=role, by="test") for role in Role}
    api = Api(create_app(world.service), tokens)
    ended, seen = threading.Event(), Counter[int]()

    def look(number: int) -> None:
        path = ("/runs", "/approvals", "/nodes", "/audit")[number % 4]
        while not ended.wait(0.5):
            seen[api.get(path).status_code] += 1

    def approve() -> None:
        answered: set[str] = set()
        while len(answered) < len(NODES) and not ended.wait(0.1):
            for gate in api.get("/approvals", role=Role.APPROVER, limit=200).json()["items"]:
                answer = api.post(f"/approvals/{gate['id']}/approve", {"digest": gate["digest"]}, role=Role.APPROVER)
                seen[answer.status_code] += 1
                answered.add(gate["id"])

    with locking(tmp_path / "unstick.db"), ThreadPoolExecutor(21) as threads:
        lookers = [threads.submit(look, number) for number in range(20)]
        approver = threads.submit(approve)
        runs = [world.request("cure", node, person=OPERATOR) for node in NODES]
        try:
            wait_for(lambda: not world.service.store.read(lambda reader: reader.open_acting()))
        finally:
            ended.set()
        for one in (approver, *lookers):
            one.result()

    assert set(seen) == {200}
    parts = [world.node_runs(run)[0] for run in runs]
    assert {(one.state, one.results[0].outcome) for one in parts} == {(NodeRunState.SUCCEEDED, StepOutcome.CHANGED)}
    records = [[(a.kind, a.exit_code) for a in world.history(one).attempts] for one in parts]
    assert records == [[(CHECK, 0), (RUN, 0), (VERIFY, 0)]] * len(NODES)
    assert Counter(order.attempt_id for order in executor.orders).most_common(1)[0][1] == 1
    assert len(executor.orders) == 3 * len(NODES)
    assert world.chain_holds()


def wait_for(look: Callable[[], bool]) -> None:
    """Return as soon as something is so; a hang fails."""
    pause = threading.Event()
    for _ in range(PATIENCE * 10):
        if look():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to pass")
