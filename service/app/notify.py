"""Follows the audit and makes notices of it; the audit is the outbox, so nothing is told that is not on record.

Notices and the place up to which they were made are written in one transaction: after a stop, or a store that
fails, it goes on where it was.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.app.notify_facts import NoticeMaker
from service.app.ports import AuditFilter, Reader, Transaction
from service.app.service import Service
from service.domain.audit import AuditEvent
from service.domain.errors import ConfigInvalid
from service.domain.notice import Notice, NotifyConfig, Telling, kind_of

#: So many events are read at once.
BATCH = 200
#: After so many events that make no notice the place is written down all the same.
_APART = 1000
#: Notices are kept for so long; the audit keeps what they told.
KEPT_FOR = timedelta(days=90)
_DROPPED_AT_ONCE = 200


@dataclass(frozen=True)
class _Read:
    """What was read of the record, in one look."""

    cursor: int | None
    head: int
    events: tuple[AuditEvent, ...] = ()
    #: Notices that are new, and those into which something has come.
    new: tuple[Notice, ...] = ()
    grown: tuple[Notice, ...] = ()


class Follower:
    """Makes notices of what was appended since the last time. For one thread."""

    def __init__(self, service: Service) -> None:
        """Follow the audit of this service."""
        self._service = service
        #: Events up to here were looked at; the record may be behind by events that make no notice.
        self._seen = 0

    def follow(self, *, limit: int = BATCH) -> bool:
        """Make notices of the next events; True when there are more.

        It begins at the end of the audit: what happened before somebody wanted to be told is not told. Unavailable.
        """
        config = self._config()
        if config is not None and not config.receivers:
            self._begin_anew()
            return False
        read = self._service.store.read(lambda reader: self._look(reader, config, limit=limit))
        if read.cursor is None:
            self._service.store.write(lambda transaction: transaction.move_notice_cursor(None, read.head))
            self._seen = read.head
            return False
        if config is None or not read.events:
            # A file that is wrong and was never good: what happens meanwhile is told when it is mended.
            return False
        self._write(read, config)
        self._seen = read.events[-1].seq
        return len(read.events) == limit

    def skip(self) -> int | None:
        """Leave out the next event, which cannot be made a notice of, and return its seq."""
        read = self._service.store.read(lambda reader: self._look(reader, None, limit=1))
        if read.cursor is None or not read.events:
            return None
        seq = read.events[0].seq
        self._service.store.write(lambda transaction: transaction.move_notice_cursor(read.cursor, seq))
        self._seen = seq
        return seq

    def _config(self) -> NotifyConfig | None:
        try:
            return self._service.notify.current()
        except ConfigInvalid:
            return None

    def _begin_anew(self) -> None:
        """Forget the place: nobody wants to be told, and who wants to later is not told the past."""
        cursor = self._service.store.read(lambda reader: reader.notice_cursor())
        if cursor is not None:
            self._service.store.write(lambda transaction: transaction.move_notice_cursor(cursor, None))
        self._seen = 0

    def _look(self, reader: Reader, config: NotifyConfig | None, *, limit: int) -> _Read:
        cursor = reader.notice_cursor()
        if cursor is None:
            newest = reader.audit(AuditFilter(), cursor=None, limit=1).items
            return _Read(None, newest[0].seq if newest else 0)
        events = reader.audit_after(max(cursor, self._seen), run_id=None, limit=limit)
        if config is None:
            return _Read(cursor, cursor, events)
        now = self._service.clock.now()
        maker = NoticeMaker(reader, now)
        made = [maker.made_of(event, notice_id=self._service.clock.new_id()) for event in events if kind_of(event)]
        new, grown = _gathered(reader, [one for one in made if one is not None], config, now=now)
        return _Read(cursor, cursor, events, new, grown)

    def _write(self, read: _Read, config: NotifyConfig) -> None:
        last = read.events[-1].seq
        nothing = not read.new and not read.grown and not any(kind_of(event) for event in read.events)
        if read.cursor is None or (nothing and last - read.cursor < _APART):
            return
        now = self._service.clock.now()

        def record(transaction: Transaction) -> None:
            transaction.move_notice_cursor(read.cursor, last)
            for notice in read.grown:
                transaction.save_gathered(notice)
            for notice in read.new:
                due = notice.gathers_until or now
                receivers = config.receivers_of(notice)
                transaction.add_notice(notice, [Telling(notice.id, one, notice.at, next_at=due) for one in receivers])

        self._service.store.write(record)


def drop_old_notices(service: Service) -> int:
    """Drop notices that are kept no longer, some at a time, and return how many."""
    before = service.clock.now() - KEPT_FOR
    return service.store.write(lambda transaction: transaction.drop_notices(before, limit=_DROPPED_AT_ONCE))


def _gathered(
    reader: Reader, made: list[Notice], config: NotifyConfig, *, now: datetime
) -> tuple[tuple[Notice, ...], tuple[Notice, ...]]:
    """Return new notices, and those into which gates have come; what is for nobody is left out."""
    new: dict[str, Notice] = {}
    grown: dict[str, Notice] = {}
    for one in made:
        receivers = config.receivers_of(one)
        if not receivers:
            continue
        # What is told to others is a notice of its own.
        notice = replace(one, key=f"{one.key}/{','.join(receivers)}")
        known = new.get(notice.key) or grown.get(notice.key)
        if known is None and notice.gathers_until is not None:
            known = reader.gathering(notice.key, now)
        if known is None:
            new[notice.key] = notice
        elif notice.key in new:
            new[notice.key] = known.with_gates_of(notice)
        else:
            grown[notice.key] = known.with_gates_of(notice)
    return tuple(new.values()), tuple(grown.values())
