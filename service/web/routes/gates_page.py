"""The pages of gates: what waits for a person, and one gate with all that an answer rests on."""

from datetime import datetime
from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from service.app.decide import Decision, decide
from service.app.pause_alerts import standing
from service.app.service import Service
from service.app.show_gate import GateInFull, show_gate_in_full
from service.app.show_run import GateView, list_gates, show_gate
from service.domain.errors import Conflict, InvalidInput, UnstickError
from service.domain.person import Permission, Person
from service.domain.run import Gate, GateState, NodeRunState
from service.domain.runbook import ApprovalKind
from service.web import rendering
from service.web.page_needs import Form, VisitReads, read_form
from service.web.page_paths import GATES
from service.web.routes.common import GateId, Serving, operation_id
from service.web.routes.gate_needs import VisitAnswers
from service.web.schemas.page_forms import AnswerForm
from service.web.sessions import Visit

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False, prefix=GATES)
#: More open gates than this are a storm, and no list to answer from.
_MOST: int = 200
_MOST_PAGES = 5
#: In these states nothing goes on by itself.
_AT_REST = frozenset({NodeRunState.STUCK, *(state for state in NodeRunState if state.ended)})


@router.get("")
def show_gates(service: Serving, visit: VisitReads) -> Response:
    """List the open gates, the oldest first, and say what keeps alerts from starting anything."""
    views, more = _open_gates(service, visit.person)
    return rendering.page(
        "gates",
        visit=visit,
        views=views,
        more=more,
        standing=standing(service),
        may_pause=visit.person.may(Permission.PAUSE),
        now=service.clock.now(),
    )


@router.get("/{gate_id}")
def show_gate_page(service: Serving, visit: VisitReads, gate_id: GateId) -> Response:
    """Show a gate with its plan, its check, its targets, and the forms of whoever may answer it."""
    return _page(service, visit, gate_id)


@router.post("/{gate_id}/answer")
def answer_gate(service: Serving, visit: VisitAnswers, gate_id: GateId, form: Form) -> Response:
    """Write down an answer, and lead back to the gate, which tells what came of it."""
    given = read_form(AnswerForm, form)
    decision = Decision(gate_id, given.digest, approve=given.answer == "approve", reason=given.reason.strip())
    try:
        _insist_on_a_look(show_gate(service, gate_id, person=visit.person).gate, given)
        decide(service, decision, person=visit.person)
    except (Conflict, InvalidInput) as refusal:
        if _said_before(service, decision, visit.person):
            return RedirectResponse(f"{GATES}/{gate_id}", HTTPStatus.SEE_OTHER)
        return _page(service, visit, gate_id, refusal=refusal, reason=given.reason)
    return RedirectResponse(f"{GATES}/{gate_id}", HTTPStatus.SEE_OTHER)


def _insist_on_a_look(gate: Gate, given: AnswerForm) -> None:
    """Raise InvalidInput for a slip of the thumb: what may disrupt work is approved with two taps."""
    open_still = gate.state is GateState.OPEN
    if open_still and needs_tick(gate) and given.answer == "approve" and not given.seen:
        raise InvalidInput("Nothing was decided.", "Tick that you have read what would be acted on, then approve.")


def needs_tick(gate: Gate) -> bool:
    """Whether whoever approves says beforehand that he has looked."""
    return gate.kind is ApprovalKind.SECOND_PERSON


def _said_before(service: Service, decision: Decision, person: Person) -> bool:
    """Whether this person gave this very answer already: a second tap, or a page that was sent again."""
    gate = show_gate(service, decision.gate_id, person=person).gate
    wanted = GateState.APPROVED if decision.approve else GateState.DENIED
    return (gate.state, gate.decided_by, gate.digest) == (wanted, person.name, decision.digest)


def _page(
    service: Service, visit: Visit, gate_id: str, *, refusal: UnstickError | None = None, reason: str = ""
) -> Response:
    full = show_gate_in_full(service, gate_id, person=visit.person)
    gate, now = full.view.gate, service.clock.now()
    return rendering.page(
        "gate",
        visit=visit,
        status=refusal.status if refusal else HTTPStatus.OK,
        full=full,
        gate=gate,
        run=full.view.run,
        said=full.view.said,
        survey=gate.survey,
        open_now=gate.state is GateState.OPEN,
        needs_tick=needs_tick(gate),
        ended=full.node_run.state.ended,
        looks_again=_goes_on(full),
        outcome=_outcome(full, now),
        refusal=str(refusal) if refusal else "",
        reason=reason,
        now=now,
    )


def _goes_on(full: GateInFull) -> bool:
    """Whether the page of an answered gate looks again by itself, until there is something to tell."""
    answered = full.view.gate.state is not GateState.OPEN
    return answered and full.other_gate is None and full.node_run.state not in _AT_REST


def _outcome(full: GateInFull, now: datetime) -> str:
    """Return how the node stands, in one sentence."""
    node_run = full.node_run
    if node_run.state is NodeRunState.WAITING and node_run.wake_at is not None and node_run.wake_at <= now:
        # Its reason was written before the answer was.
        if full.view.gate.state.lets_run:
            return f"{node_run.node} goes on in a moment."
        return f"{node_run.node}: the step is not run, and this page says in a moment how it ends."
    verdict = f", verdict {node_run.verdict}" if node_run.verdict else ""
    why = f". {node_run.reason}" if node_run.reason else ""
    return f"{node_run.node}: {node_run.state}{verdict}{why}"


def _open_gates(service: Service, person: Person) -> tuple[list[GateView], bool]:
    """Return the open gates, the oldest first, and whether there are more than are shown."""
    views: list[GateView] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        found = list_gates(service, GateState.OPEN, person=person, cursor=cursor, limit=_MOST)
        views.extend(found.items)
        cursor = found.next_cursor
        if cursor is None:
            break
    return views[::-1], cursor is not None
