"""Ids as people type them: the whole of it, or a beginning that only one thing has."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from service.cli.asking import path
from service.client import Client
from service.domain.errors import InvalidInput, NotFound

#: A shorter beginning is a slip.
_SHORTEST: Final = 4
#: So much of a list is looked through; a page has 200.
_MOST_PAGES: Final = 25
#: More of those that begin alike are not named.
_MOST_NAMES: Final = 5
_WHOLE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Of ids that begin with their time: one that is older begins with less.
_BY_AGE: Final = re.compile(r"[0-9a-f-]+")


class Kind(StrEnum):
    """What has an id, as the API calls the list of it."""

    RUN = "runs"
    #: Of a beginning, an open one.
    GATE = "approvals"
    ALERT = "alerts"

    @property
    def word(self) -> str:
        """Return one of them as people say it."""
        return {Kind.RUN: "run", Kind.GATE: "gate", Kind.ALERT: "alert"}[self]


def whole_id(service: Client, kind: Kind, typed: str) -> str:
    """Return the id that is meant.

    Raises InvalidInput, with those that there are, where several begin so; NotFound.
    """
    if _WHOLE.fullmatch(typed):
        return typed
    try:
        service.get(path(kind, typed))
    except NotFound as nothing:
        return begun(service, typed, kind, nothing=nothing)[1]
    return typed


def begun(service: Client, typed: str, *kinds: Kind, nothing: NotFound) -> tuple[Kind, str]:
    """Return the one thing of these kinds whose id begins so; `nothing` is raised where there is none.

    Raises InvalidInput where there are several, or where more would have to be looked through than is.
    """
    if len(typed) < _SHORTEST or _WHOLE.fullmatch(typed):
        raise nothing
    found = [(kind, one) for kind in kinds for one in _beginning_so(service, kind, typed)]
    if not found:
        raise nothing
    if len(found) > 1:
        names = ", ".join(f"{kind.word} {one}" for kind, one in found[:_MOST_NAMES])
        more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
        raise InvalidInput(f"Several ids begin with {typed}: {names}{more}.", "Type more of the one that is meant.")
    return found[0]


def _beginning_so(service: Client, kind: Kind, typed: str) -> Iterator[str]:
    """Yield the ids that begin so, the newest first."""
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = service.get(f"/{kind}", limit=200, cursor=cursor)
        ids = [one["id"] for one in page["items"]]
        yield from (one for one in ids if one.startswith(typed))
        cursor = page["next_cursor"]
        # A run that was played by hand has the id of its export, and its place by its import.
        older = _BY_AGE.fullmatch(typed) and ids and max(ids)[: len(typed)] < typed
        if cursor is None or older:
            return
    raise InvalidInput(f"{typed} is no whole id, and there are too many to look through.", "Give the whole id.")
