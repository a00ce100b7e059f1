"""The audit, and timelines for postmortems."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from service.app import timeline
from service.app.node_timeline import node_entries
from service.app.ports import AuditFilter
from service.app.service import Service
from service.app.timeline import Entry
from service.domain.errors import InvalidInput
from service.web.auth import Reads
from service.web.errors import Responses, declared
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.audit import AuditEventDetail, TimelineEntry, TimelineFormat
from service.web.schemas.common import Listed
from service.web.schemas.query import AuditQuery, TimelineQuery

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/audit",
    tags=["audit"],
    responses=declared(401, 403, 422, 503),
)
_FORMATS: Responses = {
    200: {
        "model": Listed[TimelineEntry],
        "content": {"text/markdown": {"schema": {"type": "string"}}, "text/csv": {"schema": {"type": "string"}}},
    }
}


@router.get("", summary="List audit events, newest first")
def list_audit(service: Serving, _person: Reads, query: Annotated[AuditQuery, Query()]) -> Listed[AuditEventDetail]:
    """Show the appended facts, each with its hash and that of the one before."""
    which = AuditFilter(query.run_id, query.node, query.person, query.action, query.since, query.until)
    page = service.store.read(lambda reader: reader.audit(which, cursor=query.cursor, limit=query.limit))
    return Listed(items=[AuditEventDetail.of(event) for event in page.items], next_cursor=page.next_cursor)


@router.get(
    "/timeline",
    summary="Tell what happened, in order",
    response_model=Listed[TimelineEntry],
    responses={**_FORMATS, **declared(404)},
)
def show_timeline(
    service: Serving, _person: Reads, query: Annotated[TimelineQuery, Query()]
) -> Response | Listed[TimelineEntry]:
    """Show the timeline of a run or of a node, for a postmortem. `md` and `csv` are whole; JSON of a run is paged."""
    if query.written is TimelineFormat.JSON and query.run_id is not None and query.node is None:
        entries, more = timeline.run_page(service, query.run_id, after=_seq(query.cursor), limit=query.limit)
        return _listed(entries, None if more is None else str(more))
    title, found = _found(service, query)
    match query.written:
        case TimelineFormat.JSON:
            return _listed(found, None)
        case TimelineFormat.MARKDOWN:
            return _file(timeline.as_markdown(found, title=title), kind="text/markdown", title=title)
        case TimelineFormat.CSV:
            return _file(timeline.as_csv(found), kind="text/csv", title=title)


def _found(service: Service, query: TimelineQuery) -> tuple[str, Iterable[Entry]]:
    match query.run_id, query.node:
        case str(run_id), None:
            return f"Run {run_id}", timeline.run_entries(service, run_id)
        case None, str(node):
            return f"Node {node}", node_entries(service, node, since=query.since, until=query.until)
        case _:
            raise InvalidInput("A timeline is of a run or of a node.", "Give run_id or node, and not both.")


def _listed(entries: Iterable[Entry], cursor: str | None) -> Listed[TimelineEntry]:
    return Listed(items=[TimelineEntry.model_validate(one) for one in entries], next_cursor=cursor)


def _file(parts: Iterable[str], *, kind: str, title: str) -> Response:
    name = title.lower().replace(" ", "-") + (".csv" if kind == "text/csv" else ".md")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=f"{kind}; charset=utf-8", headers=headers)


def _seq(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput("The cursor is not one that this list gave.", "Begin again without a cursor.")
    return int(cursor)
