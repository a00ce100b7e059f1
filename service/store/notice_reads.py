"""Reads of notices and of how far they have come."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, and_, func, select

from service.app.notice_ports import TellingBacklog, TellingFilter
from service.app.paging import Page
from service.domain.notice import Notice, Telling, Told
from service.store import cursor as cursors
from service.store.looks import Looks
from service.store.notice_tables import GATHERING, GIVEN_UP, PENDING, notice_cursors, notices, tellings

_N, _T = notices.c, tellings.c
#: The name of the one cursor that there is.
CURSOR: Final = "notices"
_NOTICE_FIELDS = ("kind", "key", "facts", "run_id", "runbook", "nodes", "pools", "by_alert", "gathers_until")
_TELLING_FIELDS = ("notice_id", "receiver", "at", "state", "attempts", "next_at", "ended_at", "reason")
_TOLD: Final[Select[Any]] = select(
    *(_T[name] for name in _TELLING_FIELDS),
    _T.id.label("telling_id"),
    *(_N[name].label(f"notice_{name}") for name in _NOTICE_FIELDS),
).join(notices, _N.id == _T.notice_id)


class NoticeReads(Looks):
    """The part of a reader that knows of notices."""

    def notice_cursor(self) -> int | None:
        """Return the seq up to which notices were made of the audit; None before the first time."""
        row = self._first(select(notice_cursors.c.seq).where(notice_cursors.c.name == CURSOR))
        return None if row is None else row["seq"]

    def gathering(self, key: str, now: datetime) -> Notice | None:
        """Return the notice of this key into which more may come at this moment."""
        query = select(notices).where(GATHERING, _N.key == key, _N.gathers_until > now)
        row = self._first(query.order_by(_N.gathers_until.desc()).limit(1))
        return None if row is None else Notice(row["id"], at=row["at"], **{name: row[name] for name in _NOTICE_FIELDS})

    def due_tellings(self, receiver: str, now: datetime, *, limit: int) -> tuple[Told, ...]:
        """Return what is to be told to a receiver now, what is due longest first."""
        # The condition names a column that the other table has not.
        query = _TOLD.where(PENDING, _T.receiver == receiver, _T.next_at <= now)
        return tuple(_told(row) for row in self._all(query.order_by(_T.next_at, _T.id).limit(limit)))

    def pending_receivers(self) -> frozenset[str]:
        """Return the names of receivers for whom something is pending."""
        return frozenset(self._connection.execute(select(_T.receiver).where(PENDING).distinct()).scalars())

    def tellings(self, which: TellingFilter, *, cursor: str | None, limit: int) -> Page[Told]:
        """Return tellings, newest first, by keyset."""
        query = _TOLD
        for name in ("state", "receiver", "kind"):
            wanted = getattr(which, name)
            if wanted is not None:
                query = query.where(_T[name] == wanted)
        found, more = self._page(query, _T.at, _T.id, cursor=cursor, limit=limit, kind="tellings")
        values = tuple(_told(row) for row in found)
        after = cursors.encode("tellings", values[-1].telling.at, values[-1].telling.id) if more else None
        return Page(values, after)

    def telling_backlog(self, since: datetime) -> Mapping[str, TellingBacklog]:
        """Return by receiver what is pending, and what was given up since a moment."""
        number = func.count().label("number")
        pending = {
            row["receiver"]: row
            for row in self._all(
                select(_T.receiver, number, func.min(_T.at).label("oldest")).where(PENDING).group_by(_T.receiver)
            )
        }
        lost = {
            row["receiver"]: row["number"]
            for row in self._all(
                select(_T.receiver, number).where(and_(GIVEN_UP, _T.ended_at >= since)).group_by(_T.receiver)
            )
        }
        return {
            name: TellingBacklog(
                pending[name]["number"] if name in pending else 0,
                pending[name]["oldest"] if name in pending else None,
                lost.get(name, 0),
            )
            for name in sorted({*pending, *lost})
        }


def _told(row: RowMapping) -> Told:
    notice = {name: row[f"notice_{name}"] for name in _NOTICE_FIELDS}
    telling = Telling(**{name: row[name] for name in _TELLING_FIELDS})
    return Told(telling, Notice(row["notice_id"], at=row["at"], **notice))
