"""The local executor: processes of this machine."""

import gc
import os
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import state
from service.domain.node import Endpoint, ExecutorKind, View
from service.domain.script import NotStarted, OutputChunk, ReportState
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import Heard, Place, order

pytestmark = pytest.mark.needs_root


def test_settings_of_the_service_never_reach_a_script(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTICK_DATABASE_URL", "postgresql://secret-of-ours")
    monkeypatch.setenv("BASH_ENV", "/run/evil")
    heard = Heard()

    place.start(order("cat /proc/$$/environ /proc/$PPID/environ; env"), heard)

    assert b"secret-of-ours" not in heard.text()
    assert b"evil" not in heard.text()


def test_a_machine_without_a_shell_is_told_and_not_raised() -> None:
    executor = LocalExecutor(prefix=["/nonexistent/nsenter"])

    report = executor.start(order("true"), Heard())

    executor.close()
    assert (report.state, report.not_started) == (ReportState.NOT_STARTED, NotStarted.UNREACHABLE)
    assert "could not be started on gpu-01" in report.reason


def test_a_shell_that_dies_is_a_lost_answer(tmp_path: Path) -> None:
    executor = LocalExecutor(prefix=["/bin/sh", "-c", "echo oops >&2; exit 9"])

    report = executor.start(order("true"), Heard())

    executor.close()
    assert report.state is ReportState.LOST
    assert "its shell ended (last heard: 'oops')" in report.reason


def test_a_listener_that_fails_leaves_the_script_alone(place: Place) -> None:
    given = order("echo x; until [ -e /run/listener ]; do sleep 0.05; done; exit 4", timeout=timedelta(seconds=60))

    def fail(chunk: OutputChunk) -> None:
        raise RuntimeError("the listener broke")

    with pytest.raises(RuntimeError, match="listener broke"):
        place.executor.start(given, fail)

    place.file("listener").touch()
    report = place.start(given)
    assert (report.state, report.exit_code) == (ReportState.FINISHED, 4)


def test_many_scripts_at_once_do_not_mix(place: Place) -> None:
    ears = [Heard() for _ in range(8)]
    threads = [
        threading.Thread(target=lambda n=number, ear=ear: place.start(order(f"seq {n}000 {n}200"), ear))
        for number, ear in enumerate(ears, start=1)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number, ear in enumerate(ears, start=1):
        expected = "".join(f"{line}\n" for line in range(number * 1000, number * 1000 + 201))
        assert ear.text().decode() == expected


def descriptors() -> set[tuple[str, str]]:
    """Return each descriptor of this process with what it is; what has gone by the time it is looked at is left out."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add((entry.name, str(entry.readlink())))
    return found


def zombies() -> set[str]:
    """Return the children of this process that ended and were not collected."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {pid for pid in children if state(int(pid)) == "Z"}


def test_no_descriptor_and_no_process_is_left(place: Place) -> None:
    place.executor.close()
    executor = LocalExecutor(prefix=place.prefix)
    gc.collect()
    before = descriptors(), zombies()

    for _ in range(3):
        executor.start(order("true"), Heard())
    executor.close()

    # What else this process does may close a descriptor meanwhile; ours would be new ones.
    assert (descriptors() - before[0], zombies() - before[1]) == (set(), set())


def test_the_machine_itself_is_seen_as_it_is() -> None:
    boot = Endpoint("here", ExecutorKind.LOCAL, "here", view=View.BOOT)
    executor = LocalExecutor()

    report = executor.start(order("true", endpoint=boot), Heard())

    executor.close()
    assert report.facts is not None
    assert report.facts.pid_namespace == Path("/proc/self/ns/pid").stat().st_ino
    assert report.facts.init_name == Path("/proc/1/comm").read_text().strip()
