"""A run whose steps go to the node and to its controller: each machine has boots of its own."""

from pathlib import Path

from service.domain.run import NodeRunState
from service.domain.script import Report, ReportState, ScriptKind
from service.executors.scripted import Answer, ScriptedExecutor
from tests.support.world import World, local_nodes

OLD, NEW, HEAD = (f"{digit}" * 8 + "-0000-4000-8000-000000000000" for digit in "123")
RUNBOOK = """\
schema: 1
name: both
title: Act on both machines
owner: tests
description: A cordon and a reboot.
steps:
  - {id: see, title: See, where: controller, read_only: true, run: "true", timeout: 1m}
  - {id: look, title: Look, read_only: true, run: "true", timeout: 1m}
  - {id: cordon, title: Cordon, where: controller, check: "true", run: "true", verify: "true", timeout: 1m}
  - {id: reboot, title: Reboot, reboots: true, check: "true", run: "true", verify: "true", timeout: 1m}
  - {id: ready, title: Ready, where: controller, verify: "true", timeout: 1m}
  - {id: healthy, title: Healthy, verify: "true", timeout: 1m}
  - {id: undo, title: Undo, where: controller, always: true, undoes: cordon, run: "true", verify: "true", timeout: 1m}
"""


def _answer(boot: str) -> list[Answer]:
    return [Answer(Report(ReportState.FINISHED, exit_code=0, boot_id=boot, stdout_bytes=4), stdout=b"seen")]


def test_an_order_is_bound_to_the_boot_of_the_machine_that_it_goes_to(tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(RUNBOOK)
    boots = {"see": HEAD, "look": OLD, "cordon": HEAD, "reboot": OLD, "ready": HEAD, "healthy": NEW, "undo": HEAD}
    place = {OLD: "gpu-01", NEW: "gpu-01", HEAD: "head"}
    answers = {(place[boot], step, kind): _answer(boot) for step, boot in boots.items() for kind in ScriptKind}
    answers["gpu-01", "reboot", ScriptKind.VERIFY] = _answer(NEW)
    executor = ScriptedExecutor(answers)
    world = World.build(f"sqlite:///{tmp_path}/db", executor, inventory=local_nodes("gpu-01"), runbooks=tmp_path)

    (node_run,) = world.play(world.request("both", "gpu-01"))
    world.close()

    orders = {(one.step, str(one.kind)): one for one in executor.orders}
    assert (node_run.state, node_run.first_boot_id) == (NodeRunState.SUCCEEDED, OLD)
    assert {place: order.boot_id for place, order in orders.items() if order.acting} == {
        ("cordon", "run"): HEAD,
        ("reboot", "run"): OLD,
        ("undo", "run"): HEAD,
    }
    assert {
        order.first_boot_id for place, order in orders.items() if place not in {("see", "run"), ("look", "run")}
    } == {OLD}
    assert [orders[place].last_boot_id for place in (("cordon", "run"), ("ready", "verify"), ("undo", "run"))] == [
        OLD,
        NEW,
        NEW,
    ]
