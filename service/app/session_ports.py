"""What signing in needs of the record; the store's ports take these in."""

from datetime import datetime
from typing import Protocol

from service.domain.login import KnownIdentity
from service.domain.session import Session


class SessionReader(Protocol):
    """Reads of sessions, each with its token as it is now, and of accounts that have signed in."""

    def session_by_sha256(self, digest: str) -> Session | None:
        """Return the session whose cookie has this digest."""

    def sessions_before(self, *, opened: datetime, seen: datetime, limit: int) -> tuple[Session, ...]:
        """Return sessions that were opened or last used before these times."""

    def sessions(self) -> tuple[Session, ...]:
        """Return every session, the oldest first; those that have ended by themselves may be among them."""

    def known_identities(self) -> tuple[KnownIdentity, ...]:
        """Return which account each person is, by person."""


class SessionWriter(Protocol):
    """Writes of sessions and accounts."""

    def add_session(self, session: Session) -> None:
        """Add a session."""

    def see_session(self, session_id: str, *, at: datetime) -> None:
        """Note that a session was used; nothing, when it has ended meanwhile."""

    def remove_session(self, session_id: str) -> bool:
        """End a session; False when it had ended before."""

    def add_identity(self, identity: KnownIdentity) -> None:
        """Add an account; Conflict when it, or its person, is there already."""

    def remove_identity(self, identity: KnownIdentity) -> None:
        """Forget an account."""
