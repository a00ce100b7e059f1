"""A run's events as they happen, over server-sent events: the one asynchronous endpoint."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from service.app.ports import Reader
from service.app.service import Service
from service.domain.audit import AuditEvent
from service.domain.errors import BrokenRule, Unauthenticated, Unavailable
from service.web.auth import Reads, identify
from service.web.errors import Responses, declared
from service.web.event_feed import EventFeed, Subscription
from service.web.routes.common import API, RunId, Serving, operation_id
from service.web.schemas.audit import AuditEventDetail

#: A line after so much silence keeps proxies from cutting the stream, and shows that the client is gone.
HEARTBEAT = timedelta(seconds=15)
_BATCH = 500
_STREAM: Responses = {
    200: {"description": "A stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
    204: {"description": "The run has ended and everything was sent: do not connect again."},
}

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix=f"{API}/runs",
    tags=["runs"],
    responses=declared(401, 403, 404, 422, 503),
)
Seq = Annotated[int | None, Query(ge=0, le=2**62, description="Begin after this seq.")]


@router.get("/{run_id}/events", summary="Follow a run", response_class=Response, responses=_STREAM)
async def follow_run(
    request: Request,
    service: Serving,
    _person: Reads,
    run_id: RunId,
    after: Seq = None,
    last_event_id: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**62)] = None,
) -> Response:
    """Send each audit event of a run as it is appended: its seq as `id`, the event as JSON in `data`.

    Whoever was cut off goes on with the header `Last-Event-ID`. The stream ends with the run.
    """
    seq = last_event_id if last_event_id is not None else after or 0
    if await run_in_threadpool(_is_over, service, run_id, seq):
        return Response(status_code=204)
    feed = request.app.state.event_feed
    if not isinstance(feed, EventFeed):
        raise BrokenRule("The application was made without an event feed.")
    feed.check_room()
    headers = {"X-Accel-Buffering": "no"}
    if request.scope.get("unstick.head"):
        return Response(media_type="text/event-stream", headers=headers)
    follower = _Follower(service, feed, run_id=run_id, seq=seq, headers=request.headers)
    return StreamingResponse(follower.stream(), media_type="text/event-stream", headers=headers)


class _Follower:
    """One stream: first what was appended already, then what comes."""

    def __init__(self, service: Service, feed: EventFeed, *, run_id: str, seq: int, headers: Headers) -> None:
        self._service = service
        self._feed = feed
        self._run_id = run_id
        self._seq = seq
        self._headers = headers
        self._over = False

    async def stream(self) -> AsyncIterator[str]:
        subscription = Subscription(self._feed, self._run_id)
        with subscription:
            try:
                await run_in_threadpool(self._feed.join, subscription)
                yield "retry: 2000\n\n"
                while not self._over and await run_in_threadpool(self._is_known):
                    async for event in self._until_silence(subscription):
                        yield _shown(event)
                    yield ": still here\n\n"
            except Unavailable:
                # The stream just ends: who listens connects again, and goes on where it was cut.
                return

    async def _until_silence(self, subscription: Subscription) -> AsyncIterator[AuditEvent]:
        """Yield what was missed, then what comes, until nothing does or something was dropped."""
        while not self._over and (missed := await run_in_threadpool(self._missed)):
            if not await run_in_threadpool(self._is_known):
                return
            for event in missed:
                self._note(event)
                yield event
        while not self._over and (coming := await subscription.next(HEARTBEAT)) is not None:
            if coming.seq > self._seq:
                # A run that is never silent is told to nobody whose token has ended.
                if not await run_in_threadpool(self._is_known):
                    return
                self._note(coming)
                yield coming

    def _note(self, event: AuditEvent) -> None:
        self._seq = event.seq
        self._over = event.fact.action == "run.ended"

    def _missed(self) -> tuple[AuditEvent, ...]:
        return self._service.store.read(lambda reader: reader.audit_after(self._seq, run_id=self._run_id, limit=_BATCH))

    def _is_known(self) -> bool:
        """Whether the token is still good: a stream must not outlive it for long."""
        try:
            identify(self._service, self._headers)
        except Unauthenticated:
            return False
        return True


def _is_over(service: Service, run_id: str, seq: int) -> bool:
    """Return whether a run has ended and nothing of it came after a seq; NotFound."""

    def look(reader: Reader) -> bool:
        reader.run(run_id)
        ended = reader.heads([run_id])[run_id].state.ended
        return ended and not reader.audit_after(seq, run_id=run_id, limit=1)

    return service.store.read(look)


def _shown(event: AuditEvent) -> str:
    return f"id: {event.seq}\ndata: {AuditEventDetail.of(event).model_dump_json()}\n\n"
