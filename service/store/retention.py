"""What may go after a while: the bytes of outputs, and what monitors sent.

The chain, and what became of each run, stay.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, false, func, or_, select, update

from service.domain.delivery import AlertVerdict
from service.store.alert_tables import WAKES, alerts, deliveries
from service.store.tables import blobs, outputs

_MINE = alerts.c.delivery_id == deliveries.c.id
_HAS_RUN = func.coalesce(alerts.c.verdict == AlertVerdict.RAN, false())
#: Of a delivery: whether one of its alerts has started a run.
_RAN = exists().where(_MINE, _HAS_RUN)
_UNDECIDED = exists().where(_MINE, or_(WAKES, alerts.c.verdict.is_(None)))


def drop_outputs(connection: Connection, before: datetime, *, limit: int) -> list[tuple[str, str]]:
    """Drop the oldest outputs that were sealed before a time; return attempt and SHA-256 of each.

    A blob that another output shares stays for that one.
    """
    c = outputs.c
    query = select(c.attempt_id, c.blob_sha256).where(c.sealed_at < before).order_by(c.sealed_at).limit(limit)
    dropped = [(row.attempt_id, row.blob_sha256) for row in connection.execute(query)]
    if dropped:
        connection.execute(delete(outputs).where(c.attempt_id.in_([attempt_id for attempt_id, _ in dropped])))
        unshared = ~exists().where(c.blob_sha256 == blobs.c.sha256)
        digests = {digest for _, digest in dropped}
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(digests), unshared))
    return dropped


def _droppable(before: datetime) -> ColumnElement[bool]:
    c = deliveries.c
    return and_(c.received_at < before, ~_UNDECIDED, or_(~_RAN, c.body != b""))


def has_old(connection: Connection, sealed_before: datetime, received_before: datetime) -> bool:
    """Whether there is anything to drop."""
    output = select(outputs.c.attempt_id).where(outputs.c.sealed_at < sealed_before).limit(1)
    delivery = select(deliveries.c.id).where(_droppable(received_before)).limit(1)
    return any(connection.execute(one).first() is not None for one in (output, delivery))


@dataclass(frozen=True)
class DroppedDeliveries:
    """How much was dropped."""

    #: Deliveries of which something went.
    touched: int
    #: Deliveries that are gone as a whole.
    deliveries: int
    alerts: int


def drop_deliveries(connection: Connection, before: datetime, *, limit: int) -> DroppedDeliveries:
    """Drop the oldest deliveries of before a time with their alerts.

    A delivery with an alert that is still to be judged stays as it is. An alert that has started a run stays, and
    with it its delivery without a body: the same alert, said again, must be known for as long as it fires.
    """
    c, a = deliveries.c, alerts.c
    query = select(c.id, _RAN).where(_droppable(before)).order_by(c.received_at, c.id).limit(limit)
    found = [tuple(row) for row in connection.execute(query)]
    if not found:
        return DroppedDeliveries(0, 0, 0)
    every, gone = [one for one, _ in found], [one for one, keeps in found if not keeps]
    dropped = connection.execute(delete(alerts).where(a.delivery_id.in_(every), ~_HAS_RUN)).rowcount
    connection.execute(update(deliveries).where(c.id.in_(every)).values(body=b""))
    connection.execute(delete(deliveries).where(c.id.in_(gone)))
    return DroppedDeliveries(len(found), len(gone), dropped)
