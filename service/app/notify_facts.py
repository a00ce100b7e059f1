"""Makes notices of audit events: what the record knows about each, in the few words that people need."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from service.app.alert_ports import AlertFilter
from service.app.load_runbooks import parse_runbook
from service.app.ports import Reader
from service.app.show_gate import risks
from service.domain.audit import AuditEvent
from service.domain.delivery import AlertVerdict, HeldBy
from service.domain.errors import NotFound, RunbookInvalid
from service.domain.notice import GATHERING, Notice, NoticeKind, kind_of
from service.domain.notice_words import MOST_LINES, MOST_NAMES, line, lines
from service.domain.run import Gate, GateState, NodeRun, NodeRunState, Run, StepOutcome, TriggerKind, Verdict, run_state
from service.domain.runbook import Runbook, Step
from service.domain.script import Stream

#: So much of what a check said is looked at (bytes).
_MOST_SAID = 16 * 1024
#: More alerts that are held are not counted.
_MOST_HELD = 200
_WELL = frozenset({Verdict.CURED, Verdict.WELL, Verdict.CLEARED})


@dataclass(frozen=True)
class NoticeMaker:
    """Makes the notice of one event, as the record stands at one moment."""

    reader: Reader
    now: datetime

    def made_of(self, event: AuditEvent, *, notice_id: str) -> Notice | None:
        """Return the notice of an event; None when it makes none."""
        kind = kind_of(event)
        match kind:
            case None:
                return None
            case NoticeKind.GATE:
                return self._gate(event, notice_id)
            case NoticeKind.ENDED:
                return self._ended(event, notice_id)
            case NoticeKind.STUCK:
                return self._stuck(event, notice_id)
            case NoticeKind.OVERRIDE:
                return self._override(event, notice_id)
            case NoticeKind.BREAKER | NoticeKind.PAUSE:
                return self._of_alerts(event, kind, notice_id)
            case _:
                assert_never(kind)

    def _gate(self, event: AuditEvent, notice_id: str) -> Notice:
        fact = event.fact
        run = self.reader.run(fact.run_id)
        gate = self.reader.gate(str(fact.body["gate"]))
        node_runs = [one for one in self.reader.node_runs(run.id) if one.id == gate.node_run_id]
        runbook, step = self._step(run, gate.step)
        said = b"\n".join(
            self.reader.output(gate.check_attempt_id, stream)[:_MOST_SAID] for stream in (Stream.STDOUT, Stream.STDERR)
        )
        shown = {
            "id": gate.id,
            "node": gate.node,
            "targets": [line(target) for target in gate.targets[:MOST_LINES]],
            "targets_in_all": len(gate.targets),
            "occupants": line(gate.occupants),
            "over": [line(reason) for reason in gate.over[:MOST_LINES]],
            "saw": list(lines(said.decode("utf-8", "replace"))),
            "expires_at": gate.expires_at.isoformat(),
        }
        facts = {
            "step": gate.step,
            "title": line(step.title) if step is not None else gate.step,
            "risks": list(self._risks(gate, runbook, step)),
            "why": _why(run),
            "script": _script(step),
            "approval": gate.kind.value,
            "requesters": [line(one) for one in run.requesters],
            "gates": [shown],
        }
        key = f"{run.id}/{gate.step}/{gate.kind}"
        return _of_run(event, run, node_runs, _Made(notice_id, NoticeKind.GATE, key, facts, self.now + GATHERING))

    def _ended(self, event: AuditEvent, notice_id: str) -> Notice | None:
        run = self.reader.run(event.fact.run_id)
        if run.dry_run and run.trigger.kind is not TriggerKind.ALERT:
            # Whoever asked for it waits for it; a sweep has a table of its own.
            return None
        node_runs = self.reader.node_runs(run.id)
        ends = Counter(_end(one) for one in node_runs)
        bad = [one for one in node_runs if one.state is not NodeRunState.SUCCEEDED or one.verdict not in {None, *_WELL}]
        facts: dict[str, Any] = {
            "state": run_state(one.state for one in node_runs).value,
            "dry_run": run.dry_run,
            "why": _why(run),
            "ends": [{"what": what, "nodes": number} for what, number in sorted(ends.items())],
            "look_at": [{"node": one.node, "what": _end(one), "reason": line(one.reason)} for one in bad[:MOST_NAMES]],
        }
        if run.dry_run:
            would = [{"node": one.node, "step": step} for one in node_runs for step in _would_change(one)]
            facts |= {"would_change": would[:MOST_NAMES], "would_change_in_all": len(would)}
        return _of_run(event, run, node_runs, _Made(notice_id, NoticeKind.ENDED, f"run/{run.id}/{event.seq}", facts))

    def _stuck(self, event: AuditEvent, notice_id: str) -> Notice:
        fact = event.fact
        run = self.reader.run(fact.run_id)
        node_runs = [one for one in self.reader.node_runs(run.id) if one.node == fact.node]
        last = self.reader.history(node_runs[0].id).attempts if node_runs else ()
        facts = {
            "node": fact.node,
            "step": last[-1].step if last else "",
            "reason": line(str(fact.body.get("reason") or "")),
            "why": _why(run),
        }
        return _of_run(event, run, node_runs, _Made(notice_id, NoticeKind.STUCK, f"{fact.about}/{event.seq}", facts))

    def _override(self, event: AuditEvent, notice_id: str) -> Notice:
        fact = event.fact
        run = self.reader.run(fact.run_id)
        gate = self.reader.gate(str(fact.body["gate"]))
        every = self.reader.node_runs(run.id)
        node_runs = [one for one in every if one.id == gate.node_run_id]
        facts = {
            "gate": gate.id,
            "node": gate.node,
            "step": gate.step,
            "approval": gate.kind.value,
            "by": line(str(fact.body.get("decided_by") or fact.person)),
            "by_hand": "by_hand" in fact.body,
            "ended": all(one.state.ended for one in every),
            "reason": line(str(fact.body.get("reason") or "")),
            "why": _why(run),
            "targets": [line(target) for target in gate.targets[:MOST_LINES]],
            "targets_in_all": len(gate.targets),
        }
        return _of_run(event, run, node_runs, _Made(notice_id, NoticeKind.OVERRIDE, f"{fact.about}/{event.seq}", facts))

    def _of_alerts(self, event: AuditEvent, kind: NoticeKind, notice_id: str) -> Notice:
        fact = event.fact
        facts: dict[str, Any] = {
            name: line(value) if isinstance(value, str) else value
            for name, value in fact.body.items()
            if name in ("reason", "it_was", "alerts")
        }
        match fact.action:
            case "breaker.latched":
                facts |= {"breaker": fact.about.removeprefix("breaker/"), "held": self._held()}
            case "breaker.reset":
                facts |= {"breaker": fact.about.removeprefix("breaker/"), "by": line(fact.person)}
            case _:
                facts |= {"by": line(fact.person), "resumed": fact.action == "alerts.resumed"}
        return Notice(notice_id, kind, event.at, f"{fact.about}/{event.seq}", facts)

    def _held(self) -> str:
        page = self.reader.alerts(AlertFilter(verdict=AlertVerdict.HELD), cursor=None, limit=_MOST_HELD)
        number = sum(one.held_by is HeldBy.BREAKER for one in page.items)
        return f"{'at least ' if page.next_cursor else ''}{number}"

    def _step(self, run: Run, step: str) -> tuple[Runbook, Step] | tuple[None, None]:
        source = self.reader.runbook_source(run.id)
        try:
            runbook = parse_runbook(source, f"{source.name}.yaml")
            return runbook, runbook.step(step)
        except (RunbookInvalid, KeyError):
            # Planned by another version: the gate is told all the same.
            return None, None

    def _risks(self, gate: Gate, runbook: Runbook | None, step: Step | None) -> tuple[str, ...]:
        if runbook is None or step is None:
            return ()
        machines = [one.machine for one in self.reader.scripts(gate.run_id, gate.node) if one.step == step.id]
        return risks(runbook, step, machine=next((one for one in machines if one != "node"), gate.node))


@dataclass(frozen=True)
class _Made:
    notice_id: str
    kind: NoticeKind
    key: str
    facts: Mapping[str, Any]
    gathers_until: datetime | None = None


def _of_run(event: AuditEvent, run: Run, node_runs: Sequence[NodeRun], made: _Made) -> Notice:
    pools = {str(pool) for one in node_runs for pool in _pools(one)}
    return Notice(
        made.notice_id,
        made.kind,
        event.at,
        made.key,
        made.facts,
        run_id=run.id,
        runbook=run.runbook,
        nodes=tuple(one.node for one in node_runs),
        pools=tuple(sorted(pools)),
        by_alert=run.trigger.kind is TriggerKind.ALERT,
        gathers_until=made.gathers_until,
    )


def _why(run: Run) -> str:
    reason = f": {line(run.reason)}" if run.reason else ""
    name = line(run.trigger.name)
    match run.trigger.kind:
        case TriggerKind.PERSON:
            return f"{line(run.requested_by)} asked for it{reason}"
        case TriggerKind.ALERT:
            return f"rule {name}{reason}"
        case TriggerKind.SWEEP:
            return f"sweep {name}{reason}"
        case TriggerKind.BY_HAND:
            return f"played by hand, imported by {line(run.requested_by)}{reason}"
        case TriggerKind.ESCALATION:
            return f"escalation of run {name}{reason}"
        case _:
            assert_never(run.trigger.kind)


def _pools(node_run: NodeRun) -> Sequence[object]:
    pools = node_run.attributes.get("pools", ())
    return pools if isinstance(pools, list | tuple) else ()


def _end(node_run: NodeRun) -> str:
    return (node_run.verdict or node_run.state).value.replace("_", " ")


def _would_change(node_run: NodeRun) -> tuple[str, ...]:
    return tuple(one.step for one in node_run.results if one.outcome is StepOutcome.WOULD_CHANGE)


def _script(step: Step | None) -> list[str]:
    if step is None or step.run is None:
        return []
    code = [one for one in step.run.splitlines() if not one.lstrip().startswith("#")]
    return list(lines("\n".join(code)))


def open_gates(reader: Reader, notice: Notice) -> tuple[frozenset[str], str]:
    """Return which gates of a notice can be answered, and what became of one that cannot."""
    found, closed = set(), ""
    for gate_id in notice.gates:
        try:
            gate = reader.gate(gate_id)
        except NotFound:
            continue
        if gate.state is GateState.OPEN:
            found.add(gate_id)
        else:
            by = f" by {line(gate.decided_by)}" if gate.decided_by else ""
            closed = f"The gate is {gate.state.value} already{by}."
    return frozenset(found), closed
