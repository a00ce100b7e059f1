"""Send a script, ask about it, and write down what the node says: intent first, always."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from service.app.driven import Driven, still_decided
from service.app.ports import Reader, Transaction
from service.app.record_attempt import OutputSink, intent_fact, lost_fact, result_fact, with_report
from service.app.service import Service
from service.domain.action import Dispatch, Settle, Stop
from service.domain.errors import Conflict
from service.domain.node import Endpoint
from service.domain.run import Attempt, AttemptState, History, NodeRun, NodeRunState
from service.domain.runbook import Where
from service.domain.scene import last_boot
from service.domain.script import (
    AttemptRef,
    NotStarted,
    Report,
    ReportState,
    ScriptKind,
    ScriptOrder,
    Stream,
    say_unconfined,
)

#: An acting script that no gate bounds is not started later than this.
NOT_AFTER = timedelta(minutes=10)
#: How long one `settle` waits for the end of a script.
SETTLE_WAIT = timedelta(seconds=20)
#: What a node answers after it has looked for the attempt; every other refusal tells of one order alone.
_LOOKED_FOR = frozenset(
    {
        NotStarted.OTHER_BOOT,
        NotStarted.TOO_LATE,
        NotStarted.HELD,
        NotStarted.VOID,
        NotStarted.NO_SPACE,
        NotStarted.CLOCK,
        NotStarted.UNCONFINED,
    }
)


def dispatch_script(driven: Driven, history: History, *, dispatch: Dispatch) -> None:
    """Record the intent, send the script, record the result; nothing when a person was faster."""
    service = driven.service
    planned = driven.planned(dispatch.step, dispatch.kind)
    now = service.clock.now()
    attempt = Attempt(
        id=service.clock.new_id(),
        node_run_id=history.node_run.id,
        step=dispatch.step,
        kind=dispatch.kind,
        number=max((one.number for one in history.attempts), default=0) + 1,
        round=dispatch.round,
        state=AttemptState.INTENDED,
        intended_at=now,
        script_sha256=planned.sha256,
        acting=dispatch.acting,
        not_after=dispatch.not_after or now + NOT_AFTER,
        boot_id=dispatch.boot_id,
        targets=dispatch.targets,
    )
    node_run = replace(history.node_run, state=NodeRunState.RUNNING, reason="", wake_at=None)

    def intend(transaction: Transaction) -> bool:
        if not still_decided(driven, transaction, history, acting=attempt.acting):
            return False
        transaction.save_node_run(node_run)
        transaction.add_attempt(attempt)
        transaction.append(intent_fact(attempt, node_run=node_run))
        return True

    if not service.store.write(intend):
        return
    _start(driven, replace(history, node_run=node_run), attempt=attempt, resend=False)


def _start(driven: Driven, history: History, *, attempt: Attempt, resend: bool) -> None:
    node_run = history.node_run
    try:
        order = _order(driven, history, attempt=attempt, resend=resend)
        executor = driven.service.executors.of(order.endpoint)
    except Conflict as error:
        refusal = _proven(Report(ReportState.NOT_STARTED, NotStarted.REFUSED, str(error)), resend=resend)
        _record(driven, node_run, attempt=attempt, ask_node=lambda sink: refusal)
        return

    def start(sink: OutputSink) -> Report:
        return _noted(_proven(executor.start(order, sink), resend=resend), attempt, endpoint=order.endpoint)

    _record(driven, node_run, attempt=attempt, ask_node=start)


def _proven(report: Report, *, resend: bool) -> Report:
    """Return what a report proves of the attempt: an order that did not arrive tells nothing of an earlier one."""
    if not resend or report.state is not ReportState.NOT_STARTED or report.not_started in _LOOKED_FOR:
        return report
    reason = f"It was sent before and may have run; this time it did not arrive. {report.reason}"
    return replace(report, state=ReportState.LOST, not_started=None, reason=reason)


def _order(driven: Driven, history: History, *, attempt: Attempt, resend: bool) -> ScriptOrder:
    service, node_run = driven.service, history.node_run
    at_controller = frozenset(one.id for one in driven.runbook.steps if one.where is Where.CONTROLLER)
    planned = driven.planned(attempt.step, attempt.kind)
    step = driven.runbook.step(attempt.step)
    now = service.clock.now()
    return ScriptOrder(
        attempt_id=attempt.id,
        run_id=driven.run.id,
        step=attempt.step,
        kind=attempt.kind,
        endpoint=endpoint_of(service, node_run, machine=planned.machine),
        text=planned.text,
        targets=attempt.targets if attempt.kind is not ScriptKind.CHECK else (),
        acting=attempt.acting,
        reads=step.reads,
        timeout=step.timeout,
        not_after=attempt.not_after or now + NOT_AFTER,
        sent_at=now,
        service_id=service.service_id,
        boot_id=attempt.boot_id if attempt.acting else None,
        first_boot_id=node_run.first_boot_id,
        last_boot_id=last_boot(history, elsewhere=at_controller),
        dry_run=driven.run.dry_run,
        resend=resend,
        offsets=held_output(service, attempt.id) if resend else {},
    )


def endpoint_of(service: Service, node_run: NodeRun, *, machine: str) -> Endpoint:
    """Return the machine a planned script goes to, as the inventory has it now."""
    inventory = service.inventory.current()
    if machine != "node":
        controller = inventory.controllers.get(machine)
        if controller is None:
            raise Conflict(f"The controller {machine} is no longer in the inventory.", "Put it back, then retry.")
        return controller.endpoint
    node = inventory.nodes.get(node_run.node)
    if node is None and node_run.node in inventory.refused:
        raise Conflict(inventory.refused[node_run.node], "Name it in inventory.yaml, then retry.")
    if node is None:
        raise Conflict(f"Node {node_run.node} is no longer in the inventory.", "Put it back, then retry.")
    return node.endpoint


def ask(driven: Driven, history: History, *, action: Settle | Stop) -> None:
    """Ask about an attempt; one that nobody saw start is sent again under its own id."""
    service = driven.service
    attempt = next(one for one in history.attempts if one.id == action.attempt_id)
    if isinstance(action, Settle) and attempt.state is AttemptState.INTENDED:
        _start(driven, history, attempt=attempt, resend=True)
        return
    planned = driven.planned(attempt.step, attempt.kind)
    try:
        endpoint = endpoint_of(service, history.node_run, machine=planned.machine)
        executor = service.executors.of(endpoint)
    except Conflict as error:
        lost = Report(ReportState.LOST, reason=str(error))
        _record(driven, history.node_run, attempt=attempt, ask_node=lambda sink: lost)
        return
    ref = AttemptRef(attempt.id, endpoint, attempt.boot_id, held_output(service, attempt.id), SETTLE_WAIT)
    verb = executor.stop if isinstance(action, Stop) else executor.settle

    def asked(sink: OutputSink) -> Report:
        return _noted(_proven(verb(ref, sink), resend=True), attempt, endpoint=endpoint)

    _record(driven, history.node_run, attempt=attempt, ask_node=asked)


def held_output(service: Service, attempt_id: str) -> dict[Stream, int]:
    """Return how many bytes of each stream are kept already."""

    def look(reader: Reader) -> dict[Stream, int]:
        return {stream: len(reader.output(attempt_id, stream)) for stream in Stream}

    return service.store.read(look)


def _noted(report: Report, attempt: Attempt, *, endpoint: Endpoint) -> Report:
    """Return the report of a look with what was known before it; what a node finds out by itself it has told."""
    ran = report.state in (ReportState.FINISHED, ReportState.RUNNING, ReportState.UNKILLABLE)
    if attempt.acting or not ran or not endpoint.unconfined:
        return report
    return replace(report, reason=f"{report.reason} {say_unconfined(endpoint.unconfined)}".strip())


def _record(driven: Driven, node_run: NodeRun, *, attempt: Attempt, ask_node: Callable[[OutputSink], Report]) -> None:
    """Ask the executor and write down what it reports."""
    service = driven.service
    sink = OutputSink(service.store)
    report = ask_node(sink)
    told = with_report(attempt, report, now=service.clock.now())
    seen_boot = report.facts.boot_id if report.facts is not None else report.boot_id
    at_node = driven.runbook.step(attempt.step).where is Where.NODE
    known = replace(node_run, first_boot_id=node_run.first_boot_id or (seen_boot if at_node else None))
    keep_output = sink.rest(whole=report.state not in (ReportState.RUNNING, ReportState.LOST))

    def result(transaction: Transaction) -> None:
        keep_output(transaction)
        ended = not told.state.open
        final = replace(told, output_sha256=transaction.seal_output(told.id)) if ended else told
        transaction.save_attempt(final)
        transaction.save_node_run(known)
        if final.state is not attempt.state:
            transaction.append(result_fact(final, node_run=known))
        elif report.state is ReportState.LOST and not attempt.reason:
            # Told once for each loss: what was said of it is gone from the attempt when the node answers again.
            transaction.append(lost_fact(final, node_run=known))

    service.store.write(result)


def give_up(driven: Driven, history: History, *, attempt_id: str) -> None:
    """Write down that nobody could learn how an attempt ended."""
    attempt = next(one for one in history.attempts if one.id == attempt_id)
    reason = f"The node did not answer for too long. {attempt.reason}".strip()

    def record(transaction: Transaction) -> None:
        final = replace(
            attempt, state=AttemptState.UNKNOWN, reason=reason, output_sha256=transaction.seal_output(attempt.id)
        )
        transaction.save_attempt(final)
        transaction.save_node_run(history.node_run)
        transaction.append(result_fact(final, node_run=history.node_run))

    driven.service.store.write(record)
