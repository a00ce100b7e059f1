"""What the scripts have said."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from service.app.ports import Reader
from service.domain.script import Stream
from service.web.auth import Reads
from service.web.errors import Responses, declared
from service.web.routes.common import API, AttemptId, Serving, operation_id
from service.web.schemas.query import OutputQuery

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/attempts",
    tags=["attempts"],
    responses=declared(401, 403, 404, 422, 503),
)
_BYTES: Responses = {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


@router.get("/{attempt_id}/output", summary="Show output", response_class=Response, responses=_BYTES)
def show_output(
    service: Serving, _person: Reads, attempt_id: AttemptId, query: Annotated[OutputQuery, Query()]
) -> Response:
    """Give the bytes as they came, also while the script runs.

    `all` is stdout and then stderr: the SHA-256 of it is the attempt's `output_sha256`. The bytes are what a node
    wrote, so they are no text of a known encoding, and a browser must not guess.
    """
    wanted = tuple(Stream) if query.stream == "all" else (query.stream,)

    def look(reader: Reader) -> bytes:
        reader.attempt(attempt_id)
        return b"".join(reader.output(attempt_id, stream) for stream in wanted)

    headers = {"Content-Disposition": f'attachment; filename="{attempt_id}-{query.stream}.txt"'}
    output = service.store.read(look)[query.offset :]
    return Response(output, media_type="application/octet-stream", headers=headers)
