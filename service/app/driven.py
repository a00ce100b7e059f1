"""One claimed node run and what it is played from."""

from dataclasses import dataclass

from service.app.load_runbooks import parse_runbook
from service.app.ports import Reader
from service.app.service import Service
from service.domain.plan import PlannedScript
from service.domain.run import NodeRun, Run
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
