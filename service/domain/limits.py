"""Roll-outs: which queued node runs may start now, and when the rest is called off."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from service.domain.run import HOLDING_STATES, NodeRun, NodeRunState, Verdict
from service.domain.runbook import Limits

FAILED_STATES = (NodeRunState.FAILED, NodeRunState.STUCK)
FAILED_VERDICTS = (Verdict.NOT_CURED,)


class Admission(StrEnum):
    """The answer to a queued node run."""

    START = "start"
    WAIT = "wait"
    #: The roll-out has failed too often: it ends as cancelled.
    CALL_OFF = "call_off"


@dataclass(frozen=True)
class Admitted:
    """An answer and its reason."""

    answer: Admission
    reason: str = ""


def has_failed(node_run: NodeRun) -> bool:
    """Whether a node run counts against `max_failures`: failed, unreachable, not cured, stuck."""
    return node_run.state in FAILED_STATES or node_run.verdict in FAILED_VERDICTS


def admit(
    node_run: NodeRun,
    limits: Limits,
    *,
    siblings: Iterable[NodeRun],
    same_runbook: Iterable[NodeRun],
    on_node: NodeRun | None,
    pool_size: int,
) -> Admitted:
    """Return whether a queued node run may start.

    `siblings` are the node runs of its run; those that neither failed nor belong to the first wave may be left out.
    `same_runbook` are the acting ones of its runbook over all runs that have their nodes, `on_node` the one that
    has the node, `pool_size` the nodes by which percent counts.
    """
    everyone = list(siblings)
    failures = [one.node for one in everyone if has_failed(one)]
    if len(failures) >= limits.max_failures:
        names = ", ".join(failures[:3])
        return Admitted(Admission.CALL_OFF, f"The roll-out was stopped after {len(failures)} failed: {names}.")
    if not node_run.acts:
        return Admitted(Admission.START)
    canaries = [one for one in everyone if one.position < limits.canary]
    if node_run.position >= limits.canary and any(not one.state.ended for one in canaries):
        return Admitted(Admission.WAIT, "It waits for the canary wave.")
    if on_node is not None and on_node.id != node_run.id:
        return Admitted(Admission.WAIT, f"Run {on_node.run_id} has the node ({on_node.state}).")
    acting = [one for one in same_runbook if one.state in HOLDING_STATES and one.id != node_run.id]
    if limits.concurrent_nodes is not None and len(acting) >= limits.concurrent_nodes.of(pool_size):
        most = limits.concurrent_nodes.of(pool_size)
        names = ", ".join(one.node for one in acting[:3]) + (f" and {len(acting) - 3} more" if len(acting) > 3 else "")
        limit = f"and its limits.concurrent_nodes allows {most} at once here"
        return Admitted(
            Admission.WAIT, f"{node_run.runbook} acts on {names} (run {acting[0].run_id}, {acting[0].state}), {limit}."
        )
    return Admitted(Admission.START)
