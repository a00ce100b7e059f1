"""What the tests of drain-and-reboot-slurm share: the request, and all that the runbook could change."""

import shutil
from pathlib import Path

from lab.nodes import Node
from lab.process import wait_until
from lab.slurm import Slurm
from service.domain.run import NodeRun, Run
from tests.cures.cure import Cure
from tests.support.world import RUNBOOKS

RUNBOOK = "drain-and-reboot-slurm"
NAME = "gpu-01"


def hasty(folder: Path) -> Path:
    """Return a copy of the shipped runbooks in which nobody is waited for long at a gate."""
    shutil.copytree(RUNBOOKS, folder)
    file = folder / f"{RUNBOOK}.yaml"
    file.write_text(file.read_text().replace("approval_expires: 4h", "approval_expires: 8s"))
    return folder


def expire(cure: Cure, run: Run, step: str) -> NodeRun:
    """Let nobody answer the gate of a step, and wait for the end."""
    cure.to_gate(run, step)

    def closed() -> bool:
        cure.world.step()
        return not cure.world.open_gates()

    wait_until(closed, "the gate expires", seconds=120)
    return cure.end(run)


def requested(cure: Cure, **params: object) -> Run:
    """Request the runbook, without its pauses."""
    return cure.request(RUNBOOK, params={"settle_seconds": 0, **params})


def as_found(node: Node, slurm: Slurm) -> dict[str, object]:
    """Return all that this runbook could change."""
    reason, _, _ = slurm.reason(NAME).partition(" [")
    return {"state": sorted(slurm.state(NAME)), "reason": reason, "jobs": slurm.jobs(NAME), "boot": node.boot_id}
