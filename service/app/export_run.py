"""Export a plan as one shell script, with which a person plays it on the node while the service is down."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from itertools import product

from service.app.request_run import Prepared
from service.domain.by_hand import Header
from service.domain.errors import Conflict, InvalidInput
from service.domain.node import Confine, Endpoint
from service.domain.plan import Plan, PlannedScript
from service.domain.run import StepOutcome, Trigger, TriggerKind
from service.domain.runbook import ApprovalKind, Step, Where
from service.domain.script import ScriptKind, sha256, shell_word

#: Behind this a piece of the script ends. No piece has it as a line.
_MARK = "END_OF_PIECE"
#: How a step may have ended when a later one is reached.
_ENDS = (StepOutcome.OK, StepOutcome.CHANGED, StepOutcome.SKIPPED, StepOutcome.FAILED, StepOutcome.UNREACHABLE)
#: About more steps no condition of an exported runbook asks: each multiplies what is judged.
_MOST_ASKED = 3
_HEAD = """\
#!/bin/sh
# unstick by hand: {runbook} on {node}
#
# plan      {digest}
# revision  {revision}
# params    {params}
# export    {run}
# exported  {at} by {by}
#
# For the time in which the service is down. Copy this file to the node, and run it there as root at a terminal:
#   scp FILE {node}:
#   ssh -t {node} sudo sh FILE
# Started again it goes on where it was stopped, also after a boot. At its end it says where its journal is, and how
# that comes into the record.
"""


@dataclass(frozen=True)
class Shell:
    """The parts of an exported script that are the same for every plan."""

    #: Plays the steps (`by_hand.sh`).
    player: str
    #: The envelope around every script, as every transport sends it.
    envelope: str
    #: The program for `sh -c` that reads an envelope.
    loader: str


def export_run(prepared: Prepared, *, endpoint: Endpoint, shell: Shell, service_id: str, by: str) -> str:
    """Return the script that plays a prepared run on its one node.

    Raises Conflict for a runbook that cannot be played in one place by hand, InvalidInput for several nodes.
    """
    plan = prepared.plan
    if len(plan.nodes) != 1:
        raise InvalidInput("One script is for one node.", "Export it once for each node.")
    if sha256(shell.envelope) != plan.envelope_sha256:
        raise Conflict("The envelope is not that of the plan.", "Install unstick anew.")
    _refuse_other_places(plan)
    pieces = {f"{script.step}.{script.kind}": script.text for script in plan.scripts}
    pieces |= {"envelope": shell.envelope, "loader": shell.loader + "\n"}
    header = header_of(prepared, service_id=service_id, by=by)
    parts = [
        _head(prepared, header),
        _settings(prepared, header, endpoint=endpoint, pieces=pieces),
        shell.player,
        "pieces() {\n  case $1 in\n",
        *(_piece(name, text) for name, text in pieces.items()),
        "    *) return 1 ;;\n  esac\n}\n\nplan() {\n",
        *(_step(prepared, step) for step in plan.runbook.steps),
        '}\n\nmain "$@"\n',
    ]
    return "".join(parts)


def header_of(prepared: Prepared, *, service_id: str, by: str) -> Header:
    """Return what the script carries of the plan."""
    plan, source = prepared.plan, prepared.source
    return Header(
        run_id=prepared.run.id,
        runbook=plan.runbook.name,
        node=plan.nodes[0],
        attributes=prepared.node_runs[0].attributes,
        params=plan.params,
        digest=plan.digest,
        source_text=source.text,
        prelude=source.prelude,
        revision=source.revision,
        envelope_sha256=plan.envelope_sha256,
        service_id=service_id,
        exported_by=by,
        exported_at=prepared.run.created_at.astimezone(UTC).isoformat(timespec="seconds"),
        reason=prepared.run.reason,
    )


def _refuse_other_places(plan: Plan) -> None:
    for step in plan.runbook.steps:
        if step.where is Where.CONTROLLER:
            raise Conflict(
                f"Step {step.id} of {plan.runbook.name} runs on the controller, and one script runs in one place.",
                f"`unstick plan {plan.runbook.name} --node {plan.nodes[0]}` prints each script with its machine.",
            )


def _head(prepared: Prepared, header: Header) -> str:
    params = " ".join(f"{name}={value!r}" for name, value in header.params.items()) or "none"
    return _HEAD.format(
        runbook=header.runbook,
        node=header.node,
        digest=header.digest,
        revision=_comment(header.revision or "none"),
        params=_comment(params),
        run=header.run_id,
        at=header.exported_at,
        by=_comment(header.exported_by),
    )


def _comment(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _settings(prepared: Prepared, header: Header, *, endpoint: Endpoint, pieces: dict[str, str]) -> str:
    if "'" in endpoint.path or "\\" in endpoint.path:
        raise InvalidInput(f"The path of node {header.node} has quotes.", "Mend it in inventory.yaml.")
    values = {
        "run": header.run_id,
        "runbook": header.runbook,
        "node": header.node,
        "address": endpoint.address,
        "digest": header.digest,
        "view": endpoint.view.value,
        "path": endpoint.path,
        "about": prepared.plan.runbook.title,
        "listed": "\n".join(_listed(prepared)),
        "escalates": _escalates(prepared),
        "may_boot": _flag(any(step.reboots for step in prepared.plan.runbook.steps)),
        "confine": "" if endpoint.confine is Confine.OFF else endpoint.confine.value,
        "approval": str(int(prepared.plan.runbook.limits.approval_expires.total_seconds())),
        "header": header.packed(),
        "sums": "\n".join(f"{name} {sha256(text)}" for name, text in pieces.items()),
    }
    return "\n" + "".join(_assigned(name, value) for name, value in values.items()) + "\n"


def _assigned(name: str, value: str) -> str:
    """Return a line that sets a variable; also a plain word is in quotes, or it looks like a command that was meant."""
    word = shell_word(value)
    return f"{name}='{value}'\n" if word == value else f"{name}={word}\n"


def _piece(name: str, text: str) -> str:
    mark = _MARK
    while mark in text.splitlines():
        mark += "_"
    return f"    {name})\n      cat <<'{mark}'\n{text}{mark}\n      ;;\n"


def _step(prepared: Prepared, step: Step) -> str:
    scripts: dict[ScriptKind, PlannedScript] = {
        script.kind: script for script in prepared.plan.scripts if script.step == step.id
    }
    values = {
        "step": step.id,
        "title": step.title,
        "timeout": str(max(1, int(step.timeout.total_seconds()))),
        "gate": step.approval.value,
        "has_check": _flag(ScriptKind.CHECK in scripts),
        "has_run": _flag(ScriptKind.RUN in scripts),
        "has_verify": _flag(ScriptKind.VERIFY in scripts),
        "acts": _flag(step.acts),
        "read_only": _flag(step.read_only),
        "always": _flag(step.always),
        "undoes": step.undoes or "",
        "reboots": _flag(step.reboots),
        "within": str(int(step.within.total_seconds())) if step.within is not None else "",
        "on_failure": step.on_failure.value,
        "retry": " ".join(_pauses(step)),
        "reads": " ".join(step.reads),
        **_condition(prepared, step),
    }
    return "".join(f"  {_assigned(name, value)}" for name, value in values.items()) + "  play_step\n\n"


def _pauses(step: Step) -> list[str]:
    if step.retry is None:
        return []
    retry = step.retry
    return [str(int((retry.delay * retry.backoff**turn).total_seconds())) for turn in range(retry.attempts - 1)]


def _condition(prepared: Prepared, step: Step) -> dict[str, str]:
    """Return whether the step is left out here, or behind which outcomes of which earlier steps it is played.

    No shell judges a condition. It is judged here for everything that may have become of the steps that it asks about.
    """
    asked = sorted({name or "" for value, name in step.when.references if value == "steps"}) if step.when else []
    earlier = [one.id for one in prepared.plan.runbook.steps[: prepared.plan.runbook.steps.index(step)]]
    if len(asked) > _MOST_ASKED or not set(asked) <= set(earlier):
        raise Conflict(
            f"The condition of step {step.id} asks about more steps than a script can carry, or names none.",
            f"`unstick plan {prepared.plan.runbook.name} --node {prepared.plan.nodes[0]}` prints each script.",
        )
    ends = [
        ends
        for ends in product(_ENDS, repeat=len(asked))
        if _holds(prepared, step, dict(zip(asked, ends, strict=True)))
    ]
    if not asked:
        return {"left_out": _flag(not ends), "asks": "", "plays_behind": ""}
    return {
        "left_out": _flag(not ends),
        "asks": " ".join(asked),
        "plays_behind": " ".join(":".join(one) for one in ends),
    }


def _holds(prepared: Prepared, step: Step, ends: Mapping[str, StepOutcome]) -> bool:
    """Whether the step's condition holds when earlier steps have ended so; InvalidInput when it cannot be judged."""
    return step.when is None or step.when.holds(_facts(prepared, ends))


