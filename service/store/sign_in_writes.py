"""The part of a transaction that writes sessions."""

from datetime import datetime

from sqlalchemy import delete, insert, update

from service.domain.session import Session
from service.store.looks import Looks
from service.store.sign_in_tables import sessions


class SignInTransaction(Looks):
    """Writes of sessions."""

    def add_session(self, session: Session) -> None:
        """Add a session."""
        names = ("id", "sha256", "opened_at", "seen_at")
        row = {name: getattr(session, name) for name in names} | {"token_id": session.token.id}
        self._connection.execute(insert(sessions), row)

    def see_session(self, session_id: str, *, at: datetime) -> None:
        """Note that a session was used; nothing, when it has ended meanwhile."""
        self._connection.execute(update(sessions).where(sessions.c.id == session_id).values(seen_at=at))

    def remove_session(self, session_id: str) -> bool:
        """End a session; False when it had ended before."""
        return bool(self._connection.execute(delete(sessions).where(sessions.c.id == session_id)).rowcount)
