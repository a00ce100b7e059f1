"""Show a gate with all that an answer rests on, as one read model: for the page that a person answers from."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.app.driven import load
from service.app.ports import Reader
from service.app.service import Service
from service.app.show_run import GateView, as_of, show_gate
from service.domain.delivery import RecordedAlert
from service.domain.person import Person
from service.domain.run import Gate, GateState, History, NodeRun, StepOutcome, TriggerKind
from service.domain.runbook import ApprovalKind, Runbook, Step, Where
from service.domain.script import ScriptKind

#: So many alerts are shown as the cause of a run; a storm that was folded into one run may have many more.
_MOST_ALERTS = 5


class Place(StrEnum):
    """Where a step stands, seen from a gate."""

    BEFORE = "before"
    HERE = "here"
    AFTER = "after"


@dataclass(frozen=True)
class StepOnTheWay:
    """One step of the plan, and what became of it so far."""

    step: Step
    place: Place
    outcome: StepOutcome | None


@dataclass(frozen=True)
class GateInFull:
    """A gate, the plan around it, and how its node run stands."""

    view: GateView
    node_run: NodeRun
    runbook: Runbook
    step: Step
    steps: tuple[StepOnTheWay, ...]
    #: What the step means for the node, one sentence each.
    risks: tuple[str, ...]
    #: The whole text that would be sent, by the word for its kind.
    sent: tuple[tuple[str, str], ...]
    #: The machine that it would be sent to: the node, or a controller's name.
    machine: str
    #: The alerts that have started the run.
    alerts: tuple[RecordedAlert, ...]
    #: Another gate at which the node run waits now, most often that of the next step.
    other_gate: Gate | None


def show_gate_in_full(service: Service, gate_id: str, *, person: Person) -> GateInFull:
    """Return a gate as this person sees it, with its plan; NotFound."""
    view = show_gate(service, gate_id, person=person)
    history, alerts = service.store.read(lambda reader: _beside(reader, view))
    node_run, now = history.node_run, service.clock.now()
    driven = load(service, node_run)
    runbook, step = driven.runbook, driven.runbook.step(view.gate.step)
    scripts = [one for one in driven.scripts if one.step == step.id and one.kind is not ScriptKind.CHECK]
    machine = next((one.machine for one in scripts if one.machine != "node"), node_run.node)
    return GateInFull(
        view,
        node_run,
        runbook,
        step,
        steps=_steps(runbook, view.gate, node_run=node_run),
        risks=risks(runbook, step, machine=machine),
        sent=tuple((one.kind.value, one.text) for one in scripts),
        machine=machine,
        alerts=alerts,
        other_gate=next((one for one in history.gates if one.id != gate_id and _is_open(one, now)), None),
    )


def risks(runbook: Runbook, step: Step, *, machine: str) -> tuple[str, ...]:
    """Return what a step means for the node, one sentence each, as far as its runbook says."""
    undone_by = [one.id for one in runbook.steps if one.undoes == step.id]
    found = []
    if step.reboots:
        found.append("The node reboots: everything that runs on it ends.")
    if step.where is Where.CONTROLLER:
        found.append(f"It runs on the controller {machine}, not on the node itself.")
    if undone_by:
        undoing = ", ".join(undone_by)
        found.append(f"Reversible: what it changes is put back by step {undoing}, also when the run ends badly.")
    else:
        found.append("Not reversible: no step of this runbook takes it back.")
    if step.verify is None:
        found.append("Unverified: nothing proves afterwards that it has helped.")
    match step.approval:
        case ApprovalKind.SECOND_PERSON:
            found.append("It may disrupt work on the node, so somebody other than the requester must agree.")
        case ApprovalKind.CONFIRM | ApprovalKind.NONE:
            pass
    if not step.waivable:
        found.append("No rule may waive this gate: a person always looks.")
    return tuple(found)


def _is_open(gate: Gate, now: datetime) -> bool:
    return as_of(gate, now).state is GateState.OPEN


def _beside(reader: Reader, view: GateView) -> tuple[History, tuple[RecordedAlert, ...]]:
    history = reader.history(view.gate.node_run_id)
    if view.run.trigger.kind is not TriggerKind.ALERT:
        return history, ()
    # A monitor says the same again and again while it fires; each occasion is shown once, as it was last said.
    said = {(one.source, one.fingerprint, one.starts_at): one for one in reader.alerts_of_run(view.run.id)}
    return history, tuple(said.values())[:_MOST_ALERTS]


def _steps(runbook: Runbook, gate: Gate, *, node_run: NodeRun) -> tuple[StepOnTheWay, ...]:
    outcomes = {result.step: result.outcome for result in node_run.results}
    ids = [step.id for step in runbook.steps]
    here = ids.index(gate.step)
    places = [Place.BEFORE] * here + [Place.HERE] + [Place.AFTER] * (len(ids) - here - 1)
    return tuple(
        StepOnTheWay(step, place, outcomes.get(step.id)) for step, place in zip(runbook.steps, places, strict=True)
    )
