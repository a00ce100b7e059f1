"""What several routers share: the service, and parts of paths."""

from typing import Annotated, Final

from fastapi import Depends, Path, Request
from fastapi.routing import APIRoute

from service.app.service import Service
from service.app.still_known import while_session_holds, while_token_holds
from service.domain.errors import BrokenRule
from service.domain.script import sha256
from service.web.auth import token_in
from service.web.page_paths import DOORS
from service.web.schemas.common import ATTEMPT_ID, GATE_ID, RUN_ID, Id, NodeName, RunbookName
from service.web.sessions import Visit

API: Final = "/api/v1"


async def service_of(request: Request) -> Service:
    """Return the service that the application was made for, which changes things only while who asks is known.

    At the doors nobody is known yet, and who was may come in as somebody else.
    """
    service = request.app.state.service
    if not isinstance(service, Service):
        raise BrokenRule("The application was made without a service.")
    visit = request.scope.get("unstick.visit")
    if "unstick.person" in request.scope:
        return while_token_holds(service, sha256(token_in(request.headers)))
    if isinstance(visit, Visit) and request.scope["path"] not in DOORS:
        return while_session_holds(service, visit.session)
    return service


Serving = Annotated[Service, Depends(service_of)]
RunId = Annotated[Id, Path(description="The run.", examples=[RUN_ID])]
GateId = Annotated[Id, Path(description="The gate.", examples=[GATE_ID])]
AttemptId = Annotated[Id, Path(description="The attempt.", examples=[ATTEMPT_ID])]
NodePath = Annotated[NodeName, Path(description="The node.", examples=["gpu-01"])]
RunbookPath = Annotated[RunbookName, Path(description="The runbook.", examples=["abort-stuck-fuse"])]


def operation_id(route: APIRoute) -> str:
    """Return the name of an operation in the OpenAPI document: that of its function."""
    return route.name
