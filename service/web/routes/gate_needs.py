"""What the routes that answer gates declare: who lacks the role is refused as the gate refuses, by its kind."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from service.app.decide import check_may_answer
from service.app.ports import Reader
from service.app.service import Service
from service.domain.errors import NotFound
from service.domain.person import Permission, Person
from service.domain.run import Gate
from service.domain.runbook import ApprovalKind
from service.web.auth import Needs
from service.web.page_needs import PageNeeds, visit_in
from service.web.routes.common import service_of
from service.web.schemas.common import Id
from service.web.schemas.gate import Decisions
from service.web.sessions import Visit

_ID: Final = TypeAdapter[str](Id)


class NeedsToAnswer(Needs):
    """The permission to answer the gates of a request: nobody is sent for a role that would be refused there too."""

    def __init__(self) -> None:
        """Ask for what the weakest gate takes; `decide` asks for more where the gate does."""
        super().__init__(Permission.DECIDE)

    async def __call__(self, request: Request) -> Person:
        """Return the person; Forbidden when he lacks what these gates take."""
        person = request.scope.get("unstick.person")
        if isinstance(person, Person):
            await _refuse_by_kind(request, await _asked_for(request), person=person)
        return await super().__call__(request)


class PageNeedsToAnswer(PageNeeds):
    """The same of the person of a session, on the page of one gate."""

    def __init__(self) -> None:
        """Ask for what the weakest gate takes."""
        super().__init__(Permission.DECIDE)

    async def __call__(self, request: Request) -> Visit:
        """Return the visit; Forbidden when its person lacks what this gate takes."""
        visit = visit_in(request)
        if visit is not None:
            await _refuse_by_kind(request, await _asked_for(request), person=visit.person)
        return await super().__call__(request)


Answers = Annotated[Person, Depends(NeedsToAnswer())]
VisitAnswers = Annotated[Visit, Depends(PageNeedsToAnswer())]


async def _asked_for(request: Request) -> Sequence[str]:
    """Return the gates that a request names, in its path or in its body; none where it is not well formed."""
    try:
        if "gate_id" in request.path_params:
            return [_ID.validate_python(request.path_params["gate_id"])]
        return [one.id for one in Decisions.model_validate_json(await request.body()).decisions]
    except ValidationError:
        return []


async def _refuse_by_kind(request: Request, gate_ids: Sequence[str], *, person: Person) -> None:
    """Raise Forbidden as the gate does, of several the strictest; nothing where there is none of these names."""
    # Who may not read learns nothing of the gates, not even their kind.
    if person.may(Permission.READ) and not person.may(Permission.DECIDE):
        await run_in_threadpool(_refuse, await service_of(request), gate_ids, person=person)


def _refuse(service: Service, gate_ids: Sequence[str], *, person: Person) -> None:
    def look(reader: Reader) -> None:
        for gate in sorted(_known(reader, gate_ids), key=lambda one: one.kind is ApprovalKind.CONFIRM):
            pools = reader.planned_pools([gate.node_run_id])[gate.node_run_id]
            check_may_answer(service, gate, run=reader.run(gate.run_id), pools=pools, person=person)

    service.store.read(look)


def _known(reader: Reader, gate_ids: Sequence[str]) -> Iterator[Gate]:
    for gate_id in gate_ids:
        try:
            yield reader.gate(gate_id)
        except NotFound:
            continue
