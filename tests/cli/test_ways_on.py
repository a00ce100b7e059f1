"""What a person who waits is told: what for, who must answer, and how to go on."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.installation import PATIENCE, Someone, said_until


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """Let children hear SIGINT, which a shell's background jobs are started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stopped(waiting: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C, and return what was said."""
    waiting.send_signal(signal.SIGINT)
    return waiting.communicate(timeout=PATIENCE)


def test_a_run_behind_another_says_which_has_the_node_and_how_to_go_past(ann: Someone, node: str) -> None:
    first = ann.request("confirm", node)
    (gate,) = ann.run(first)["gates"]

    with ann.start("run", "free", "--node", node, "--wait") as waiting:
        said = said_until(waiting, "--take-over")
        _, rest = stopped(waiting)
    second = ann.latest(node)["id"]
    shown = ann("show", second).stdout

    assert f"{node}: queued: Run {first} has the node (waiting)." in said
    for words in (f"unstick show {first}", f"unstick approve {gate['id']}", f"unstick cancel {first}"):
        assert words in said
        assert words in shown
    assert f"unstick show {second}" not in shown
    assert waiting.returncode == 130
    assert f"run {second} goes on" in rest
    assert f"unstick show {second}" in rest
    assert f"unstick cancel {second}" in rest
    assert ann.run(second)["state"] == "queued"


def test_wait_end_names_the_gate_and_how_to_answer_it(ann: Someone, node: str) -> None:
    with ann.start("run", "confirm", "--node", node, "--wait=end") as waiting:
        said = said_until(waiting, "unstick approve")
        stopped(waiting)
    (gate,) = ann.run(ann.latest(node)["id"])["gates"]

    assert f"unstick approve {gate['id']}" in said
    assert "the requester too" in said


def test_the_requester_is_told_that_a_second_person_must_answer(ann: Someone, node: str) -> None:
    waited = ann("run", "second", "--node", node, "--wait")
    shown = ann("show", ann.latest(node)["id"])

    for said in (waited.stdout, shown.stdout):
        assert "not you: ann requested this run" in said
        assert not any(line.startswith("  unstick approve") for line in said.splitlines())


def test_a_slow_script_is_told_with_how_long_it_may_take(ann: Someone, node: str) -> None:
    words = ("--param", f"wait={ann.place.folder / f'go-{node}'}")
    with ann.start("run", "free", "--node", node, *words, "--wait") as waiting:
        said = said_until(waiting, "the run of step touch is under way")
        (ann.place.folder / f"go-{node}").touch()
        waiting.communicate(timeout=PATIENCE)

    assert f"{node}: the run of step touch is under way; it may take 60 seconds" in said
