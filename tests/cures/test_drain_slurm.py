"""A node of a real Slurm is drained while a job runs, really reboots, is proven well, and is given back."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from lab.nodes import Node
from lab.process import wait_until
from lab.slurm import Slurm
from service import main
from service.app.survey_node import NodeSurveyor
from service.domain.node import Endpoint, ExecutorKind, View
from service.domain.node import Node as InventoryNode
from service.domain.script import NotStarted, ScriptKind
from service.domain.survey import Kind, Sight
from service.settings import Settings
from tests.cures.cure import Cure, ShiftedClock, ending, executors_with, outcomes
from tests.cures.slurm_place import NAME, RUNBOOK, as_found, requested
from tests.support.world import RUNBOOKS, World

pytest_plugins = ["tests.cures.slurm_fixtures"]
pytestmark = pytest.mark.needs_root

CURED = {
    "evidence": "ok",
    "in-slurm": "ok",
    "drain": "changed",
    "wait": "ok",
    "kill-jobs": "skipped",
    "idle": "ok",
    "reboot": "changed",
    "note-reboot": "changed",
    "reboot-despite-preview": "skipped",
    "note-reboot-despite-preview": "skipped",
    "reboot-force": "ok",
    "back": "ok",
    "healthy": "ok",
    "back-in-slurm": "ok",
    "proven": "changed",
    "resume": "changed",
}
#: Slurm says which nodes there are and where; how they are reached is said here alone.
INVENTORY = """\
controllers:
  slurm: {{executor: local, view: private, env: {{SLURM_CONF: {configuration}}}}}
node_sources:
  batch:
    kind: slurm
    controller: slurm
    node: {{executor: ssh, port: {port}, key_file: {key}, host_key: {host_key}, view: boot}}
