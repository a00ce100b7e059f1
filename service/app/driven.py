"""One claimed node run and what it is played from."""

from dataclasses import dataclass

from service.app.load_runbooks import parse_runbook
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.plan import PlannedScript
from service.domain.run import History, NodeRun, Run
from service.domain.runbook import Runbook
from service.domain.script import ScriptKind

#: The name under which the service itself stands in the audit.
SELF = "unstick"


@dataclass(frozen=True)
class Driven:
    """A run as it was planned, for one node."""

    service: Service
    run: Run
    runbook: Runbook
    scripts: tuple[PlannedScript, ...]

    def planned(self, step: str, kind: ScriptKind) -> PlannedScript:
        """Return the script that was planned for a step."""
        return next(one for one in self.scripts if one.step == step and one.kind is kind)


def load(service: Service, node_run: NodeRun) -> Driven:
    """Read the run of a node run, with the runbook as it was planned."""

    def look(reader: Reader) -> Driven:
        run = reader.run(node_run.run_id)
        source = reader.runbook_source(run.id)
        runbook = parse_runbook(source, f"{source.name}.yaml")
        return Driven(service, run, runbook, reader.scripts(run.id, node_run.node))

    return service.store.read(look)


def decisions(history: History) -> tuple[object, ...]:
    """Return what persons may have changed since the record was read."""
    return (history.gates, history.resolutions, history.node_run.cancel_requested_by)


def still_decided(driven: Driven, transaction: Transaction, history: History, *, acting: bool) -> bool:
    """Tell whether what was judged still holds: no person was faster, and nobody holds the node.

    What would act on a node that was put on hold meanwhile is cancelled instead, by who holds it.
    """
    node_run = history.node_run
    if decisions(transaction.history(node_run.id)) != decisions(history):
        return False
    hold = transaction.hold(node_run.node) if acting and node_run.cancel_requested_by is None else None
    if hold is None or not hold.active(driven.service.clock.now()):
        return True
    transaction.request_cancel(node_run.id, by=hold.by, reason=f"node {node_run.node} is {hold.words}")
    return False
