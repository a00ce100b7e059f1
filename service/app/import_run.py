"""Bring a run that was played by hand into the record: its journal is proven, judged, and told line by line."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from service.app.insist import about_node, insist, insist_on_nodes
from service.app.load_runbooks import parse_runbook
from service.app.ports import RunbookSource, Transaction
from service.app.record_attempt import intent_fact, result_fact
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.by_hand import Event, Header, Journal, Line, read_journal
from service.domain.by_hand_play import TYPED, Played, Told, play_journal
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.node import Inventory, Node
from service.domain.person import Permission, Person
from service.domain.plan import Plan, check_params, make_plan
from service.domain.redaction import redact
from service.domain.run import Attempt, Gate, NodeRun, NodeRunState, Run, Trigger, TriggerKind
from service.domain.script import OutputChunk
from service.domain.shown_text import shown

#: Characters of what a person says that are kept, as of any other reason.
_MOST_SAID = 2000


def import_run(service: Service, text: str, *, person: Person, reason: str = "") -> Run:
    """Record the run that a journal tells of.

    Raises Forbidden, InvalidInput with the line that breaks, Conflict for a journal that is unfinished or known, or
    whose node is taken, NotFound for a node that the inventory does not name.
    """
    journal = read_journal(text)
    plan, source = _plan(service, journal.header)
    now = service.clock.now()
    run = _run(journal, plan, person=person, reason=reason, now=now)
    node_run = _node_run(service, journal, run, plan=plan)
    played = play_journal(journal, plan, run, node_run=node_run)
    facts = [
        _begun(journal, run, plan=plan, source=source),
        _imported(service, journal, run, plan=plan),
        *_facts(played, run=run, person=person),
    ]

    # Its pools are those of the inventory, since whoever writes a journal writes its attributes; but those are what is
    # asked about from then on, so he must be in the right there too.
    about = replace(about_node(service, node_run.node), runbook=run.runbook, run_id=run.id)

    def record(transaction: Transaction) -> Run:
        insist(service, person, Permission.REQUEST, about=about)
        insist_on_nodes(service, person, Permission.REQUEST, node_runs=[node_run])
        _refuse_known(transaction, run.id)
        transaction.add_run(run, source=source, plan=plan, node_runs=[played.history.node_run])
        for attempt in played.history.attempts:
            transaction.add_attempt(attempt)
            _add_output(transaction, attempt, played=played)
        for gate in played.history.gates:
            transaction.add_gate(gate)
        for fact in facts:
            transaction.append(fact)
        return run

    return service.store.write(record)


def _plan(service: Service, header: Header) -> tuple[Plan, RunbookSource]:
    """Plan again what was exported: from its own text, so that a runbook that has changed since does not matter."""
    source = RunbookSource(header.runbook, header.source_text, header.prelude, _inert(header.revision))
    runbook = parse_runbook(source, f"{header.runbook}.yaml")
    known = service.inventory.current().node(header.node)
    given = {name: value for name, value in header.attributes.items() if isinstance(value, str) and name != "name"}
    node = Node(header.node, known.endpoint, known.pools, known.controller, given)
    plan = make_plan(
        runbook,
        (node,),
        inventory=Inventory(),
        params=check_params(runbook, header.params),
        envelope_sha256=header.envelope_sha256,
    )
    if plan.digest != header.digest:
        raise InvalidInput(
            f"The plan digest of the journal is {header.digest}, and its runbook and parameters give {plan.digest}.",
            "The header was changed, or an unstick of another version wrote it: import it with that version.",
        )
    return plan, source


def _run(journal: Journal, plan: Plan, *, person: Person, reason: str, now: datetime) -> Run:
    return Run(
        id=journal.run_id,
        runbook=plan.runbook.name,
        digest=plan.digest,
        dry_run=False,
        requested_by=person.name,
        requesters=tuple(sorted({person.name, *journal.persons})),
        trigger=Trigger(TriggerKind.BY_HAND),
        params=plan.params,
        # The clock of a node that is ahead would keep the run at the head of every list.
        created_at=min(journal.begun.at, now),
        reason=_inert(reason or journal.header.reason),
    )


def _node_run(service: Service, journal: Journal, run: Run, *, plan: Plan) -> NodeRun:
    return NodeRun(
        id=service.clock.new_id(),
        run_id=run.id,
        node=plan.nodes[0],
        state=NodeRunState.RUNNING,
        position=0,
        dry_run=False,
        acts=plan.runbook.acts,
        runbook=run.runbook,
        created_at=run.created_at,
        attributes=journal.header.attributes,
        started_at=journal.begun.at,
    )


def _refuse_known(transaction: Transaction, run_id: str) -> None:
    try:
        transaction.run(run_id)
    except NotFound:
        return
    raise Conflict("This journal is in the record already.", f"Look at it: unstick show {run_id}")


def _add_output(transaction: Transaction, attempt: Attempt, *, played: Played) -> None:
    for stream, data in played.outputs[attempt.id].items():
        if data:
            transaction.add_output(OutputChunk(attempt.id, stream, 0, data))
    transaction.seal_output(attempt.id)


def _begun(journal: Journal, run: Run, *, plan: Plan, source: RunbookSource) -> Fact:
    body = {
        "runbook": run.runbook,
        "file_sha256": plan.runbook.file_sha256,
        "revision": source.revision,
        "digest": run.digest,
        "nodes": list(plan.nodes),
        "params": dict(run.params),
        "dry_run": False,
        "reason": run.reason,
        "trigger": {"kind": run.trigger.kind, "name": run.trigger.name},
        "requesters": list(run.requesters),
        "waived": [],
        "retry_of": None,
        "escalated_from": None,
        "from_step": None,
        "by_hand": _place(Told(journal.begun)),
    }
    by = _claimed(journal.begun)
    return Fact("run.requested", f"run/{run.id}", run.requested_by, by, run_id=run.id, body=body)


def _imported(service: Service, journal: Journal, run: Run, *, plan: Plan) -> Fact:
    header = journal.header
    offered = {one.name: one.file_sha256 for one in service.runbooks.all()}
    body = {
        "journal": journal.hash,
        "lines": len(journal.lines),
        "persons": "They typed their names at the node, and nobody has proved who typed.",
        "machine": journal.begun.word("machine"),
        "known_by": journal.begun.word("known_by"),
        "exported_by": _inert(header.exported_by),
        "exported_from": header.service_id,
        "of_this_installation": header.service_id == service.service_id,
        "exported_at": _inert(header.exported_at),
        "runbook_is_offered_now": offered.get(header.runbook) == plan.runbook.file_sha256,
        "reason": run.reason,
    }
    by = _claimed(journal.begun)
    return Fact("run.imported", f"run/{run.id}", run.requested_by, by, run.id, header.node, body=body)


def _facts(played: Played, *, run: Run, person: Person) -> Iterator[Fact]:
    """Yield what each line tells, behind the first, as the service would have told it itself."""
    node_run = played.history.node_run
    for told in played.told[1:]:
        if told.gate is not None:
            fact = _gate_fact(told.gate, opened=told.line.event is Event.GATE)
        elif told.attempt is not None:
            make = intent_fact if told.line.event is Event.INTENDED else result_fact
            fact = make(told.attempt, node_run=node_run)
        else:
            fact = _other_fact(told, node_run)
        body: Mapping[str, Any] = {**fact.body, "by_hand": _place(told)}
        yield replace(fact, person=person.name, on_behalf_of=_claimed(told.line), body=body)
    if node_run.state.ended:
        body = {"state": node_run.state, "by_hand": _place(played.told[-1])}
        yield Fact("run.ended", f"run/{run.id}", person.name, run_id=run.id, body=body)


def _gate_fact(gate: Gate, *, opened: bool) -> Fact:
    body: dict[str, Any] = {"gate": gate.id, "digest": gate.digest, "kind": gate.kind, "reason": gate.reason}
    if opened:
        body |= {
            "boot_id": gate.boot_id,
            "targets": list(gate.targets),
            "expires_at": gate.expires_at.isoformat(),
            "check_attempt_id": gate.check_attempt_id,
        }
    elif gate.decided_by is not None:
        body["decided_by"] = gate.decided_by
    word = "opened" if opened else gate.state
    return Fact(f"gate.{word}", f"gate/{gate.id}", "", run_id=gate.run_id, node=gate.node, step=gate.step, body=body)


def _other_fact(told: Told, node_run: NodeRun) -> Fact:
    about = f"node_run/{node_run.id}"
    body: dict[str, Any]
    match told.line.event:
        case Event.CANCELLED:
            action, about = "run.cancel_requested", f"run/{node_run.run_id}"
            body = {"nodes": [node_run.node], "stuck": [], "reason": node_run.cancel_reason}
        case Event.ENDED if node_run.state is NodeRunState.STUCK:
            action, body = "node_run.stuck", {"reason": node_run.reason}
        case Event.ENDED:
            action = "node_run.ended"
            steps = {one.step: {"outcome": one.outcome, "verdict": one.verdict} for one in node_run.results}
            body = {"state": node_run.state, "verdict": node_run.verdict, "reason": node_run.reason, "steps": steps}
        case _:
            action, body = "node_run.resumed", {"machine": told.line.word("machine")}
    return Fact(action, about, "", run_id=node_run.run_id, node=node_run.node, body=body)


def _inert(text: str) -> str:
    """Return a text of the header as what a person says is kept: no secret, nothing that a terminal obeys."""
    return redact(shown(text))[:_MOST_SAID]


def _claimed(line: Line) -> str:
    """Return whom a line names: a claim, which is told from the name of somebody whom the service knows."""
    name = line.word("who") or line.word("by")
    return f"{name} ({TYPED})" if name else ""


def _place(told: Told) -> dict[str, Any]:
    """Return where a fact stands in the journal; its time is the node's."""
    line = told.line
    return {"line": line.seq, "at": line.at.isoformat(), "boot_id": line.boot, "hash": line.hash}
