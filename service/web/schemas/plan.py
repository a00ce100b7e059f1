"""Plans: every script as it is sent."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from service.app.request_run import Prepared
from service.app.show_run import PlanView
from service.domain.plan import PlannedScript
from service.domain.script import ScriptKind
from service.web.schemas.common import Shown


class ScriptDetail(Shown):
    """One script as it is sent, to one machine."""

    step: str
    kind: ScriptKind
    machine: str = Field(description="`node`, or the controller that it is sent to.")
    sha256: str
    text: str


class NodePlan(Shown):
    """The scripts for one node."""

    node: str
    scripts: list[ScriptDetail]

    @classmethod
    def of(cls, node: str, scripts: tuple[PlannedScript, ...]) -> Self:
        """Return the node's scripts as they are shown."""
        return cls(node=node, scripts=[ScriptDetail.model_validate(script) for script in scripts])


class PlanDetail(Shown):
    """What a run sends, for some of its nodes."""

    runbook: str
    revision: str = Field(description="The git revision of the runbook's folder, or empty.")
    source: str = Field(description="The runbook's file as it was planned.")
    digest: str
    params: dict[str, str | int | bool]
    items: list[NodePlan]
    unconfined: list[str] = Field(
        description="In which looks at these nodes the machine's kernel did not confine the script, and why, so far.",
        examples=[["gpu-01: its system calls are not filtered (Invalid argument), in step evidence of run 0198"]],
    )
    next_cursor: str | None = Field(
        default=None, description="Give it as `cursor` for the next nodes; null at the end."
    )

    @classmethod
    def of(cls, view: PlanView) -> Self:
        """Return the plan of a run as it is shown."""
        return cls(
            runbook=view.run.runbook,
            revision=view.source.revision,
            source=view.source.text,
            digest=view.run.digest,
            params=dict(view.run.params),
            items=[NodePlan.of(node, scripts) for node, scripts in view.nodes],
            unconfined=list(view.unconfined),
            next_cursor=None if view.next_position is None else str(view.next_position),
        )


class PlanPreview(Shown):
    """What would be sent, were it requested now. The digest is the run's, as long as nothing is changed meanwhile."""

    runbook: str
    revision: str
    digest: str
    params: dict[str, str | int | bool] = Field(description="Every parameter, defaults included.")
    nodes: list[str]
    unconfined: list[str] = Field(
        description="Where what only reads is not confined by the machine's kernel, and why, as far as it is known.",
        examples=[["gpu-01: the inventory says confine: off"]],
    )
    items: list[NodePlan] = Field(description="The scripts for the first nodes.")

    @classmethod
    def of(cls, prepared: Prepared, *, shown: int, unconfined: Sequence[str]) -> Self:
        """Return the plan with the scripts of the first `shown` nodes, and where what only reads is not confined."""
        plan = prepared.plan
        scripts: dict[str, list[PlannedScript]] = {node: [] for node in plan.nodes[:shown]}
        for script in plan.scripts:
            if script.node in scripts:
                scripts[script.node].append(script)
        return cls(
            runbook=plan.runbook.name,
            revision=prepared.source.revision,
            digest=plan.digest,
            params=dict(plan.params),
            nodes=list(plan.nodes),
            unconfined=list(unconfined),
            items=[NodePlan.of(node, tuple(found)) for node, found in scripts.items()],
        )
