"""Writes of notices: the part of a transaction that knows of them."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update

from service.domain.errors import Conflict
from service.domain.notice import Notice, Telling, TellingState
from service.store.looks import Looks
from service.store.notice_reads import CURSOR
from service.store.notice_tables import PENDING, notice_cursors, notices, tellings

_N, _T, _C = notices.c, tellings.c, notice_cursors.c
_NOTICE_FIELDS = tuple(one.name for one in fields(Notice))
_TELLING_FIELDS = tuple(one.name for one in fields(Telling))
_COMES = ("state", "attempts", "next_at", "ended_at", "reason")
_SAVE = update(tellings).where(_T.id == bindparam("saved"), PENDING)


class NoticeWrites(Looks):
    """The part of a transaction that writes notices."""

    def move_notice_cursor(self, before: int | None, after: int | None) -> None:
        """Move the cursor, or (None) take it away; Conflict when it does not stand at `before`."""
        there = (_C.name == CURSOR, _C.seq == before)
        if before is None:
            row = self._first(select(_C.seq).where(_C.name == CURSOR))
            moved = 1 if row is None else 0
            if moved and after is not None:
                self._connection.execute(insert(notice_cursors), {"name": CURSOR, "seq": after})
        elif after is None:
            moved = self._connection.execute(delete(notice_cursors).where(*there)).rowcount
        else:
            moved = self._connection.execute(update(notice_cursors).where(*there).values(seq=after)).rowcount
        if not moved:
            raise Conflict("Somebody else makes notices of this record.", "Only one service may run on a database.")

    def add_notice(self, notice: Notice, some: Sequence[Telling]) -> None:
        """Add a notice and whom it is told."""
        self._connection.execute(insert(notices), {name: getattr(notice, name) for name in _NOTICE_FIELDS})
        rows = [
            {name: getattr(one, name) for name in _TELLING_FIELDS} | {"id": one.id, "kind": notice.kind} for one in some
        ]
        if rows:
            self._connection.execute(insert(tellings), rows)

    def save_gathered(self, notice: Notice) -> None:
        """Write what has come into a notice."""
        values = {"facts": notice.facts, "nodes": notice.nodes, "pools": notice.pools}
        self._connection.execute(update(notices).where(_N.id == notice.id).values(values))

    def save_tellings(self, some: Sequence[Telling]) -> None:
        """Write how far tellings have come; one that has ended stays as it is."""
        for one in some:
            self._connection.execute(_SAVE, {name: getattr(one, name) for name in _COMES} | {"saved": one.id})

    def leave_out(self, receivers: Collection[str], *, reason: str, now: datetime) -> int:
        """Leave out what is pending for these receivers, and return how many."""
        values = {"state": TellingState.LEFT_OUT, "next_at": None, "ended_at": now, "reason": reason}
        return self._connection.execute(
            update(tellings).where(PENDING, _T.receiver.in_(sorted(receivers))).values(values)
        ).rowcount

    def drop_notices(self, before: datetime, *, limit: int) -> int:
        """Drop the oldest notices that happened before a time, and return how many."""
        old = select(_N.id).where(_N.at < before).order_by(_N.at, _N.id).limit(limit)
        ids = list(self._connection.execute(old).scalars())
        self._connection.execute(delete(tellings).where(_T.notice_id.in_(ids)))
        self._connection.execute(delete(notices).where(_N.id.in_(ids)))
        return len(ids)
