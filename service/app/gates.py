"""Open and close gates, as the loop asks for it; persons answer them in `decide`.

What runs on the node is looked at before a gate is opened, and stands with it. Where that is over the limits of
policy.yaml a gate that a rule has waived is opened for a person after all.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC

from service.app.driven import SELF, Driven, still_decided
from service.app.ports import Transaction
from service.domain.action import CloseGate, OpenGate
from service.domain.audit import Fact
from service.domain.errors import ConfigInvalid, Conflict
from service.domain.plan import gate_digest
from service.domain.run import Gate, GateState, History
from service.domain.survey import Survey, judged


def open_gate(driven: Driven, history: History, *, opening: OpenGate) -> None:
    """Write down a gate: open, or waived by the rule that fired; none when a person was faster."""
    gate = _new_gate(driven, history, opening=opening)
    waived = gate.state is GateState.WAIVED
    body: dict[str, object] = {
        "gate": gate.id,
        "kind": gate.kind,
        "digest": gate.digest,
        "boot_id": gate.boot_id,
        "targets": list(gate.targets),
        "expires_at": gate.expires_at.astimezone(UTC).isoformat(),
        "check_attempt_id": gate.check_attempt_id,
        "rule": driven.run.trigger.name if waived else None,
    }
    if gate.survey is not None:
        body |= {"occupants": gate.survey.counts(), "over": list(gate.survey.over)}

    def record(transaction: Transaction) -> None:
        if not still_decided(driven, transaction, history, acting=True):
            return
        transaction.add_gate(gate)
        transaction.save_node_run(history.node_run)
        transaction.append(_gate_fact(f"gate.{_word(gate.state)}", gate, body=body))

    driven.service.store.write(record)


def _look(driven: Driven, history: History, *, opening: OpenGate) -> Survey | None:
    """Look at what runs on the node; a limit counts only where nobody would be asked otherwise."""
    service, node_run = driven.service, history.node_run
    inventory = service.inventory.current()
    node = inventory.nodes.get(node_run.node)
    survey = service.surveyor.survey(node, inventory) if node is not None else None
    if survey is None or node is None or not opening.waived:
        return survey
    try:
        limits = service.policy.current().occupants
    except ConfigInvalid as wrong:
        # Without limits nobody knows whether the machine may go on alone.
        return replace(survey, over=(f"The limits are not known: {wrong.reason}",))
    return judged(survey, limits, pools=node.pools)


def _new_gate(driven: Driven, history: History, *, opening: OpenGate) -> Gate:
    node_run = history.node_run
    survey = _look(driven, history, opening=opening)
    waived = opening.waived and not (survey is not None and survey.over)
    now = driven.service.clock.now()
    digest = gate_digest(
        plan_digest=driven.run.digest,
        node=node_run.node,
        step=opening.step,
        boot_id=opening.boot_id,
        targets=opening.targets,
    )
    return Gate(
        id=driven.service.clock.new_id(),
        run_id=driven.run.id,
        node_run_id=node_run.id,
        node=node_run.node,
        step=opening.step,
        round=opening.round,
        kind=opening.kind,
        state=GateState.WAIVED if waived else GateState.OPEN,
        digest=digest,
        boot_id=opening.boot_id,
        targets=opening.targets,
        opened_at=now,
        expires_at=now + driven.runbook.limits.approval_expires,
        check_attempt_id=opening.check_attempt_id,
        survey=survey,
    )


def _word(state: GateState) -> str:
    return "opened" if state is GateState.OPEN else state


def close_gate(driven: Driven, history: History, *, closing: CloseGate) -> None:
    """Write down that a gate expired or is void, unless a person was faster."""
    gate = next(one for one in history.gates if one.id == closing.gate_id)
    closed = replace(gate, state=closing.state, reason=closing.reason)
    body = {"gate": gate.id, "digest": gate.digest, "reason": closing.reason}

    def record(transaction: Transaction) -> None:
        transaction.save_gate(closed)
        transaction.save_node_run(history.node_run)
        transaction.append(_gate_fact(f"gate.{closing.state}", closed, body=body))

    try:
        driven.service.store.write(record)
    except Conflict:
        # A person was faster; the next look at the record sees the answer.
        return


def _gate_fact(action: str, gate: Gate, *, body: Mapping[str, object]) -> Fact:
    return Fact(action, f"gate/{gate.id}", SELF, run_id=gate.run_id, node=gate.node, step=gate.step, body=body)
