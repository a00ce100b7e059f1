"""The look itself: its scripts on a machine of made-up programs, and what happens when nobody answers."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from service.app import survey_node
from service.app.survey_node import NodeSurveyor, script
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.script import (
    AttemptRef,
    NotStarted,
    OutputChunk,
    Report,
    ReportState,
    ScriptKind,
    ScriptOrder,
    render,
)
from service.domain.survey import Kind, Occupant, Sight, could_not_look, not_asked, seen
from service.executors.local import LocalExecutor
from service.executors.scripted import Answer, ScriptedExecutor, exits
from service.executors.shellcheck import find_shellcheck
from tests.support.world import OneExecutor, RealClock, SteppedClock

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HERE = Endpoint("gpu-01", ExecutorKind.LOCAL, "gpu-01", view=View.PRIVATE, user="ops")
SLURM = Controller("head", replace(HERE, name="head"), {"SLURM_CONF": "x"})
NODE = Node("gpu-01", HERE, controller="head", attributes={"slurm_name": "gpu-01"})
INVENTORY = Inventory({"gpu-01": NODE}, {"head": SLURM})
GONE = Answer(Report(ReportState.NOT_STARTED, not_started=NotStarted.UNREACHABLE, reason="No route to gpu-01."))
DRAINED = "NodeName=gpu-01 State=IDLE+DRAIN Reason=bad DIMM [ann@2026-11-29T10:00:00]\n"
FACTS = {"user": "ann", "state": "RUNNING", "nodes": "1", "since": "N/A"}


def framed(*parts: str) -> Answer:
    return exits(0, stdout="".join(f"{part}\0" for part in (*parts, "end", "0", "")))


def scripted(node: Answer, head: Answer) -> ScriptedExecutor:
    place = ("survey", ScriptKind.CHECK)
    return ScriptedExecutor({("gpu-01", *place): [node], ("head", *place): [head]})


def surveyor(executor: object, clock: SteppedClock | RealClock | None = None, seconds: float = 20) -> NodeSurveyor:
    chosen = OneExecutor(executor)  # type: ignore[arg-type]
    return NodeSurveyor(chosen, clock or SteppedClock(), service_id="tests", deadline=timedelta(seconds=seconds))


def test_node_and_controller_are_asked_by_scripts_that_only_read() -> None:
    executor = scripted(framed("users", "none", "", "gpus", "none", ""), framed("node", "0", DRAINED, "jobs", "0", ""))

    survey = surveyor(executor).survey(NODE, INVENTORY)

    assert survey.parts == {
        Kind.OWNERS: seen([Occupant("drained in Slurm by ann: 'bad DIMM'", {"state": "DRAIN+IDLE"})]),
        Kind.PODS: not_asked("the node has no k8s_name"),
        Kind.JOBS: seen(()),
        Kind.USERS: not_asked("systemd does not run there"),
        Kind.GPU_PROCESSES: not_asked("there is no GPU driver"),
    }
    orders = {order.endpoint.name: order for order in executor.orders}
    assert sorted(orders) == ["gpu-01", "head"]
    assert not any(order.acting for order in executor.orders)
    assert "export NODE_SLURM_NAME=gpu-01\nexport SLURM_CONF=x\n" in orders["head"].text


def test_what_is_out_of_reach_could_not_be_seen_and_is_no_error() -> None:
    survey = surveyor(scripted(GONE, exits(0, stdout="hello"))).survey(NODE, INVENTORY)

    silent = could_not_look("Nothing was learned on gpu-01: No route to gpu-01.")
    broken = could_not_look("what the controller head says is not whole")
    assert survey.part(Kind.USERS) == survey.part(Kind.GPU_PROCESSES) == silent
    assert survey.part(Kind.OWNERS) == survey.part(Kind.JOBS) == broken


@pytest.mark.parametrize("name", ["ALL", "gpu-[01-02]", "gpu-01,gpu-02", "-w"])
def test_a_name_of_many_nodes_is_never_asked_of_slurm(name: str) -> None:
    executor = scripted(framed(), framed())
    many = replace(NODE, attributes={"slurm_name": name})

    survey = surveyor(executor).survey(many, INVENTORY)

    assert survey.part(Kind.OWNERS) == could_not_look(f"slurm_name is {name}, which names no single node")
    assert [order.endpoint.name for order in executor.orders] == ["gpu-01"]


def test_a_node_that_hangs_is_told_so_when_the_time_is_over() -> None:
    release = threading.Event()
    answers = scripted(framed("users", "none", ""), framed("node", "0", DRAINED, "jobs", "0", ""))

    class Hangs:
        """A machine that answers when nobody waits any more."""

        def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
            if order.endpoint.name == "gpu-01":
                release.wait()
            return answers.start(order, on_output)

        def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
            raise AssertionError

        stop = settle

        def close(self) -> None:
            release.set()

    survey = surveyor(Hangs(), seconds=2).survey(NODE, INVENTORY)
    release.set()

    assert survey.part(Kind.USERS) == could_not_look("no answer of gpu-01 within 2 s")
    assert survey.part(Kind.OWNERS).count == 1


def test_who_has_a_node_is_not_asked_again_within_half_a_minute() -> None:
    clock = SteppedClock()
    executor = scripted(framed(), framed("node", "0", DRAINED, "jobs", "0", "7|ann|RUNNING|1|N/A"))
    asking = surveyor(executor, clock)

    first = asking.owners([NODE], INVENTORY)
    again = asking.owners([NODE], INVENTORY)
    clock.at += survey_node.KEPT
    late = asking.owners([NODE], INVENTORY)
    moved = asking.owners([replace(NODE, attributes={"slurm_name": "gpu-02"})], INVENTORY)

    assert first == again == late
    assert moved["gpu-01"].sight is Sight.COULD_NOT_LOOK
    assert len(executor.orders) == 3
    assert asking.survey(NODE, INVENTORY).part(Kind.JOBS) == seen([Occupant("7", FACTS)])


def test_a_node_without_a_cluster_is_asked_of_nobody() -> None:
    executor = scripted(framed(), framed())
    alone = replace(NODE, controller=None)

    owners = surveyor(executor).owners([alone], INVENTORY)

    assert owners == {"gpu-01": not_asked("the inventory names no cluster of the node")}
    assert executor.orders == []


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say_of_the_scripts_as_they_are_sent() -> None:
    check = find_shellcheck()
    assert check is not None
    texts = [
        render(prelude="", body=script(name), environment={}) for name in ("kubernetes.sh", "slurm.sh", "machine.sh")
    ]

    assert [list(remarks) for remarks in check(texts)] == [[], [], []]


Look = Callable[[], dict[Kind, object]]


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "proc/123").mkdir(parents=True)
    (tmp_path / "lock").mkdir()
    return tmp_path / "bin"


@pytest.fixture
def look(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """Give a look at this machine, which finds programs and places of the test."""
    folder = bin_folder.parent
    places = {
        "processes=/proc\n": f"processes={folder}/proc\n",
        "booted=/run/systemd/system ": f"booted={folder} ",
        "lock=/run\n": f"lock={folder}/lock\n",
    }
    text = script("machine.sh")
    for old, new in places.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    monkeypatch.setattr(survey_node, "script", lambda name: text)
    executor = LocalExecutor()
    node = replace(NODE, controller=None, endpoint=replace(HERE, path=f"{bin_folder}{os.pathsep}{PATH}"))

    def ask() -> dict[Kind, object]:
        survey = surveyor(executor, RealClock()).survey(node, INVENTORY)
        return {kind: survey.part(kind) for kind in (Kind.USERS, Kind.GPU_PROCESSES)}

    yield ask
    executor.close()


def program(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/bash\n{body}\n")
    file.chmod(0o755)


LOGINCTL = "echo 'a warning' >&2; case $1 in list-users) echo '1000 ann' ;; *) echo '2 1000 ann seat0' ;; esac"


def test_users_and_gpu_processes_of_a_machine_are_seen_whatever_a_process_is_called(
    bin_folder: Path, look: Look
) -> None:
    program(bin_folder, "loginctl", LOGINCTL)
    program(bin_folder, "nvidia-smi", "echo 'GPU-aaaa, 123, 400'; echo 'GPU-aaaa, 124, 500'")
    folder = bin_folder.parent / "proc/123"
    (folder / "comm").write_text("a\nend\n")
    (folder / "cgroup").write_text("0::/slurm/job_77/step_0\n")
    (folder / "status").write_text("Name:\tpy\nState:\tR\nUid:\t1000\t1000\t1000\t1000\n")

    found = look()

    facts = {"command": "a\\nend", "gpu": "GPU-aaaa", "memory": "400 MiB", "user": "ann", "job": "77"}
    gone = Occupant("124", {"gpu": "GPU-aaaa", "memory": "500 MiB"})
    assert found == {
        Kind.USERS: seen([Occupant("ann", {"uid": "1000", "sessions": "1"})]),
        Kind.GPU_PROCESSES: seen([Occupant("123", facts), gone]),
    }


def test_an_nvidia_smi_that_fails_or_hangs_in_the_kernel_is_could_not_look(bin_folder: Path, look: Look) -> None:
    program(bin_folder, "loginctl", LOGINCTL.replace("echo '1000 ann'", "exit 1"))
    program(bin_folder, "nvidia-smi", "echo 'Unable to determine the device handle'; exit 9")
    failed = look()

    (bin_folder.parent / "proc/123/status").write_text("Name:\tnvidia-smi\nState:\tD (disk sleep)\n")
    hung = look()

    assert failed == {
        Kind.USERS: could_not_look("a warning"),
        Kind.GPU_PROCESSES: could_not_look("Unable to determine the device handle"),
    }
    assert hung[Kind.GPU_PROCESSES] == could_not_look("an nvidia-smi hangs in state D: 123")
