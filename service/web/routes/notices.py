"""Notices: what people were told, who was told, and whether it has reached them."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.app.notice_ports import TellingFilter
from service.app.notify_tell import base_url
from service.web.auth import Reads
from service.web.errors import declared
from service.web.routes.common import API, Serving, operation_id
from service.web.schemas.common import Listed
from service.web.schemas.notice import NoticeListed, NoticesQuery

router = APIRouter(
    generate_unique_id_function=operation_id, prefix=API, tags=["notices"], responses=declared(401, 403, 422, 503)
)


@router.get("/notices", summary="List notices, newest first")
def list_notices(service: Serving, _person: Reads, query: Annotated[NoticesQuery, Query()]) -> Listed[NoticeListed]:
    """Show what people were told: one row for each notice and receiver, with how far it has come."""
    which = TellingFilter(query.state, query.receiver, query.kind)
    page = service.store.read(lambda reader: reader.tellings(which, cursor=query.cursor, limit=query.limit))
    begins = base_url(service)
    return Listed(items=[NoticeListed.of(one, base_url=begins) for one in page.items], next_cursor=page.next_cursor)
