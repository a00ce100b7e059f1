"""Reads of sessions, each with its token as it is now."""

from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, or_, select

from service.domain.session import Session
from service.store import rows
from service.store.looks import Looks
from service.store.sign_in_tables import sessions
from service.store.tables import tokens

_S = sessions.c
_OWN = tuple(_S[name].label(f"session_{name}") for name in ("id", "sha256", "opened_at", "seen_at"))


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


def _query() -> Select[Any]:
    return select(*_OWN, tokens).join(tokens, tokens.c.id == _S.token_id)


def _session(row: RowMapping) -> Session:
    own = {column.name: row[column.name] for column in _OWN}
    return Session(
        own["session_id"], own["session_sha256"], rows.token_of(row), own["session_opened_at"], own["session_seen_at"]
    )
