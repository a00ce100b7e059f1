"""Sign in to the pages with a token or an identity, and out again: sessions live on the server and end there."""

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from service.app.identities import bind, refuse_name
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.app.tokens import PREFIX, valid_token
from service.domain.audit import Fact
from service.domain.errors import NotFound, Unauthenticated, Unavailable
from service.domain.login import Identity, VouchedBy
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
    now = service.clock.now()
    return _open(service, Session(service.clock.new_id(), "", known, now, now), address=address, before=before)


def open_identity(service: Service, identity: Identity, *, address: str, before: str = "") -> Opened:
    """Open a session for whom a provider or a proxy has vouched; `before` as above.

    Raises Unauthenticated with the words of the case: no group of his has a role, or the name is not his.
    """
    refuse_name(identity)
    config, now = service.login.current(), service.clock.now()
    roles = config.roles_of(identity.groups)
    session = Session(service.clock.new_id(), "", identity, now, now, roles)
    if not session.person.may(Permission.READ):
        raise Unauthenticated(*config.no_role(identity))
    return _open(service, session, address=address, before=before)


def _open(service: Service, session: Session, *, address: str, before: str) -> Opened:
    # The beginning is that of our tokens, so that it is known as a secret wherever it turns up.
    secret = PREFIX + secrets.token_urlsafe(32)
    session = replace(session, sha256=sha256(secret))

    def record(transaction: Transaction) -> None:
        if isinstance(session.known, Identity):
            bind(transaction, session.known)
        _sweep(transaction, now=session.opened_at)
        old = transaction.session_by_sha256(sha256(before)) if before else None
        if old is not None:
            _close(transaction, old, reason="signed in anew")
        transaction.add_session(session)
        body = {**session.opened_with, "address": address}
        transaction.append(Fact("session.opened", f"session/{session.id}", session.person.name, body=body))

    service.store.write(record)
    return Opened(session, secret)


def find_session(service: Service, secret: str) -> Session:
    """Return the session of a cookie, and note its use; Unauthenticated with why it has ended.

    What the token or the groups may do is read anew each time, so a token that is revoked, or a group whose role is
    taken away, ends its sessions at once.
    """
    digest = sha256(secret)
    stored = service.store.read(lambda reader: reader.session_by_sha256(digest))
    if stored is None:
        raise Unauthenticated("You are not signed in.", "Sign in.")
    now = service.clock.now()
    session, why = _as_it_is_now(service, stored)
    why = why or session.over(now)
    # A record that cannot be written forbids actions, which fail by themselves; looking stays possible.
    if why:
        with suppress(Unavailable):
            service.store.write(lambda transaction: _close(transaction, session, reason=why))
        raise Unauthenticated(f"Your session has ended: {why}.", "Sign in again.")
    if now - session.seen_at >= _SEEN_EVERY:
        with suppress(Unavailable):
            service.store.write(lambda transaction: transaction.see_session(session.id, at=now))
    return session


def insist_on_session(service: Service, reader: Reader, session: Session) -> None:
    """Raise Unauthenticated when a session has ended by now, with why."""
    stored = reader.session_by_sha256(session.sha256)
    if stored is None:
        raise Unauthenticated("Your session has ended meanwhile.", "Sign in again.")
    anew, why = _as_it_is_now(service, stored)
    why = why or anew.over(service.clock.now())
    if why:
        raise Unauthenticated(f"Your session has ended: {why}.", "Sign in again.")


def vouched_anew(service: Service, session: Session, identity: Identity | None) -> Session:
    """Return a session as the proxy vouches for it in this very request; any other comes back as it is.

    Raises Unauthenticated when the proxy vouches for nobody now, for somebody else, or for nobody who may read.
    """
    if not isinstance(session.known, Identity) or session.known.by is not VouchedBy.PROXY:
        return session
    if identity is None or identity.person != session.known.person:
        raise Unauthenticated("The proxy before this service does not say any more that it is you.", "Sign in again.")
    config = service.login.current()
    anew = replace(session, known=identity, roles=config.roles_of(identity.groups))
    if not anew.person.may(Permission.READ):
        raise Unauthenticated(*config.no_role(identity))
    return anew


def close_session(service: Service, session: Session, *, reason: str = "signed out") -> None:
    """Sign out: the cookie is worth nothing from now on, wherever a copy of it is."""
    service.store.write(lambda transaction: _close(transaction, session, reason=reason))


def open_sessions(service: Service) -> tuple[Session, ...]:
    """Return the sessions that hold at this moment, the oldest first."""
    now = service.clock.now()
    return tuple(one for one in service.store.read(lambda reader: reader.sessions()) if not one.over(now))


def end_sessions(service: Service, person: str, *, by: str) -> int:
    """End every session of a person, and return how many there were; NotFound without one."""

    def record(transaction: Transaction) -> int:
        found = [one for one in transaction.sessions() if one.person.name == person]
        if not found:
            raise NotFound(f"{person} has no session.", "`unstick sessions list` lists them.")
        for session in found:
            _close(transaction, session, reason="ended by an admin", by=by)
        return len(found)

    return service.store.write(record)


def _as_it_is_now(service: Service, session: Session) -> tuple[Session, str]:
    """Return a session with what its groups may do now, and why it has ended when nobody vouches for it any more."""
    if not isinstance(session.known, Identity):
        return session, ""
    config = service.login.current()
    why = "" if config.still_vouched(session.known) else f"signing in by {session.known.by} is configured otherwise now"
    return replace(session, roles=config.roles_of(session.known.groups)), why


def _close(transaction: Transaction, session: Session, *, reason: str, by: str = "") -> None:
    if transaction.remove_session(session.id):
        body, name = {**session.opened_with, "reason": reason}, session.person.name
        fact = Fact("session.closed", f"session/{session.id}", by or name, on_behalf_of=name if by else "", body=body)
        transaction.append(fact)


def _sweep(transaction: Transaction, *, now: datetime) -> None:
    """Remove what has ended by itself and was not used since."""
    for session in transaction.sessions_before(opened=now - LONGEST, seen=now - LONGEST_IDLE, limit=_SWEPT):
        _close(transaction, session, reason=session.over(now) or "it has ended")
