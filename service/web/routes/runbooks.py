"""Runbooks as they are offered."""

from fastapi import APIRouter

from service.web.auth import Reads
from service.web.errors import declared
from service.web.routes.common import API, RunbookPath, Serving, operation_id
from service.web.schemas.runbook import RunbookDetail, RunbookList, RunbookOffered, RunbookRefused

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/runbooks",
    tags=["runbooks"],
    responses=declared(401, 403, 503),
)


@router.get("", summary="List runbooks")
def list_runbooks(service: Serving, _person: Reads) -> RunbookList:
    """Show every runbook that is offered, and every file that is refused."""
    return RunbookList(
        items=[RunbookOffered.of(runbook) for runbook in service.runbooks.all()],
        refused=[RunbookRefused(file=file, reason=reason) for file, reason in service.runbooks.invalid()],
    )


@router.get("/{name}", summary="Show a runbook", responses=declared(404, 422))
def show_runbook(service: Serving, _person: Reads, name: RunbookPath) -> RunbookDetail:
    """Show a runbook with its parameters, steps, limits and text."""
    return RunbookDetail.full(*service.runbooks.get(name))
