"""What a journal amounts to: the history that the service would have recorded, judged by the same loop.

Each order and each gate of the journal must be what `next_action` asks for at that place; nothing else is taken for a
run of this plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from service.domain.action import Action, CloseGate, Dispatch, Ended, OpenGate, WaitForDecision, WaitUntil
from service.domain.by_hand import Event, Journal, Line
from service.domain.next_action import judge
from service.domain.person_name import is_among
from service.domain.plan import Plan, gate_digest
from service.domain.redaction import mask, redact
from service.domain.run import (
    Attempt,
    AttemptState,
    Gate,
    GateState,
    History,
    NodeRun,
    NodeRunState,
    Run,
    Verdict,
)
from service.domain.runbook import ApprovalKind
from service.domain.script import NotStarted, ScriptKind, Stream, sha256
from service.domain.shown_text import shown

#: What check may name, in bytes; more is not read (the envelope's own bound).
MOST_TARGETS = 65536
#: How a decision is marked that was typed on the node.
TYPED = "typed by hand"
_STATES = {
    "finished": AttemptState.FINISHED,
    "unkillable": AttemptState.UNKILLABLE,
    "not_started": AttemptState.NOT_STARTED,
    "rebooted": AttemptState.REBOOTED,
    "unknown": AttemptState.UNKNOWN,
}


@dataclass(frozen=True)
class Told:
    """One line, and the attempt or gate as it stands behind it."""

    line: Line
    attempt: Attempt | None = None
    gate: Gate | None = None


@dataclass(frozen=True)
class Played:
    """What the journal amounts to."""

    history: History
    told: tuple[Told, ...]
    #: What is kept of each stream, by attempt.
    outputs: Mapping[str, Mapping[Stream, bytes]]


@dataclass
class _Play:
    plan: Plan
    run: Run
    history: History
    #: Who has begun it or gone on with it, up to the line that is looked at.
    persons: list[str] = field(default_factory=list)
    outputs: dict[str, Mapping[Stream, bytes]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)


def play_journal(journal: Journal, plan: Plan, run: Run, *, node_run: NodeRun) -> Played:
    """Return the history of a journal; InvalidInput with the first line that this plan does not play there."""
    play = _Play(plan, run, History(node_run))
    for line in journal.lines:
        match line.event:
            case Event.BEGUN | Event.RESUMED:
                play.persons.append(line.word("by"))
                play.told.append(Told(line))
            case Event.INTENDED:
                _intended(play, line)
            case Event.RESULT:
                _result(play, line)
            case Event.GATE:
                _gate(play, line)
            case Event.ANSWER:
                _answer(play, line)
            case Event.CANCELLED:
                _cancelled(play, line)
            case Event.ENDED:
                _ended(play, line)
            case _:
                assert_never(line.event)
    return Played(play.history, tuple(play.told), play.outputs)


def _next(play: _Play, line: Line) -> Action:
    """Return what is asked for at a line; a wait is over there, whatever the two clocks have rounded."""
    now = line.at
    for _ in range(3):
        action = judge(play.plan.runbook, play.run, history=play.history, now=now).action
        if not isinstance(action, WaitUntil):
            return action
        now = action.at
    return action


def _intended(play: _Play, line: Line) -> None:
    action = _next(play, line)
    kind = _kind(line)
    targets = _targets(line.data("targets"))
    wanted = (line.word("step"), kind, line.number("round"), targets, line.word("acting") == "acting")
    if not isinstance(action, Dispatch):
        raise line.wrong("the runbook sends nothing there")
    if wanted != (action.step, action.kind, action.round, action.targets, action.acting):
        raise line.wrong("the runbook sends something else there")
    if (line.word("bound") or None) != action.boot_id:
        raise line.wrong("it is not bound to the boot that was looked at")
    planned = play.plan.script(play.plan.nodes[0], action.step, action.kind)
    if line.word("script_sha256") != planned.sha256:
        raise line.wrong("the script is not the one of the plan")
    number = len(play.history.attempts) + 1
    if line.word("attempt") != f"{play.run.id}-{number}":
        raise line.wrong("its attempt has another number")
    attempt = Attempt(
        id=line.word("attempt"),
        node_run_id=play.history.node_run.id,
        step=action.step,
        kind=action.kind,
        number=number,
        round=action.round,
        state=AttemptState.INTENDED,
        intended_at=line.at,
        script_sha256=planned.sha256,
        acting=action.acting,
        not_after=action.not_after,
        boot_id=action.boot_id,
        targets=action.targets,
    )
    play.history = replace(play.history, attempts=(*play.history.attempts, attempt))
    play.told.append(Told(line, attempt=attempt))


def _result(play: _Play, line: Line) -> None:
    last = play.history.attempts[-1] if play.history.attempts else None
    if last is None or not last.state.open or line.word("attempt") != last.id:
        raise line.wrong("no script waits for this answer")
    state = _STATES.get(line.word("state"))
    if state is None:
        raise line.wrong("there is no such state")
    streams = {stream: mask(line.unpacked(stream)) for stream in Stream}
    ended = replace(
        last,
        state=state,
        not_started=_refusal(line) if state is AttemptState.NOT_STARTED else None,
        reason=_reason(line),
        exit_code=line.number("exit_code"),
        signal=line.number("signal"),
        ended_by_us=state is AttemptState.FINISHED and line.word("ended_by") != "",
        pid=line.number("pid"),
        wchan=line.word("wchan") or None,
        boot_id=line.boot,
        targets=_targets(line.data("targets")) if last.kind is ScriptKind.CHECK else last.targets,
        asked_at=line.at,
        answered_at=None if state is AttemptState.UNKNOWN else line.at,
        started_at=line.moment("started"),
        finished_at=line.moment("finished") or line.at,
        stdout_bytes=line.number("stdout_bytes") or 0,
        stderr_bytes=line.number("stderr_bytes") or 0,
        output_sha256=sha256(b"".join(streams.values())),
        truncated=line.word("truncated") == "true",
    )
    node_run = replace(play.history.node_run, first_boot_id=play.history.node_run.first_boot_id or line.boot)
    play.history = replace(play.history, node_run=node_run, attempts=(*play.history.attempts[:-1], ended))
    play.outputs[ended.id] = streams
    play.told.append(Told(line, attempt=ended))


def _gate(play: _Play, line: Line) -> None:
    action = _next(play, line)
    if not isinstance(action, OpenGate):
        raise line.wrong("the runbook opens no gate there")
    wanted = (line.word("step"), line.number("round"), line.word("kind"), line.word("check"))
    if wanted != (action.step, action.round, action.kind, action.check_attempt_id):
        raise line.wrong("the runbook opens another gate there")
    node = play.plan.nodes[0]
    digest = gate_digest(
        plan_digest=play.plan.digest, node=node, step=action.step, boot_id=action.boot_id, targets=action.targets
    )
    gate = Gate(
        id=f"{play.run.id}-gate-{len(play.history.gates) + 1}",
        run_id=play.run.id,
        node_run_id=play.history.node_run.id,
        node=node,
        step=action.step,
        round=action.round,
        kind=action.kind,
        state=GateState.OPEN,
        digest=digest,
        boot_id=action.boot_id,
        targets=action.targets,
        opened_at=line.at,
        expires_at=line.at + play.plan.runbook.limits.approval_expires,
        check_attempt_id=action.check_attempt_id,
    )
    play.history = replace(play.history, gates=(*play.history.gates, gate))
    play.told.append(Told(line, gate=gate))


def _answer(play: _Play, line: Line) -> None:
    gate = play.history.gates[-1] if play.history.gates else None
    if gate is None or (line.word("step"), line.number("round")) != (gate.step, gate.round):
        raise line.wrong("no gate waits for this answer")
    said = redact(shown(line.data("why").decode(errors="replace")))
    answer = line.word("answer")
    match answer:
        case "approved" | "denied" if gate.state is GateState.OPEN and line.at < gate.expires_at:
            answered = _decided(play, line, gate=gate, said=said)
        case "expired" if gate.state is GateState.OPEN and line.at >= gate.expires_at:
            answered = replace(gate, state=GateState.EXPIRED, reason="Nobody answered in time; nothing was run.")
        case "void" if _may_be_void(play, line, gate=gate):
            answered = replace(gate, state=GateState.VOID, reason=said)
        case _:
            raise line.wrong(f"the gate cannot be {answer or 'answered'} there")
    play.history = replace(play.history, gates=(*play.history.gates[:-1], answered))
    play.told.append(Told(line, gate=answered))


def _decided(play: _Play, line: Line, *, gate: Gate, said: str) -> Gate:
    who = line.word("who")
    if not who:
        raise line.wrong("nobody is named who decided")
    if gate.kind is ApprovalKind.SECOND_PERSON and is_among(who, play.persons):
        raise line.wrong(f"{who} began the run, and a second person must decide")
    # Never `approved`: who typed the name is proven by nobody.
    state = GateState.OVERRIDDEN if line.word("answer") == "approved" else GateState.DENIED
    reason = said or ("Typed at the node; nobody has proved who typed." if state is GateState.OVERRIDDEN else "")
    return replace(gate, state=state, decided_by=f"{who} ({TYPED})", decided_at=line.at, reason=reason)


def _may_be_void(play: _Play, line: Line, *, gate: Gate) -> bool:
    """Whether there is a cause for an approval that counts no more: a boot, a stop, the time, a run not started."""
    if gate.state is not GateState.OPEN and not gate.state.lets_run:
        return False
    if line.boot != gate.boot_id or isinstance(_next(play, line), CloseGate):
        return True
    return line.at >= gate.expires_at


def _cancelled(play: _Play, line: Line) -> None:
    by = f"{line.word('by')} ({TYPED})"
    node_run = replace(play.history.node_run, cancel_requested_by=by, cancel_reason="Stopped at the node.")
    play.history = replace(play.history, node_run=node_run)
    play.told.append(Told(line))


def _ended(play: _Play, line: Line) -> None:
    judgement = judge(play.plan.runbook, play.run, history=play.history, now=line.at)
    action = judgement.action
    match action:
        case Ended():
            state, verdict = action.state, action.verdict
        case WaitForDecision(state=NodeRunState.STUCK):
            state, verdict = NodeRunState.STUCK, Verdict.UNKNOWN
        case _:
            raise line.wrong("the runbook does not end there")
    if (line.word("state"), line.word("verdict")) != (state, verdict or ""):
        raise line.wrong(f"the runbook ends there as {state}, verdict {verdict or 'none'}")
    final = replace(
        play.history.node_run,
        state=state,
        verdict=verdict,
        reason=action.reason,
        results=judgement.results,
        ended_at=line.at if state.ended else None,
    )
    play.history = replace(play.history, node_run=final)
    play.told.append(Told(line))


def _kind(line: Line) -> ScriptKind:
    try:
        return ScriptKind(line.word("script"))
    except ValueError as error:
        raise line.wrong("there is no such script") from error


def _refusal(line: Line) -> NotStarted:
    try:
        return NotStarted(line.word("reason"))
    except ValueError as error:
        raise line.wrong("there is no such reason") from error


def _reason(line: Line) -> str:
    # The parts stand as the envelope names them.
    loose = f"Unconfined: {line.word('unconfined')}." if line.word("unconfined") else ""
    match line.word("state"):
        case "not_started":
            return f"It was not started: {line.word('reason')}. {loose}".rstrip()
        case "unknown":
            return f"The node has no exit code of it. {loose}".rstrip()
        case _:
            return loose


def _targets(data: bytes) -> tuple[str, ...]:
    """Return the whole lines of a file of targets, as the service reads and records them."""
    if len(data) > MOST_TARGETS:
        data = data[: data.rfind(b"\n", 0, MOST_TARGETS) + 1]
    return tuple(redact(one) for one in data.decode(errors="backslashreplace").split("\n") if one)
