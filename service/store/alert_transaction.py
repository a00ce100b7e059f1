"""The part of a transaction that writes deliveries and alerts."""

from collections.abc import Sequence
from datetime import datetime

from service.domain.delivery import Breaker, Delivery, HeldBy, Pause, RecordedAlert
from service.store import alert_writes
from service.store.serial_reader import SerialReader


class AlertTransaction(SerialReader):
    """Writes of alerts beside the reads of one change."""

    def lock_alerts(self) -> None:
        """Have the judging of alerts to itself until the commit, beside other processes."""
        self._serialize_name("alerts")

    def add_deliveries(self, deliveries: Sequence[Delivery], alerts: Sequence[RecordedAlert]) -> None:
        """Add deliveries with all of their alerts; a key that its source has used before ends the whole change."""
        alert_writes.add_deliveries(self._connection, deliveries, alerts)

    def save_alert(self, alert: RecordedAlert) -> None:
        """Write how an alert was judged; Conflict when that was decided before."""
        alert_writes.save_alert(self._connection, alert)

    def wake_alerts(
        self, *, at: datetime, node: str | None = None, held_by: HeldBy | None = None, most: int | None = None
    ) -> int:
        """Have held alerts judged at a time, the oldest first, and return how many."""
        return alert_writes.wake_alerts(self._connection, at=at, node=node, held_by=held_by, most=most)

    def put_pause(self, pause: Pause) -> None:
        """Pause, in place of an earlier pause."""
        alert_writes.put_pause(self._connection, pause)

    def remove_pause(self) -> None:
        """End the pause."""
        alert_writes.remove_pause(self._connection)

    def put_breaker(self, breaker: Breaker) -> None:
        """Write a breaker."""
        alert_writes.put_breaker(self._connection, breaker)
