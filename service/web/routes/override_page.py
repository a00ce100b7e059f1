"""The page on which glass is broken: apart from every answer, and asked once more before anything is decided."""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from service.app.override import Override, override
from service.app.service import Service
from service.app.show_gate import show_gate_in_full
from service.domain.errors import Conflict, InvalidInput, UnstickError
from service.domain.run import GateState
from service.web import rendering
from service.web.page_needs import Form, VisitOverrides, read_form
from service.web.page_paths import GATES
from service.web.routes.common import GateId, Serving, operation_id
from service.web.schemas.page_forms import OverrideForm
from service.web.sessions import Visit

router = APIRouter(generate_unique_id_function=operation_id, include_in_schema=False, prefix=GATES)


@router.post("/{gate_id}/override")
def override_on_page(service: Serving, visit: VisitOverrides, gate_id: GateId, form: Form) -> Response:
    """Ask once more, and override only what comes back with the name of its node."""
    given = read_form(OverrideForm, form)
    if not given.node:
        return _ask(service, visit, gate_id, given=given)
    try:
        _insist_on_node(service, visit, gate_id, node=given.node)
        override(service, Override(gate_id, given.digest, given.reason.strip()), person=visit.person)
    except (Conflict, InvalidInput) as refusal:
        return _ask(service, visit, gate_id, given=given, refusal=refusal)
    return RedirectResponse(f"{GATES}/{gate_id}", HTTPStatus.SEE_OTHER)


def _insist_on_node(service: Service, visit: Visit, gate_id: str, *, node: str) -> None:
    wanted = show_gate_in_full(service, gate_id, person=visit.person).view.gate.node
    if node != wanted:
        raise InvalidInput("Nothing was decided.", f"Type the name of the node as it stands here: {wanted}")


def _ask(
    service: Service, visit: Visit, gate_id: str, *, given: OverrideForm, refusal: UnstickError | None = None
) -> Response:
    full = show_gate_in_full(service, gate_id, person=visit.person)
    gate = full.view.gate
    if gate.state is not GateState.OPEN:
        return RedirectResponse(f"{GATES}/{gate_id}", HTTPStatus.SEE_OTHER)
    return rendering.page(
        "override",
        visit=visit,
        status=refusal.status if refusal else HTTPStatus.OK,
        full=full,
        gate=gate,
        run=full.view.run,
        # What was seen, and not what is there now: another look is another digest.
        digest=given.digest,
        reason=given.reason,
        refusal=str(refusal) if refusal else "",
    )
