"""What the use cases of alerts need of the record; the store's ports take these in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from service.app.paging import Page
from service.domain.delivery import AlertVerdict, Breaker, Delivery, HeldBy, Pause, RecordedAlert
from service.domain.policy import Policy
from service.domain.rails import Earlier, PastRun


class PolicySource(Protocol):
    """Where the limits of what alerts may do come from."""

    def current(self) -> Policy:
        """Return the policy as it is now; ConfigInvalid when the file is wrong and none was good before."""


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts a list shows."""

    node: str | None = None
    verdict: AlertVerdict | None = None
    source: str | None = None
    delivery_id: str | None = None


@dataclass(frozen=True)
class AlertBacklog:
    """What is still to be decided at this moment, in numbers."""

    #: Never judged.
    unjudged: int
    #: Held by each; what nothing is held by may be absent.
    held: Mapping[HeldBy, int]


class AlertReader(Protocol):
    """Reads of deliveries and alerts, and of what the rails ask."""

    def delivery(self, delivery_id: str) -> Delivery:
        """Return a delivery with what is kept of its body; NotFound."""

    def delivery_by_key(self, source: str, key: str) -> Delivery | None:
        """Return the delivery that this source has called so."""

    def alert(self, alert_id: str) -> RecordedAlert:
        """Return an alert; NotFound."""

    def alerts(self, which: AlertFilter, *, cursor: str | None, limit: int) -> Page[RecordedAlert]:
        """Return alerts, newest first, by keyset."""

    def alerts_since(self, since: datetime, *, after: RecordedAlert | None, limit: int) -> tuple[RecordedAlert, ...]:
        """Return alerts as they came, oldest first, from a time or from behind one of them on."""

    def due_alerts(self, now: datetime, *, limit: int) -> tuple[RecordedAlert, ...]:
        """Return alerts that are to be judged now, oldest first."""

    def next_alert_wake(self) -> datetime | None:
        """Return when the next alert is to be judged."""

    def waiting_alerts(self, *, most: int) -> int:
        """Return how many alerts were never judged; it counts up to `most`."""

    def alert_backlog(self) -> AlertBacklog:
        """Return how many alerts are still to be decided; it looks at nothing that is."""

    def has_old(self, outputs: datetime, deliveries: datetime) -> bool:
        """Whether an output was sealed before the one time, or a delivery came before the other that may be dropped."""

    def earlier(self, alert: RecordedAlert) -> Earlier | None:
        """Return another alert of the same source, fingerprint and start that has run, or is held."""

    def resolved_at(self, alert: RecordedAlert) -> datetime | None:
        """Return when a word came by which this occasion of the fault is over."""

    def heard_at(self, alert: RecordedAlert) -> datetime:
        """Return when it was last said that this occasion of the fault is there."""

    def of_fault(self, resolved: RecordedAlert) -> tuple[RecordedAlert, ...]:
        """Return the alerts that a resolved one ends: held, or folded into a run; and those that ended while held."""

    def alerts_of_run(self, run_id: str) -> tuple[RecordedAlert, ...]:
        """Return the alerts that have started a run or were folded into it."""

    def past_runs(self, node: str, *, limit: int) -> tuple[PastRun, ...]:
        """Return the newest node runs of a node."""

    def rebooted_at(self, node: str) -> datetime | None:
        """Return when the last script was sent that saw this node reboot."""

    def disrupted_nodes(self) -> frozenset[str]:
        """Return the nodes that an acting run has, or that one which an alert has started will have."""

    def disrupted_since(self, since: datetime) -> frozenset[str]:
        """Return the nodes that acting runs which alerts have started after a time have, or had."""

    def pause(self) -> Pause | None:
        """Return the pause that is on."""

    def breaker(self, name: str) -> Breaker:
        """Return a breaker; one that never latched is closed."""


class AlertWriter(Protocol):
    """Writes of deliveries and alerts."""

    def lock_alerts(self) -> None:
        """Have the judging of alerts to itself until the commit, beside other processes."""

    def add_deliveries(self, deliveries: Sequence[Delivery], alerts: Sequence[RecordedAlert]) -> None:
        """Add deliveries with all of their alerts; a key that its source has used before ends the whole change."""

    def drop_deliveries(self, before: datetime, *, limit: int) -> int:
        """Drop what came before a time, a held alert and one that has run excepted; return how many were touched."""

    def save_alert(self, alert: RecordedAlert) -> None:
        """Write how an alert was judged; Conflict when that was decided before."""

    def wake_alerts(
        self, *, at: datetime, node: str | None = None, held_by: HeldBy | None = None, most: int | None = None
    ) -> int:
        """Have held alerts judged at a time, the oldest first, and return how many."""

    def put_pause(self, pause: Pause) -> None:
        """Pause, in place of an earlier pause."""

    def remove_pause(self) -> None:
        """End the pause."""

    def put_breaker(self, breaker: Breaker) -> None:
        """Write a breaker."""
