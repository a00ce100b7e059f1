"""Sign in to the pages with a token, and out again: sessions live on the server and end there."""

import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from service.app.ports import Transaction
from service.app.service import Service
from service.app.tokens import valid_token
from service.domain.audit import Fact
from service.domain.errors import Unauthenticated, Unavailable
from service.domain.person import Permission
from service.domain.script import sha256
from service.domain.session import LONGEST, LONGEST_IDLE, Session

#: One answer to every token that does not open the pages, whatever the cause.
REFUSED: Final = Unauthenticated(
    "This token does not open the pages.", "Ask for a new one: `unstick token create` on the service's host."
)
#: A use is written down at most so often: a look at a page is no write.
_SEEN_EVERY: Final = timedelta(minutes=1)
#: So many ended sessions are swept when somebody signs in.
_SWEPT: Final = 100


@dataclass(frozen=True)
class Opened:
    """A new session."""

    session: Session
    #: The value of its cookie; it cannot be read again.
    secret: str


def open_session(service: Service, token: str, *, address: str, before: str = "") -> Opened:
    """Open a session for whoever shows a token; `before` is the cookie that the browser had, which ends.

    The session has a value of its own, whatever the browser came with. Raises Unauthenticated for a token that is
    not valid or may not read, Unavailable when it cannot be recorded.
    """
    try:
        known = valid_token(service, token)
    except Unauthenticated as error:
        raise REFUSED from error
    if not known.owner.may(Permission.READ):
        raise REFUSED
    secret, now = secrets.token_urlsafe(32), service.clock.now()
    session = Session(service.clock.new_id(), sha256(secret), known, now, now)

    def record(transaction: Transaction) -> None:
        _sweep(transaction, now=now)
        old = transaction.session_by_sha256(sha256(before)) if before else None
        if old is not None:
            _close(transaction, old, reason="signed in anew")
        transaction.add_session(session)
        body = {"token": known.name, "address": address}
        transaction.append(Fact("session.opened", f"session/{session.id}", known.person, body=body))

    service.store.write(record)
    return Opened(session, secret)


def find_session(service: Service, secret: str) -> Session:
    """Return the session of a cookie, and note its use; Unauthenticated with why it has ended.

    What the token may do is read anew each time, so a token that is revoked ends its sessions at once.
    """
    digest = sha256(secret)
    session = service.store.read(lambda reader: reader.session_by_sha256(digest))
    if session is None:
        raise Unauthenticated("You are not signed in.", "Sign in.")
    now = service.clock.now()
    why = session.over(now)
    # A record that cannot be written forbids actions, which fail by themselves; looking stays possible.
    if why:
        with suppress(Unavailable):
            service.store.write(lambda transaction: _close(transaction, session, reason=why))
        raise Unauthenticated(f"Your session has ended: {why}.", "Sign in again.")
    if now - session.seen_at >= _SEEN_EVERY:
        with suppress(Unavailable):
            service.store.write(lambda transaction: transaction.see_session(session.id, at=now))
    return session


def close_session(service: Service, session: Session) -> None:
    """Sign out: the cookie is worth nothing from now on, wherever a copy of it is."""
    service.store.write(lambda transaction: _close(transaction, session, reason="signed out"))


def _close(transaction: Transaction, session: Session, *, reason: str) -> None:
    if transaction.remove_session(session.id):
        body = {"token": session.token.name, "reason": reason}
        transaction.append(Fact("session.closed", f"session/{session.id}", session.token.person, body=body))


def _sweep(transaction: Transaction, *, now: datetime) -> None:
    """Remove what has ended by itself and was not used since."""
    for session in transaction.sessions_before(opened=now - LONGEST, seen=now - LONGEST_IDLE, limit=_SWEPT):
        _close(transaction, session, reason=session.over(now))
