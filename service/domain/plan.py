"""Plan and digest: what would run, rendered whole, computed without a network."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.errors import Conflict, InvalidInput
from service.domain.node import Controller, Inventory, Node
from service.domain.param import check_param
from service.domain.runbook import ParamValue, Runbook, Step, Where
from service.domain.script import ScriptKind, render, sha256


@dataclass(frozen=True)
class PlannedScript:
    """One script as it would be sent, to one machine."""

    node: str
    step: str
    kind: ScriptKind
    #: `node`, or the name of the controller it is sent to.
    machine: str
    text: str
    sha256: str


@dataclass(frozen=True)
class Plan:
    """Runbook, nodes and parameters with every script rendered, and the digest over all of it."""

    runbook: Runbook
    nodes: tuple[str, ...]
    params: Mapping[str, ParamValue]
    scripts: tuple[PlannedScript, ...]
    #: SHA-256 of the envelope's bytes.
    envelope_sha256: str
    #: Environment of each controller that is used, by its name.
    controllers: Mapping[str, Mapping[str, str]]
    digest: str
    #: Where scripts that only read are not confined, and why, as far as it is known before they run. Beside the digest.
    unconfined: tuple[str, ...] = ()

    def script(self, node: str, step: str, kind: ScriptKind) -> PlannedScript:
        """Return one script; KeyError when the plan has none."""
        for planned in self.scripts:
            if (planned.node, planned.step, planned.kind) == (node, step, kind):
                return planned
        raise KeyError((node, step, kind))


def make_plan(
    runbook: Runbook,
    nodes: tuple[Node, ...],
    *,
    inventory: Inventory,
    params: Mapping[str, ParamValue],
    envelope_sha256: str,
) -> Plan:
    """Render every script of a runbook for these nodes (with checked parameters).

    Raises Conflict when a node lacks an attribute that the runbook needs, or a controller.
    """
    scripts: list[PlannedScript] = []
    controllers: dict[str, Mapping[str, str]] = {}
    for node in nodes:
        _check_needs(runbook, node)
        for step in runbook.steps:
            controller = _controller(step, node, inventory=inventory)
            if controller is not None:
                controllers[controller.name] = dict(sorted(controller.environment.items()))
            scripts.extend(_render_step(runbook, step, node=node, params=params, controller=controller))
    ordered = tuple(scripts)
    loose = _unconfined(nodes, controllers=controllers, inventory=inventory)
    digest = _digest(runbook, nodes, params=params, scripts=ordered, envelope=envelope_sha256, controllers=controllers)
    return Plan(
        runbook, tuple(node.name for node in nodes), dict(params), ordered, envelope_sha256, controllers, digest, loose
    )


def _unconfined(
    nodes: tuple[Node, ...], *, controllers: Mapping[str, Mapping[str, str]], inventory: Inventory
) -> tuple[str, ...]:
    machines = [node.endpoint for node in nodes] + [inventory.controllers[name].endpoint for name in controllers]
    return tuple(f"{one.name}: {one.unconfined}" for one in machines if one.unconfined)


def gate_digest(*, plan_digest: str, node: str, step: str, boot_id: str, targets: tuple[str, ...]) -> str:
    """Return the digest of the thing that a person approves."""
    return sha256(_canonical([plan_digest, node, step, boot_id, list(targets)]))


def check_params(runbook: Runbook, given: Mapping[str, object]) -> dict[str, ParamValue]:
    """Return every parameter with its checked value; InvalidInput names the first wrong one."""
    known = {param.name: param for param in runbook.params}
    unknown = sorted(set(given) - set(known))
    if unknown:
        names = ", ".join(known) or "none"
        raise InvalidInput(f"{runbook.name} has no parameter {unknown[0]}.", f"Its parameters are: {names}.")
    return {name: check_param(param, given.get(name, param.default)) for name, param in known.items()}


def _check_needs(runbook: Runbook, node: Node) -> None:
    missing = [name for name in runbook.needs if name not in node.attributes]
    if missing:
        raise Conflict(
            f"Node {node.name} lacks the attribute {missing[0]}, which {runbook.name} needs.",
            "Add it to the node's attributes in the inventory.",
        )


def _controller(step: Step, node: Node, *, inventory: Inventory) -> Controller | None:
    match step.where:
        case Where.NODE:
            return None
        case Where.CONTROLLER:
            name = node.controller
            if name is None or name not in inventory.controllers:
                raise Conflict(
                    f"Node {node.name} has no controller, which step {step.id} needs.",
                    "Name one of the inventory's controllers at the node.",
                )
            return inventory.controllers[name]


def _render_step(
    runbook: Runbook,
    step: Step,
    *,
    node: Node,
    params: Mapping[str, ParamValue],
    controller: Controller | None,
) -> list[PlannedScript]:
    environment = {"NODE_NAME": node.name}
    environment |= {f"NODE_{name.upper()}": node.attributes[name] for name in runbook.needs}
    environment |= {f"PARAM_{name.upper()}": param_text(value) for name, value in params.items()}
    if controller is not None:
        environment = dict(controller.environment) | environment
    planned = []
    for kind in ScriptKind:
        body = step.script(kind)
        if body is not None:
            text = render(prelude=runbook.prelude_of(step), body=body, environment=environment)
            machine = controller.name if controller else "node"
            planned.append(PlannedScript(node.name, step.id, kind, machine, text, sha256(text)))
    return planned


def param_text(value: ParamValue) -> str:
    """Return a parameter's value as a script sees it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _digest(
    runbook: Runbook,
    nodes: tuple[Node, ...],
    *,
    params: Mapping[str, ParamValue],
    scripts: tuple[PlannedScript, ...],
    envelope: str,
    controllers: Mapping[str, Mapping[str, str]],
) -> str:
    return sha256(
        _canonical(
            {
                "runbook": runbook.name,
                "file": runbook.file_sha256,
                "nodes": [node.name for node in nodes],
                "params": dict(params),
                "scripts": [[s.node, s.step, s.kind, s.machine, s.sha256] for s in scripts],
                "envelope": envelope,
                "controllers": {name: dict(env) for name, env in controllers.items()},
            }
        )
    )


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