def _facts(prepared: Prepared, ends: Mapping[str, StepOutcome]) -> dict[str, object]:
    trigger = Trigger(TriggerKind.BY_HAND)
    return {
        "params": prepared.plan.params,
        "node": prepared.node_runs[0].attributes,
        "trigger": {"kind": trigger.kind, "name": trigger.name},
        "steps": {name: {"outcome": outcome} for name, outcome in ends.items()},
    }


def _listed(prepared: Prepared) -> Iterator[str]:
    """Yield a line for each step, as a person reads it who is about to begin."""
    for number, step in enumerate(prepared.plan.runbook.steps, start=1):
        yield f"  {number}. {step.id}: {step.title} ({', '.join(_manner(prepared, step))})"
    for machine in prepared.plan.unconfined:
        yield f"  unconfined: {machine}"


def _manner(prepared: Prepared, step: Step) -> Iterator[str]:
    if _condition(prepared, step)["left_out"]:
        yield "left out here: its condition is false"
        return
    if not step.acts:
        yield "looks"
    elif step.always:
        yield f"undoes {step.undoes}"
    elif step.approval is ApprovalKind.NONE:
        yield "acts and does not ask"
    else:
        yield "asks you, and acts" if step.approval is ApprovalKind.CONFIRM else "asks a second person, and acts"
    if step.reboots:
        yield "may boot the node"


def _escalates(prepared: Prepared) -> str:
    """Return the runbook that the service would request where this one does not cure, as far as it is known now."""
    for escalation in prepared.plan.runbook.escalate_to:
        with suppress(InvalidInput):
            if escalation.when is None or escalation.when.holds(_facts(prepared, {})):
                return escalation.runbook
    return ""


def _flag(value: bool) -> str:
    return "yes" if value else ""
