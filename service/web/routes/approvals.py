"""Gates, and the answers of persons."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from service.app import show_run
from service.app.decide import Decision, decide
from service.app.override import Override, override
from service.domain.errors import BrokenRule, UnstickError
from service.domain.person import Person
from service.web.auth import Overrides, Reads
from service.web.errors import declared, declared_with_body, problem_of
from service.web.routes.common import API, GateId, Serving, operation_id
from service.web.routes.gate_needs import Answers
from service.web.schemas.common import Listed
from service.web.schemas.gate import (
    AllDecided,
    Approval,
    ApprovalInFull,
    Approve,
    Decided,
    Decisions,
    Deny,
    GateDetail,
    OneDecision,
    OverrideGate,
)
from service.web.schemas.query import ApprovalsQuery

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/approvals",
    tags=["approvals"],
    responses=declared(401, 403, 422, 503),
)


@router.get("", summary="List gates, newest first")
def list_approvals(service: Serving, person: Reads, query: Annotated[ApprovalsQuery, Query()]) -> Listed[Approval]:
    """Show gates and whether you may answer them; by default those that wait for a person."""
    wanted = None if query.state == "all" else query.state
    page = show_run.list_gates(service, wanted, person=person, cursor=query.cursor, limit=query.limit)
    return Listed(items=[Approval.seen(view) for view in page.items], next_cursor=page.next_cursor)


@router.post("/decide", summary="Answer several gates", responses=declared_with_body())
def decide_many(service: Serving, person: Answers, body: Decisions) -> AllDecided:
    """Answer each gate by itself: one that is refused does not keep the others from being answered."""
    return AllDecided(items=[_decide_one(service, person, one) for one in body.decisions])


@router.get("/{gate_id}", summary="Show a gate", responses=declared(404))
def show_approval(service: Serving, person: Reads, gate_id: GateId) -> ApprovalInFull:
    """Show a gate with what its check has said and found, and whether you may answer it."""
    return ApprovalInFull.seen(show_run.show_gate(service, gate_id, person=person))


@router.post("/{gate_id}/approve", summary="Approve", responses=declared_with_body(404, 409))
def approve_gate(service: Serving, person: Answers, gate_id: GateId, body: Approve) -> GateDetail:
    """Agree to exactly what was shown; the digest proves that it is what would run."""
    answered = decide(service, Decision(gate_id, body.digest, approve=True, reason=body.reason), person=person)
    return GateDetail.of(answered)


@router.post("/{gate_id}/deny", summary="Deny", responses=declared_with_body(404, 409))
def deny_gate(service: Serving, person: Answers, gate_id: GateId, body: Deny) -> GateDetail:
    """Refuse what a gate asks for; the run ends on that node, and its undoing steps play."""
    answered = decide(service, Decision(gate_id, body.digest, approve=False, reason=body.reason), person=person)
    return GateDetail.of(answered)


@router.post("/{gate_id}/override", summary="Break glass", responses=declared_with_body(404, 409))
def override_gate(service: Serving, person: Overrides, gate_id: GateId, body: OverrideGate) -> GateDetail:
    """Let a gate through without its approval, where the policy allows it; every receiver of notices is told."""
    return GateDetail.of(override(service, Override(gate_id, body.digest, body.reason), person=person))


def _decide_one(service: Serving, person: Person, one: OneDecision) -> Decided:
    decision = Decision(one.id, one.digest, approve=one.answer == "approve", reason=one.reason)
    try:
        gate = decide(service, decision, person=person)
    except BrokenRule:
        raise
    except UnstickError as refusal:
        return Decided(id=one.id, status=refusal.status, problem=problem_of(refusal))
    return Decided(id=one.id, status=HTTPStatus.OK, gate=GateDetail.of(gate))
