"""Writes of deliveries, alerts, pauses and breakers."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from service.domain.delivery import Breaker, Delivery, HeldBy, Pause, RecordedAlert
from service.domain.errors import Conflict
from service.store import rows
from service.store.alert_reads import PAUSED
from service.store.alert_tables import HELD, UNJUDGED, alerts, breakers, deliveries, pauses

_A = alerts.c
#: Rows in one statement, so that a large delivery never stands twice in memory.
_PIECE = 500
_JUDGED = ("judged_at", "verdict", "rule", "node", "run_id", "reason", "held_by", "wake_at")
# Statements are made once: making one costs more than a small one takes.
_ADD_DELIVERY, _ADD_ALERT = insert(deliveries), insert(alerts)
_SAVE = update(alerts).where(_A.id == bindparam("saved"), or_(UNJUDGED, HELD))


def add_deliveries(connection: Connection, some: Sequence[Delivery], recorded: Sequence[RecordedAlert]) -> None:
    """Add deliveries with the alerts of all of them, a statement for each table; one that cannot be ends the change."""
    if some:
        connection.execute(_ADD_DELIVERY, [rows.to_row(one) for one in some])
    for first in range(0, len(recorded), _PIECE):
        connection.execute(_ADD_ALERT, [rows.to_row(one) for one in recorded[first : first + _PIECE]])


def save_alert(connection: Connection, alert: RecordedAlert) -> None:
    """Write how an alert was judged; Conflict when that was decided before."""
    values = {name: getattr(alert, name) for name in _JUDGED} | {"saved": alert.id}
    if not connection.execute(_SAVE, values).rowcount:
        raise Conflict(f"The alert {alert.id} was judged already.", "GET /api/v1/alerts/{id} tells how.")


def wake_alerts(
    connection: Connection, *, at: datetime, node: str | None, held_by: HeldBy | None, most: int | None
) -> int:
    """Have held alerts judged at a time, the oldest first, and return how many."""
    which = select(_A.id).where(HELD, _A.wake_at > at)
    if node is not None:
        which = which.where(_A.node == node)
    if held_by is not None:
        which = which.where(_A.held_by == held_by)
    if most is not None:
        which = which.order_by(_A.received_at, _A.id).limit(most)
    return connection.execute(update(alerts).where(_A.id.in_(which)).values(wake_at=at)).rowcount


def put_pause(connection: Connection, pause: Pause) -> None:
    """Pause, in place of an earlier pause."""
    remove_pause(connection)
    connection.execute(insert(pauses), {"name": PAUSED, "by": pause.by, "reason": pause.reason, "at": pause.at})


def remove_pause(connection: Connection) -> None:
    """End the pause."""
    connection.execute(delete(pauses).where(pauses.c.name == PAUSED))


def put_breaker(connection: Connection, breaker: Breaker) -> None:
    """Write a breaker."""
    connection.execute(delete(breakers).where(breakers.c.name == breaker.name))
    connection.execute(insert(breakers), rows.to_row(breaker))
