"""What the routes of pages declare: the permission that the person of the session must have, and the form."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.models import APIKey, APIKeyIn
from pydantic import BaseModel, ValidationError

from service.domain.errors import BrokenRule
from service.domain.person import Permission
from service.web import errors
from service.web.auth import Declares, insist_on
from service.web.sessions import COOKIE, Visit

Read = TypeVar("Read", bound=BaseModel)


class PageNeeds(Declares):
    """The permission that the person of a session must have. A token has no session, so it opens no page."""

    def __init__(self, permission: Permission) -> None:
        """Ask for this permission."""
        self.permission = permission
        self.scheme_name = "session"
        self.model = APIKey.model_validate({"in": APIKeyIn.cookie, "name": COOKIE})

    async def __call__(self, request: Request) -> Visit:
        """Return the visit; Forbidden when the person lacks the permission."""
        visit = visit_in(request)
        if visit is None:
            raise errors.UNKNOWN
        insist_on(visit.person, self.permission)
        return visit


VisitReads = Annotated[Visit, Depends(PageNeeds(Permission.READ))]
VisitOverrides = Annotated[Visit, Depends(PageNeeds(Permission.OVERRIDE))]
VisitPauses = Annotated[Visit, Depends(PageNeeds(Permission.PAUSE))]


def visit_in(request: Request) -> Visit | None:
    """Return the visit that the guard has found, None before signing in."""
    visit = request.scope.get("unstick.visit")
    return visit if isinstance(visit, Visit) else None


async def form_in(request: Request) -> Mapping[str, str]:
    """Return the form that the guard has read and found to be ours; BrokenRule when it has not."""
    form = request.scope.get("unstick.form")
    if not isinstance(form, dict):
        raise BrokenRule("A form was asked for that the guard has not seen.")
    return form


Form = Annotated[Mapping[str, str], Depends(form_in)]


def read_form(kind: type[Read], form: Mapping[str, str]) -> Read:
    """Return a form as the values that it stands for; RequestValidationError names what is wrong."""
    try:
        return kind.model_validate(form)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from error