"""


def play_until(cure: Cure, true: Callable[[], bool]) -> None:
    def stepped() -> bool:
        cure.world.step()
        return true()

    wait_until(stepped, "the run gets there", seconds=60)


def test_a_node_that_only_slurm_names_is_reached_and_found_in_slurm_again(
    tmp_path: Path, slurm_node: Node, slurm: Slurm
) -> None:
    text = INVENTORY.format(
        configuration=slurm.environment["SLURM_CONF"],
        port=slurm_node.port,
        key=slurm_node.private_key,
        host_key=slurm_node.host_key,
    )
    (tmp_path / "inventory.yaml").write_text(text)
    clock = ShiftedClock()
    inventory = main.read_inventory(Settings(config=tmp_path), clock)
    url = f"sqlite:///{tmp_path}/unstick.db"
    world = World.build(url, executors_with(clock), inventory=inventory, runbooks=RUNBOOKS, clock=clock)

    with closing(Cure(world, slurm_node, clock)) as cure:
        run = cure.request(RUNBOOK, dry_run=True)
        ended = cure.end(run)
        said = cure.said(run, "in-slurm", kind=ScriptKind.RUN)

    endpoint = Endpoint(
        NAME,
        ExecutorKind.SSH,
        slurm_node.address,
        port=slurm_node.port,
        key_file=str(slurm_node.private_key),
        host_keys=(slurm_node.host_key,),
        view=View.BOOT,
    )
    assert inventory.nodes == {
        NAME: InventoryNode(
            NAME,
            endpoint,
            ("gpu",),
            "slurm",
            {"slurm_name": NAME},
            sources=("batch",),
            hints={"slurm_state": "IDLE"},
        )
    }
    assert (ending(ended), outcomes(ended)["drain"]) == (("succeeded", None), "would_change")
    assert f"NodeName={NAME} " in said
    assert as_found(slurm_node, slurm) == {"state": ["IDLE"], "reason": "", "jobs": {}, "boot": slurm_node.boot_id}


def test_a_node_with_a_running_job_is_drained_reboots_slowly_is_proven_and_given_back(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    boot = slurm_node.boot_id
    slurm_node.set_reboot_delay(6)
    number = slurm.submit(NAME, "while [ ! -e /run/lab-job-may-end ]; do sleep 0.1; done")

    run = requested(slurm_cure)
    slurm_cure.to_gate(run, "drain")
    (gate,) = slurm_cure.world.open_gates()
    slurm_cure.world.answer(gate)
    play_until(slurm_cure, lambda: "DRAIN" in slurm.state(NAME))
    drained = as_found(slurm_node, slurm)
    (slurm_node.root / "run/lab-job-may-end").touch()
    slurm_cure.to_gate(run, "reboot")
    seen = slurm_cure.targets(run, "reboot")
    node_run = slurm_cure.end(run)

    reason = f"unstick:{run.id} drained for a reboot"
    assert drained == {"state": ["ALLOCATED", "DRAIN"], "reason": reason, "jobs": {number: "RUNNING"}, "boot": boot}
    assert (ending(node_run), outcomes(node_run), seen) == (("succeeded", "cured"), CURED, (f"boot {boot}",))
    assert (slurm_node.boot_id != boot, sorted(slurm.state(NAME)), slurm.reason(NAME)) == (True, ["IDLE"], "")
    assert f"boot {slurm_node.boot_id}, after {boot}" in slurm_cure.said(run, "back", kind=ScriptKind.VERIFY)
    in_vain = [one for one in slurm_cure.world.history(node_run).attempts if one.not_started is NotStarted.UNREACHABLE]
    assert {(one.step, one.kind) for one in in_vain} == {("reboot", ScriptKind.VERIFY)}


def test_a_survey_sees_who_has_drained_the_node_and_the_job_on_it(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    service = slurm_cure.world.service
    inventory = service.inventory.current()
    surveyor = NodeSurveyor(service.executors, slurm_cure.clock, service_id="tests")
    number = slurm.submit(NAME, "sleep 1000")
    slurm.update(NAME, "State=DRAIN", "Reason=bad DIMM")

    theirs = surveyor.survey(inventory.nodes[NAME], inventory)
    slurm.update(NAME, "Reason=unstick:run-1 drained for a reboot")
    ours = surveyor.survey(inventory.nodes[NAME], inventory).part(Kind.OWNERS)

    (job,) = theirs.part(Kind.JOBS).found
    users, gpus = theirs.part(Kind.USERS), theirs.part(Kind.GPU_PROCESSES)
    assert [one.name for one in theirs.part(Kind.OWNERS).found] == ["drained in Slurm by root: 'bad DIMM'"]
    assert (job.name, job.facts["user"], job.facts["state"]) == (number, "root", "RUNNING")
    assert (ours.count, [one.name for one in ours.found]) == (0, ["drained in Slurm by unstick"])
    # Nobody but unstick has logged in, whatever the node's logind knows of it.
    assert (users.sight, users.count, gpus.sight) == (Sight.SEEN, 0, Sight.NOT_ASKED)


def test_a_drain_of_others_keeps_its_reason_and_the_node_is_not_given_back(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    boot, reason = slurm_node.boot_id, 'NHC: check_hw_gpu: 7 of 8 GPUs (ticket #12, "bay 3")'
    number = slurm.submit(NAME, "sleep 1000")
    slurm.update(NAME, "State=DRAIN", f"Reason={reason}")

    run = requested(slurm_cure, wait_minutes=0, kill_jobs=True)
    slurm_cure.to_gate(run, "kill-jobs")
    (killed,) = slurm_cure.targets(run, "kill-jobs")
    node_run = slurm_cure.end(run)

    told = {"drain": "ok", "kill-jobs": "changed", "note-reboot": "skipped", "proven": "ok", "resume": "skipped"}
    assert (ending(node_run), outcomes(node_run)) == (("succeeded", "cured"), CURED | told)
    assert killed.startswith(f"job {number} user root state RUNNING nodes 1 since ")
    assert as_found(slurm_node, slurm) == {
        "state": ["DOWN", "DRAIN"],
        "reason": reason,
        "jobs": {},
        "boot": slurm_node.boot_id,
    }
    assert slurm_node.boot_id != boot


def test_a_node_that_does_not_return_is_unknown_and_stays_drained(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    run = requested(slurm_cure)
    slurm_cure.to_gate(run, "reboot")
    slurm_node.set_no_return()
    (gate,) = slurm_cure.world.open_gates()
    slurm_cure.world.answer(gate)
    play_until(slurm_cure, slurm_node.down)
    slurm_cure.clock.shift = timedelta(hours=1)
    node_run = slurm_cure.end(run)

    assert (ending(node_run), outcomes(node_run)["reboot"]) == (("stuck", "unknown"), "unknown")
    assert slurm.reason(NAME).startswith(f"unstick:{run.id} drained for a reboot [")
    assert "DRAIN" in slurm.state(NAME)
