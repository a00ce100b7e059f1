"""Show runs, plans and gates: read models that are put together in a bounded number of queries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from service.app.decide import check_may_answer, insist_not_retried, needs_reason
from service.app.override import check_may_override
from service.app.ports import Page, Reader, RunbookSource, RunFilter, RunHead
from service.app.resolve import find_node_run
from service.app.service import Service
from service.app.show_unconfined import of_history
from service.domain.errors import Forbidden
from service.domain.person import Person
from service.domain.plan import PlannedScript
from service.domain.run import (
    Attempt,
    Gate,
    GateState,
    History,
    NodeRun,
    NodeRunState,
    Resolution,
    Run,
    StepResult,
    run_state,
)
from service.domain.script import Stream, unconfined_of
from service.domain.shown_text import shown
from service.domain.survey import Survey

#: So many bytes of each stream of a check are shown with its gate; all that is kept is its attempt's output.
MOST_SAID = 64 * 1024


@dataclass(frozen=True)
class StepView:
    """One step of a node run, as far as it went."""

    result: StepResult
    #: What the last look found; empty before it.
    targets: tuple[str, ...]
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class NodeView:
    """A node run with its steps."""

    node_run: NodeRun
    steps: tuple[StepView, ...]
    #: What persons have said of it while it was stuck, in order.
    resolutions: tuple[Resolution, ...]


@dataclass(frozen=True)
class RunView:
    """A run with everything in it, output and scripts left out."""

    run: Run
    state: NodeRunState
    nodes: tuple[NodeView, ...]
    #: By the time at which they were opened; one that is past its end shows as expired.
    gates: tuple[Gate, ...]


@dataclass(frozen=True)
class RunRow:
    """A run as a list shows it."""

    run: Run
    head: RunHead


@dataclass(frozen=True)
class Said:
    """What a check has said, as far as it is shown with its gate; control characters are escaped."""

    stdout: str
    stderr: str
    #: Whether it had said more than this.
    truncated: bool


@dataclass(frozen=True)
class GateView:
    """A gate, with what a person needs to know before answering."""

    gate: Gate
    run: Run
    #: Why this person may not answer it; empty: he may, as long as it is open.
    may_not: str
    #: None in lists, which never carry output.
    said: Said | None = None
    #: Whether who approves must say why; not looked up in lists.
    needs_reason: bool = False
    #: Whether this person may override it, as long as it is open; not looked up in lists.
    may_override: bool = False
    #: Why its check was not kept from touching the node; empty: it was. None in lists.
    unconfined: str | None = None

    @property
    def survey(self) -> Survey | None:
        """Return what ran on the node when the gate was opened."""
        return self.gate.survey


@dataclass(frozen=True)
class PlanView:
    """What a run sends: its runbook's text, and every script for some of its nodes."""

    run: Run
    source: RunbookSource
    nodes: tuple[tuple[str, tuple[PlannedScript, ...]], ...]
    #: The position of the next node, None at the end.
    next_position: int | None
    #: In which looks at these nodes the machine did not confine the script, so far: one sentence each.
    unconfined: tuple[str, ...]


def show_run(service: Service, run_id: str) -> RunView:
    """Return a run with its nodes, steps, attempts and gates; NotFound."""
    now = service.clock.now()

    def look(reader: Reader) -> RunView:
        run = reader.run(run_id)
        histories = reader.histories(run_id)
        gates = sorted((gate for one in histories for gate in one.gates), key=lambda gate: (gate.opened_at, gate.id))
        return RunView(
            run,
            run_state(one.node_run.state for one in histories),
            tuple(_node(one) for one in histories),
            tuple(as_of(gate, now) for gate in gates),
        )

    return service.store.read(look)


def show_node_run(service: Service, run_id: str, *, node: str) -> NodeView:
    """Return the part of a run on one node; NotFound."""
    return service.store.read(lambda reader: _node(reader.history(find_node_run(reader, run_id, node=node).id)))


def list_runs(service: Service, which: RunFilter, *, cursor: str | None, limit: int) -> Page[RunRow]:
    """Return runs, newest first, without steps."""

    def look(reader: Reader) -> Page[RunRow]:
        page = reader.runs(which, cursor=cursor, limit=limit)
        heads = reader.heads([run.id for run in page.items])
        return Page(tuple(RunRow(run, heads[run.id]) for run in page.items), page.next_cursor)

    return service.store.read(look)


