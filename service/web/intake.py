"""Deliveries on their way in: senders are known together, and what they sent is recorded together, with one commit."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from service.app.know_sender import Sender, Shown, know_by_tokens
from service.app.service import Service
from service.app.take_delivery import Sent, Taken, take_deliveries
from service.web.together import Together

#: Deliveries in one transaction: enough to share its cost, few enough that nobody else waits long for the writer.
MOST_AT_ONCE: Final = 64
#: Their bodies together: some five hundred alerts. A larger one goes by itself: to read it may take seconds.
MOST_BYTES_AT_ONCE: Final = 512 * 1024


class Intake:
    """Takes deliveries for one application. Asked on the event loop alone; `taking.Share` bounds what waits here."""

    def __init__(self, service: Service) -> None:
        """Take them for this service."""
        self._first = service.taking_first
        self._known: Together[Shown, Sender | None] = Together(
            partial(know_by_tokens, service), most=MOST_AT_ONCE, most_bytes=MOST_BYTES_AT_ONCE
        )
        take = partial(take_deliveries, service)
        self._taken: Together[Sent, Taken] = Together(take, most=MOST_AT_ONCE, most_bytes=MOST_BYTES_AT_ONCE)
        self._large: Together[Sent, Taken] = Together(take, most=1, most_bytes=0)

    async def know(self, source: str, headers: Mapping[str, str]) -> Sender | None:
        """Return the sender when he shows the token of this source, None when he does not; Unavailable."""
        return await self._known.ask(Shown(source, headers))

    async def take(self, sent: Sent) -> Taken:
        """Return what became of a delivery, once it is on the record; Unavailable, and then nothing of it is."""
        size = len(sent.body)
        taken = self._taken if size <= MOST_BYTES_AT_ONCE else self._large
        with self._first.taking():
            return await taken.ask(sent, size=size)
