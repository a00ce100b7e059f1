"""One reader of the audit per process, that feeds every open event stream."""

import asyncio
import threading
from datetime import timedelta
from types import TracebackType
from typing import Self

from service.app.ports import AuditFilter, Reader, Store
from service.domain.audit import AuditEvent
from service.domain.errors import Unavailable, UnstickError

#: How often the audit is looked at while somebody listens.
POLL = timedelta(milliseconds=250)
#: So many streams at once; more are refused, so that they cannot take every connection.
MOST_STREAMS = 500
_BATCH = 1000
#: So many events wait for a slow listener before it has to read them again by itself.
_WAITING = 256


class Subscription:
    """What one stream is fed with. Events may come twice, and none is missed unless `next` says so."""

    def __init__(self, feed: "EventFeed", run_id: str) -> None:
        """Listen to a run, in the event loop that is running."""
        self.run_id = run_id
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[AuditEvent | None] = asyncio.Queue(_WAITING)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self._feed.leave(self)

    def offer(self, events: list[AuditEvent]) -> None:
        """Hand events over; called by the reader's thread. RuntimeError when the loop is closed."""
        self._loop.call_soon_threadsafe(self._put, events)

    def _put(self, events: list[AuditEvent]) -> None:
        for event in events:
            if self._events.full():
                # A slow listener: it is told to read by itself, and what waits is not kept twice.
                while not self._events.empty():
                    self._events.get_nowait()
                self._events.put_nowait(None)
                return
            self._events.put_nowait(event)

    async def next(self, within: timedelta) -> AuditEvent | None:
        """Return the next event; None: read the audit by yourself, time is up or some were dropped."""
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._events.get()
        except TimeoutError:
            return None


class EventFeed:
    """Reads while there are listeners, and not otherwise. Safe for many threads."""

    def __init__(self, store: Store, *, poll: timedelta = POLL, most_streams: int = MOST_STREAMS) -> None:
        """Read this store."""
        self._store = store
        self._poll = poll
        self._most_streams = most_streams
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def join(self, subscription: Subscription) -> None:
        """Feed a subscription with every event that is appended from now on; Unavailable when nothing can be read."""
        with self._lock:
            if self._thread is None:
                # The place is read before the listener is let in: what comes after it is not missed.
                seq = self._store.read(_last_seq)
                self._stop.clear()
                self._thread = threading.Thread(target=self._read, args=(seq,), name="event-feed", daemon=True)
                self._thread.start()
            self._subscriptions.add(subscription)

    def check_room(self) -> None:
        """Raise Unavailable when there are too many streams."""
        with self._lock:
            if len(self._subscriptions) >= self._most_streams:
                raise Unavailable(f"{self._most_streams} streams are open already.", "Ask for the run instead.")

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscription; without any the reader ends."""
        with self._lock:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End the reader, whoever listens."""
        self._stop.set()
        with self._lock:
            self._subscriptions.clear()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _read(self, seq: int) -> None:
        try:
            while not self._stop.wait(self._poll.total_seconds()) and self._somebody_listens():
                seq = self._pass_on(seq)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _somebody_listens(self) -> bool:
        with self._lock:
            if not self._subscriptions:
                # In the same moment, so that whoever joins next starts a reader.
                self._thread = None
            return bool(self._subscriptions)

    def _pass_on(self, seq: int) -> int:
        """Hand out what was appended after a seq, and return the seq of the last."""
        try:
            events = self._events_after(seq)
        except UnstickError:
            # The store is away for a moment; the listeners get what they miss when it is back.
            return seq
        self._hand_out(events)
        return events[-1].seq if events else seq

    def _events_after(self, seq: int) -> tuple[AuditEvent, ...]:
        return self._store.read(lambda reader: reader.audit_after(seq, run_id=None, limit=_BATCH))

    def _hand_out(self, events: tuple[AuditEvent, ...]) -> None:
        of_runs: dict[str, list[AuditEvent]] = {}
        for event in events:
            of_runs.setdefault(event.fact.run_id, []).append(event)
        with self._lock:
            listening = list(self._subscriptions)
        for subscription in listening:
            mine = of_runs.get(subscription.run_id)
            if mine:
                try:
                    subscription.offer(mine)
                except RuntimeError:
                    # Its loop is closed, so nobody reads it any more.
                    self.leave(subscription)


def _last_seq(reader: Reader) -> int:
    newest = reader.audit(AuditFilter(), cursor=None, limit=1).items
    return newest[0].seq if newest else 0
