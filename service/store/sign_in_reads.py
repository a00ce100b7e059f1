"""Reads of sessions, each with its token as it is now, and of accounts that persons have signed in with."""

from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, or_, select

from service.domain.login import Identity, KnownIdentity, VouchedBy
from service.domain.person import Role
from service.domain.session import Session
from service.store import rows
from service.store.looks import Looks
from service.store.sign_in_tables import identities, sessions
from service.store.tables import tokens

_S = sessions.c
_OWN = tuple(column.label(f"session_{column.name}") for column in _S)


class SignInReads(Looks):
    """The part of a reader that knows who has signed in."""

    def session_by_sha256(self, digest: str) -> Session | None:
        """Return the session whose cookie has this digest."""
        row = self._first(_query().where(_S.sha256 == digest))
        return None if row is None else _session(row)

    def sessions_before(self, *, opened: datetime, seen: datetime, limit: int) -> tuple[Session, ...]:
        """Return sessions that were opened or last used before these times."""
        query = _query().where(or_(_S.opened_at <= opened, _S.seen_at <= seen)).order_by(_S.id).limit(limit)
        return tuple(_session(row) for row in self._all(query))

    def sessions(self) -> tuple[Session, ...]:
        """Return every session, the oldest first; those that have ended by themselves may be among them."""
        return tuple(_session(row) for row in self._all(_query().order_by(_S.opened_at, _S.id)))

    def known_identities(self) -> tuple[KnownIdentity, ...]:
        """Return which account each person is, by person."""
        found = self._all(select(identities).order_by(identities.c.person))
        return tuple(KnownIdentity(row["issuer"], row["subject"], row["person"]) for row in found)


def _query() -> Select[Any]:
    return select(*_OWN, tokens).outerjoin(tokens, tokens.c.id == _S.token_id)


def _session(row: RowMapping) -> Session:
    own = {column.name: row[f"session_{column.name}"] for column in _S}
    return Session(
        own["id"],
        own["sha256"],
        _identity(own) if own["token_id"] is None else rows.token_of(row),
        own["opened_at"],
        own["seen_at"],
        frozenset(Role(role) for role in own["roles"] or ()),
    )


def _identity(own: dict[str, Any]) -> Identity:
    by = VouchedBy(own["vouched_by"])
    return Identity(by, own["issuer"], own["subject"], own["person"], frozenset(own["groups"]))
