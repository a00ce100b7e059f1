"""Receive a delivery: it is on the record before its sender hears that it was taken. What it means is judged later."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

from service.app.ports import Transaction
from service.app.service import Service
from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.audit import Fact
from service.domain.delivery import KEPT_BYTES, AlertVerdict, Delivery, DeliveryState, RecordedAlert
from service.domain.errors import Unavailable
from service.domain.redaction import redact, redact_bytes, redact_members
from service.domain.script import sha256

#: While so many alerts wait to be judged, no more are taken: the sender keeps them.
MOST_WAITING = 20_000
#: Longer names are kept as their SHA-256; an index of PostgreSQL takes no more than some 2,700 bytes.
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Incoming:
    """What was sent, by a sender who is known by now."""

    source: str
    body: bytes
    #: The person of the token that came along; None where a signature proved the source itself.
    person: str | None = None

    @property
    def delivered_by(self) -> str:
        """Return who counts as requester."""
        return self.person or f"source:{self.source}"


@dataclass(frozen=True)
class Receipt:
    """What the sender is told."""

    delivery_id: str
    #: It was taken before, under this id.
    repeated: bool = False


@dataclass(frozen=True)
class ToKeep:
    """A delivery with its alerts, as they will stand on the record."""

    delivery: Delivery
    alerts: tuple[RecordedAlert, ...] = ()


def read(service: Service, incoming: Incoming, parsed: Parsed) -> ToKeep:
    """Return what is kept of a delivery."""
    made = _delivery(service, incoming)
    state = DeliveryState.ACCEPTED if parsed.alerts or parsed.set_aside else DeliveryState.IGNORED
    delivery = replace(
        made,
        state=state,
        delivery_key=None if parsed.delivery_key is None else _short(parsed.delivery_key),
        omitted=max(0, parsed.omitted),
        ignored=parsed.ignored or ("" if state is DeliveryState.ACCEPTED else "There are no alerts in it."),
        confirm_url=parsed.confirm_url,
    )
    return ToKeep(delivery, alerts_of(delivery, parsed))


def refuse(service: Service, incoming: Incoming, reason: str) -> ToKeep:
    """Return what is kept of a delivery that is none of its kind."""
    return ToKeep(replace(_delivery(service, incoming), state=DeliveryState.REJECTED, ignored=reason))


def keep(service: Service, some: Sequence[ToKeep]) -> Sequence[Receipt | Unavailable]:
    """Record deliveries in one piece, all or none; return what each sender is told, or why his is not taken now.

    Raises Unavailable when nothing can be written.
    """

    def record(transaction: Transaction) -> Sequence[Receipt | Unavailable]:
        return _record(transaction, some)

    told = service.store.write(record)
    service.wake_judging()
    return told


def _delivery(service: Service, incoming: Incoming) -> Delivery:
    return Delivery(
        id=service.clock.new_id(),
        source=incoming.source,
        received_at=service.clock.now(),
        state=DeliveryState.ACCEPTED,
        delivered_by=incoming.delivered_by,
        # Secrets first: a cut through one would hide it from sight.
        body=redact_bytes(incoming.body)[:KEPT_BYTES],
        body_bytes=len(incoming.body),
    )


def _record(transaction: Transaction, some: Sequence[ToKeep]) -> Sequence[Receipt | Unavailable]:
    told: list[Receipt | Unavailable] = []
    new: list[ToKeep] = []
    room: int | None = None
    for one in some:
        known = _taken_before(transaction, one.delivery, new)
        if known is not None:
            told.append(Receipt(known, repeated=True))
            continue
        if one.alerts and room is None:
            room = MOST_WAITING - transaction.waiting_alerts(most=MOST_WAITING)
        if one.alerts and room is not None:
            if room <= 0:
                told.append(
                    Unavailable(f"{MOST_WAITING} alerts wait to be judged.", "Send it again later; nothing was taken.")
                )
                continue
            room -= sum(alert.verdict is None for alert in one.alerts)
        new.append(one)
        told.append(Receipt(one.delivery.id))
    _add(transaction, new)
    return told


def _taken_before(transaction: Transaction, delivery: Delivery, new: Sequence[ToKeep]) -> str | None:
    """Return under which id the source has sent this before, on the record or among the new ones."""
    if delivery.delivery_key is None:
        return None
    for other in new:
        if (other.delivery.source, other.delivery.delivery_key) == (delivery.source, delivery.delivery_key):
            return other.delivery.id
    first = transaction.delivery_by_key(delivery.source, delivery.delivery_key)
    return None if first is None else first.id


def _add(transaction: Transaction, new: Sequence[ToKeep]) -> None:
    transaction.add_deliveries([one.delivery for one in new], [alert for one in new for alert in one.alerts])
    for one in new:
        transaction.append(_fact(one.delivery, one.alerts))


def _fact(delivery: Delivery, alerts: tuple[RecordedAlert, ...]) -> Fact:
    action = "delivery.rejected" if delivery.state is DeliveryState.REJECTED else "delivery.received"
    set_aside = sum(one.verdict is AlertVerdict.SET_ASIDE for one in alerts)
    body = {
        "source": delivery.source,
        "state": delivery.state,
        "key": delivery.delivery_key,
        "alerts": len(alerts) - set_aside,
        "set_aside": set_aside,
        "omitted": delivery.omitted,
        "bytes": delivery.body_bytes,
        "ignored": delivery.ignored,
    }
    return Fact(action, f"delivery/{delivery.id}", delivery.delivered_by, body=body)


def add_delivery(transaction: Transaction, delivery: Delivery, alerts: tuple[RecordedAlert, ...]) -> None:
    """Add a delivery with its alerts and its fact, in a transaction that is under way."""
    _add(transaction, [ToKeep(delivery, alerts)])


def alerts_of(delivery: Delivery, parsed: Parsed) -> tuple[RecordedAlert, ...]:
    """Return the alerts in their places; those that could not be understood have their verdict already."""
    aside = {one.index: one.reason for one in parsed.set_aside}
    places = (index for index in count() if index not in aside)
    found = [_alert(delivery, alert, index=index) for alert, index in zip(parsed.alerts, places, strict=False)]
    found += [_set_aside(delivery, index, reason) for index, reason in aside.items()]
    return tuple(sorted(found, key=lambda one: one.index))


def _alert(delivery: Delivery, alert: Alert, *, index: int) -> RecordedAlert:
    try:
        starts_at = alert.starts_at.astimezone(UTC)
    except OverflowError:
        return _set_aside(delivery, index, "Its time lies before the year 1 or after the year 9999 in UTC.")
    return replace(
        _blank(delivery, index, starts_at),
        fingerprint=_short(alert.fingerprint),
        status=alert.status,
        ends_at=_in_utc(alert.ends_at),
        labels=redact_members(alert.labels),
        annotations=redact_members(alert.annotations),
        link=redact(alert.link),
        wake_at=delivery.received_at,
    )


def _set_aside(delivery: Delivery, index: int, reason: str) -> RecordedAlert:
    blank = _blank(delivery, index, delivery.received_at)
    return replace(blank, judged_at=delivery.received_at, verdict=AlertVerdict.SET_ASIDE, reason=reason)


def _blank(delivery: Delivery, index: int, starts_at: datetime) -> RecordedAlert:
    return RecordedAlert(
        # Ids of one delivery sort as its alerts do.
        id=f"{delivery.id}-{index:05d}",
        delivery_id=delivery.id,
        index=index,
        source=delivery.source,
        delivered_by=delivery.delivered_by,
        received_at=delivery.received_at,
        fingerprint="",
        status=AlertStatus.FIRING,
        starts_at=starts_at,
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    try:
        return None if moment is None else moment.astimezone(UTC)
    except OverflowError:
        return None


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else sha256(name)
