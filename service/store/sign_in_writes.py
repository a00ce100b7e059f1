"""The part of a transaction that writes sessions and accounts."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, update
from sqlalchemy.exc import IntegrityError

from service.domain.errors import Conflict
from service.domain.login import Identity, KnownIdentity
from service.domain.person import Token
from service.domain.person_name import person_key
from service.domain.session import Session
from service.store.looks import Looks
from service.store.sign_in_tables import identities, sessions


class SignInTransaction(Looks):
    """Writes of sessions and accounts."""

    def add_session(self, session: Session) -> None:
        """Add a session."""
        row = {name: getattr(session, name) for name in ("id", "sha256", "opened_at", "seen_at")}
        self._connection.execute(insert(sessions), row | _known(session))

    def see_session(self, session_id: str, *, at: datetime) -> None:
        """Note that a session was used; nothing, when it has ended meanwhile."""
        self._connection.execute(update(sessions).where(sessions.c.id == session_id).values(seen_at=at))

    def remove_session(self, session_id: str) -> bool:
        """End a session; False when it had ended before."""
        return bool(self._connection.execute(delete(sessions).where(sessions.c.id == session_id)).rowcount)

    def add_identity(self, identity: KnownIdentity) -> None:
        """Add an account; Conflict when it, or its person, is there already."""
        row = {"issuer": identity.issuer, "subject": identity.subject, "person": identity.person}
        try:
            with self._connection.begin_nested():
                self._connection.execute(insert(identities), row | {"person_key": person_key(identity.person)})
        except IntegrityError as error:
            raise Conflict(f"{identity.person} has just signed in with an account.", "Sign in again.") from error

    def remove_identity(self, identity: KnownIdentity) -> None:
        """Forget an account."""
        c = identities.c
        found = delete(identities).where(c.issuer == identity.issuer, c.subject == identity.subject)
        self._connection.execute(found)


def _known(session: Session) -> dict[str, Any]:
    """Return the columns that say with what a session was opened."""
    match session.known:
        case Token(id=token_id):
            return {"token_id": token_id}
        case Identity() as identity:
            return {
                "vouched_by": identity.by.value,
                "issuer": identity.issuer,
                "subject": identity.subject,
                "person": identity.person,
                "groups": tuple(sorted(identity.groups)),
                "roles": tuple(sorted(role.value for role in session.roles)),
            }
