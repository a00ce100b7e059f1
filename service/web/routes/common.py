"""What several routers share: the service, and parts of paths."""

from typing import Annotated, Final

from fastapi import Depends, Path, Request
from fastapi.routing import APIRoute

from service.app.service import Service
from service.domain.errors import BrokenRule
from service.web.schemas.common import ATTEMPT_ID, GATE_ID, RUN_ID, Id, NodeName, RunbookName

API: Final = "/api/v1"


async def service_of(request: Request) -> Service:
    """Return the service that the application was made for."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise BrokenRule("The application was made without a service.")
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
