"""What notices need of the record and of the world; the store's ports take the first in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from service.app.paging import Page
from service.domain.errors import ConfigInvalid, NotTold
from service.domain.notice import Notice, NoticeKind, NotifyConfig, Receiver, Telling, TellingState, Told
from service.domain.notice_words import Message


class NotifySource(Protocol):
    """Where it comes from who is told what."""

    def current(self) -> NotifyConfig:
        """Return what holds now; ConfigInvalid when the file is wrong and none was good before."""


@dataclass(frozen=True)
class Outgoing:
    """One message to one receiver."""

    #: The same at every try.
    id: str
    message: Message


class NoticeSender(Protocol):
    """How a message reaches a receiver."""

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Return when the receiver has taken it; NotTold says why not, with no secret in it."""

    def check(self, receiver: Receiver) -> None:
        """Return when address and secrets of a receiver can be used; ConfigInvalid. Nothing is sent."""


@dataclass(frozen=True)
class TellingFilter:
    """Which tellings a list shows."""

    state: TellingState | None = None
    receiver: str | None = None
    kind: NoticeKind | None = None


@dataclass(frozen=True)
class TellingBacklog:
    """How it stands with one receiver, in numbers."""

    pending: int
    #: When the oldest one that is pending happened.
    oldest: datetime | None
    #: Given up since the moment that was asked for.
    given_up: int


class NoticeReader(Protocol):
    """Reads of notices."""

    def notice_cursor(self) -> int | None:
        """Return the seq up to which notices were made of the audit; None before the first time."""

    def gathering(self, key: str, now: datetime) -> Notice | None:
        """Return the notice of this key into which more may come at this moment."""

    def due_tellings(self, receiver: str, now: datetime, *, limit: int) -> tuple[Told, ...]:
        """Return what is to be told to a receiver now, what is due longest first."""

    def pending_receivers(self) -> frozenset[str]:
        """Return the names of receivers for whom something is pending."""

    def tellings(self, which: TellingFilter, *, cursor: str | None, limit: int) -> Page[Told]:
        """Return tellings, newest first, by keyset."""

    def telling_backlog(self, since: datetime) -> Mapping[str, TellingBacklog]:
        """Return by receiver what is pending, and what was given up since a moment."""


class NoticeWriter(Protocol):
    """Writes of notices."""

    def move_notice_cursor(self, before: int | None, after: int | None) -> None:
        """Move the cursor, or (None) take it away; Conflict when it does not stand at `before`."""

    def add_notice(self, notice: Notice, tellings: Sequence[Telling]) -> None:
        """Add a notice and whom it is told."""

    def save_gathered(self, notice: Notice) -> None:
        """Write what has come into a notice."""

    def save_tellings(self, tellings: Sequence[Telling]) -> None:
        """Write how far tellings have come; one that has ended stays as it is."""

    def leave_out(self, receivers: Collection[str], *, reason: str, now: datetime) -> int:
        """Leave out what is pending for these receivers, and return how many."""

    def drop_notices(self, before: datetime, *, limit: int) -> int:
        """Drop the oldest notices that happened before a time, and return how many."""


class NobodyIsTold:
    """Stands for a file that is not there: nobody is told anything."""

    def current(self) -> NotifyConfig:
        """Return a configuration without receivers."""
        return NotifyConfig()


class NobodyTells:
    """Stands for senders that are not there."""

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Refuse."""
        raise NotTold("Nothing is sent from here.")

    def check(self, receiver: Receiver) -> None:
        """Refuse."""
        raise ConfigInvalid("Nothing is sent from here.")
