"""Imports: runs that were played by hand while the service was down."""

from fastapi import APIRouter, Response

from service.app import show_run
from service.app.import_run import import_run
from service.web.auth import Requests
from service.web.errors import declared, declared_with_body
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.imports import JournalBody
from service.web.schemas.run import RunDetail

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["runs"], responses=declared(401, 403, 422, 503)
)


@router.post("/imports", status_code=201, summary="Import a run by hand", responses=declared_with_body(404, 409))
def import_journal(service: Serving, person: Requests, body: JournalBody, response: Response) -> RunDetail:
    """Record a run from the journal of an exported script. Its gates stand as overridden: nobody proves who typed.

    A journal that was changed is refused with the line that breaks, one that is unfinished or known as a conflict.
    """
    run = import_run(service, body.journal, person=person, reason=body.reason)
    response.headers["Location"] = f"{API}/runs/{run.id}"
    return RunDetail.of(show_run.show_run(service, run.id))
