"""The engine's lock: one service at a time acts on a database."""

import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from service.domain.errors import ConfigInvalid, Conflict, Unavailable
from service.store import locks
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, append, fact
from tests.store.test_crash import end_sessions

pytest_plugins = ["lab.fixtures"]

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys
from service.store import locks
held = locks.acquire(sys.argv[1], name="serve")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_service_is_refused_and_told_by_whom(url: str) -> None:
    first = locks.acquire(url, name="serve")

    with pytest.raises(Conflict, match=rf"in use by unstick serve \(pid {os.getpid()}\)") as caught:
        locks.acquire(url, name="worker")
    assert caught.value.way_out
    assert first.still_held()

    first.release()
    first.release()
    assert not first.still_held()
    locks.acquire(url, name="worker").release()


def test_another_process_is_refused_until_the_first_is_killed(url: str) -> None:
    command = [sys.executable, "-c", HOLDS, url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=f"pid {process.pid}"):
            locks.acquire(url, name="serve")
    finally:
        process.kill()
        process.communicate()

    locks.acquire(url, name="serve", wait=timedelta(seconds=60)).release()


def test_a_link_to_the_database_is_the_same_database(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "unstick.db").touch()
    (tmp_path / "linked.db").symlink_to("folder/unstick.db")
    (tmp_path / "linked").symlink_to("folder")
    first = locks.acquire(f"sqlite:///{tmp_path}/folder/unstick.db", name="serve")

    for other in ("linked.db", "linked/unstick.db"):
        with pytest.raises(Conflict, match="in use by unstick serve"):
            locks.acquire(f"sqlite:///{tmp_path}/{other}", name="serve")

    first.release()


def test_a_database_behind_links_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "unstick.db").symlink_to("unstick.db")

    with pytest.raises(ConfigInvalid, match="symbolic links"):
        SqlStore.open(f"sqlite:///{tmp_path}/unstick.db", TestClock())


def test_a_lock_is_waited_for(url: str) -> None:
    first = locks.acquire(url, name="serve")
    releasing = threading.Timer(0.1, first.release)
    releasing.start()

    second = locks.acquire(url, name="serve", wait=timedelta(seconds=60))

    releasing.join()
    assert second.still_held()
    second.release()


def test_the_store_is_open_beside_the_lock(url: str, clock: TestClock) -> None:
    held = locks.acquire(url, name="serve")

    beside = SqlStore.open(url, clock)
    append(beside, fact())

    assert [one.seq for one in beside.audit_events()] == [1]
    beside.close()
    held.release()


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_lost_session_is_noticed(url: str) -> None:
    held = locks.acquire(url, name="serve")
    assert held.still_held()

    end_sessions(url)

    assert not held.still_held()
    second = locks.acquire(url, name="serve", wait=timedelta(seconds=60))
    assert not held.still_held()
    second.release()


def test_a_lock_that_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(ConfigInvalid):
        locks.acquire("sqlite:////nowhere/of/this/name/unstick.db", name="serve")
    with pytest.raises(Unavailable):
        locks.acquire("postgresql+psycopg://ann@127.0.0.1:1/x", name="serve")
