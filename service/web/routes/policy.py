"""What you may do, and what decides it."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from service.app.insist import about_node, answer_for
from service.domain.rights import About
from service.web.auth import Reads
from service.web.errors import declared
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.policy import Explained, ExplainQuery

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["policy"], responses=declared(401, 403, 404, 422, 503)
)


@router.get("/policy/explain", summary="Explain what you may do", responses=declared(409))
def explain_policy(service: Serving, person: Reads, query: Annotated[ExplainQuery, Query()]) -> Explained:
    """Say whether your token lets you do something, and what decides: your role, its reach, the rights of the policy.

    Of others `unstick policy explain` says it, on the host of the service.
    """
    about = About(query.runbook)
    if query.runbook is not None:
        service.runbooks.get(query.runbook)
    if query.node is not None:
        service.inventory.current().node(query.node)
        about = replace(about_node(service, query.node), runbook=query.runbook)
    answer = answer_for(service, person, query.what, about=about)
    return Explained.of(person.name, query.what, about=about, answer=answer)
