"""What the routes that answer one gate declare: who lacks the role is refused as that gate refuses, by its kind."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from pydantic import TypeAdapter, ValidationError

from service.app.decide import check_may_answer
from service.app.ports import Reader
from service.app.service import Service
from service.domain.errors import NotFound
from service.domain.person import Permission, Person
from service.web import errors
from service.web.auth import Declares, insist_on
from service.web.routes.common import Serving
from service.web.schemas.common import Id

_ID = TypeAdapter[str](Id)


class NeedsToAnswer(Declares):
    """The permission to answer the gate of the path: nobody is sent for a role that would be refused there too."""

    def __init__(self) -> None:
        """Ask for what the weakest gate takes; `decide` asks for more where the gate does."""
        self.permission = Permission.DECIDE
        self.scheme_name = "token"
        self.model = HTTPBearer(description="A token that `unstick token create` has printed.")

    def __call__(self, request: Request, service: Serving) -> Person:
        """Return the person; Forbidden when he lacks what this gate takes."""
        person = request.scope.get("unstick.person")
        if not isinstance(person, Person):
            raise errors.UNKNOWN
        # Who may not read learns nothing of the gate, not even its kind.
        if person.may(Permission.READ) and not person.may(self.permission):
            _refuse_by_kind(service, request.path_params.get("gate_id"), person=person)
        insist_on(person, self.permission)
        return person


Answers = Annotated[Person, Depends(NeedsToAnswer())]


def _refuse_by_kind(service: Service, gate_id: object, *, person: Person) -> None:
    """Raise Forbidden as the gate does; nothing where there is none of that name."""

    def look(reader: Reader) -> None:
        gate = reader.gate(_ID.validate_python(gate_id))
        pools = reader.planned_pools([gate.node_run_id])[gate.node_run_id]
        check_may_answer(service, gate, run=reader.run(gate.run_id), pools=pools, person=person)

    try:
        service.store.read(look)
    except (NotFound, ValidationError):
        return
