"""A run of drain-and-reboot-slurm that ends early leaves the node as it was found, or says what it does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes import Node
from lab.slurm import Slurm
from service.domain.run import GateState, NodeRun, Run
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, ending, outcomes
from tests.cures.slurm_place import NAME, RUNBOOK, as_found, expire, hasty, requested
from tests.support.world import RUNBOOKS

pytest_plugins = ["tests.cures.slurm_fixtures"]
# Each waits for real drains and expiries, minutes together; the same ends are cases that are played in every test run.
pytestmark = [pytest.mark.needs_root, pytest.mark.proof]

ENDS: dict[str, tuple[Callable[[Cure, Run, str], NodeRun], GateState]] = {
    "denied": (Cure.deny, GateState.DENIED),
    "expired": (expire, GateState.EXPIRED),
}


@pytest.fixture
def runbooks(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give the shipped runbooks; where a gate shall expire, those that wait for seconds."""
    return hasty(tmp_path / "runbooks") if request.node.name.endswith("expired]") else RUNBOOKS


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("gate", ["drain", "kill-jobs", "reboot", "reboot-despite-preview"])
def test_a_gate_that_is_denied_or_expires_leaves_the_node_as_it_was_found(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm, gate: str, end: str
) -> None:
    if gate == "kill-jobs":
        slurm.submit(NAME, "sleep 1000")
    if gate == "reboot-despite-preview":
        # It runs, and would not after the reboot.
        slurm_node.run(["systemctl", "disable", "--quiet", "slurmd"])
    before = as_found(slurm_node, slurm)
    answer, state = ENDS[end]

    run = requested(slurm_cure, wait_minutes=0, kill_jobs=True)
    node_run = answer(slurm_cure, run, gate)

    assert (ending(node_run), slurm_cure.gates(run)[gate]) == ((end, None), state)
    assert as_found(slurm_node, slurm) == before
    assert outcomes(node_run)["resume"] == ("skipped" if gate == "drain" else "changed")


def test_a_job_that_does_not_end_is_named_and_the_node_is_given_back_to_it(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    number = slurm.submit(NAME, "sleep 1000")
    before = as_found(slurm_node, slurm)

    run = requested(slurm_cure, wait_minutes=0)
    node_run = slurm_cure.end(run)

    assert (ending(node_run), outcomes(node_run)["idle"], outcomes(node_run)["resume"]) == (
        ("failed", "not_cured"),
        "failed",
        "changed",
    )
    said = slurm_cure.said(run, "idle", kind=ScriptKind.VERIFY)
    assert f"let them be killed (kill_jobs):\njob {number} user root state RUNNING nodes 1 since " in said
    assert as_found(slurm_node, slurm) == before


def test_a_shutdown_that_somebody_blocks_is_refused_with_the_name_and_a_job_in_its_end_does_not_hold_it_up(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    number = slurm.submit(NAME, "sleep 1000")
    slurm.hold_ends(NAME)
    slurm.ask("scancel", number)
    block = ["systemd-inhibit", "--what=shutdown", "--who=backup", "--why=a copy is made", "sleep", "1000"]
    slurm_node.start("inhibitor", block)

    run = requested(slurm_cure, ending_minutes=0)
    node_run = slurm_cure.end(run)
    slurm_node.run(["systemctl", "kill", "--signal=KILL", "lab-inhibitor"])
    slurm.let_end(NAME)

    said = slurm_cure.said(run, "reboot", kind=ScriptKind.CHECK)
    assert (ending(node_run), outcomes(node_run)["reboot"]) == (("failed", None), "failed")
    assert "refused: inhibitor: somebody blocks a shutdown of this node:\nbackup" in said
    assert f"job {number} user root state COMPLETING" in slurm_cure.said(run, "idle", kind=ScriptKind.VERIFY)
    assert ("DRAIN" in slurm.state(NAME), slurm.reason(NAME)) == (False, "")


def test_a_dry_run_looks_at_node_and_cluster_and_changes_neither(
    slurm_cure: Cure, slurm_node: Node, slurm: Slurm
) -> None:
    before = as_found(slurm_node, slurm)

    node_run = slurm_cure.end(slurm_cure.request(RUNBOOK, params={"settle_seconds": 0}, dry_run=True))

    told = outcomes(node_run)
    assert {step: told[step] for step in ("drain", "wait", "reboot", "reboot-force", "resume")} == {
        "drain": "would_change",
        "wait": "ok",
        "reboot": "would_change",
        "reboot-force": "skipped",
        "resume": "skipped",
    }
    assert as_found(slurm_node, slurm) == before