def show_plan(service: Service, run_id: str, *, position: int, limit: int) -> PlanView:
    """Return what a run sends, for `limit` nodes from a position on; NotFound."""

    def look(reader: Reader) -> PlanView:
        run = reader.run(run_id)
        left = [one for one in reader.node_runs(run_id) if one.position >= position]
        shown_now = [one.node for one in left[:limit]]
        nodes = tuple((node, reader.scripts(run_id, node)) for node in shown_now)
        histories = [one for one in reader.histories(run_id) if one.node_run.node in shown_now]
        loose = tuple(sentence for one in histories for sentence in of_history(one))
        more = left[limit].position if len(left) > limit else None
        return PlanView(run, reader.runbook_source(run_id), nodes, more, loose)

    return service.store.read(look)


def show_gate(service: Service, gate_id: str, *, person: Person) -> GateView:
    """Return a gate as this person sees it, with what its check has said; NotFound."""
    now = service.clock.now()

    def look(reader: Reader) -> GateView:
        gate = as_of(reader.gate(gate_id), now)
        view = _views(service, reader, [gate], person=person)[0]
        check = reader.attempt(gate.check_attempt_id)
        return replace(
            view,
            said=_said(reader, check),
            unconfined=unconfined_of(check.reason),
            needs_reason=needs_reason(reader, gate),
            may_override=_may_override(service, reader.node_run(gate.node_run_id), person=person),
        )

    return service.store.read(look)


def list_gates(
    service: Service, state: GateState | None, *, person: Person, cursor: str | None, limit: int
) -> Page[GateView]:
    """Return gates as this person sees them, newest first; those past their end are not open."""
    now = service.clock.now()

    def look(reader: Reader) -> Page[GateView]:
        page = reader.gates(state, cursor=cursor, limit=limit)
        gates = [as_of(gate, now) for gate in page.items]
        shown = [gate for gate in gates if state in (None, gate.state)]
        return Page(_views(service, reader, shown, person=person), page.next_cursor)

    return service.store.read(look)


def as_of(gate: Gate, now: datetime) -> Gate:
    """Return the gate as it stands at this moment: nobody can answer it after its end.

    The engine writes the end down a moment later, or when it is started again.
    """
    if gate.state is GateState.OPEN and now >= gate.expires_at:
        return replace(
            gate, state=GateState.EXPIRED, reason=f"It expired; nothing was run. Ask again: unstick retry {gate.run_id}"
        )
    return gate


def _views(service: Service, reader: Reader, gates: Sequence[Gate], *, person: Person) -> tuple[GateView, ...]:
    runs = {run_id: reader.run(run_id) for run_id in {gate.run_id for gate in gates}}
    pools = reader.planned_pools([gate.node_run_id for gate in gates])
    views = []
    for gate in gates:
        run, may_not = runs[gate.run_id], ""
        try:
            check_may_answer(service, gate, run=run, pools=pools[gate.node_run_id], person=person)
            # Only after a first round has a person had it begun anew.
            if gate.round > 1:
                insist_not_retried(gate, reader.history(gate.node_run_id).resolutions, person=person)
        except Forbidden as refusal:
            may_not = str(refusal)
        views.append(GateView(gate, run, may_not))
    return tuple(views)


def _may_override(service: Service, node_run: NodeRun, *, person: Person) -> bool:
    try:
        check_may_override(service, node_run, person=person)
    except Forbidden:
        return False
    return True


def _said(reader: Reader, check: Attempt) -> Said:
    stdout, stderr = (reader.output(check.id, stream) for stream in (Stream.STDOUT, Stream.STDERR))
    # What retention has dropped is less than was said, too.
    lost = len(stdout) < check.stdout_bytes or len(stderr) < check.stderr_bytes
    cut = max(len(stdout), len(stderr)) > MOST_SAID
    return Said(_beginning(stdout), _beginning(stderr), check.truncated or lost or cut)


def _beginning(said: bytes) -> str:
    return shown(said[:MOST_SAID].decode("utf-8", "replace"))


def _node(history: History) -> NodeView:
    results = {result.step: result for result in history.node_run.results}
    for attempt in history.attempts:
        results.setdefault(attempt.step, StepResult(attempt.step, None))
    steps = tuple(_step(result, history.attempts) for result in results.values())
    return NodeView(history.node_run, steps, history.resolutions)


def _step(result: StepResult, attempts: Iterable[Attempt]) -> StepView:
    mine = tuple(attempt for attempt in attempts if attempt.step == result.step)
    targets = next((attempt.targets for attempt in reversed(mine) if attempt.targets), ())
    return StepView(result, targets, mine)
