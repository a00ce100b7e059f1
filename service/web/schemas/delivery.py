"""Deliveries and alerts."""

from datetime import datetime
from typing import Self

from pydantic import Field

from service.app.take_delivery import Taken
from service.domain.alert import AlertStatus
from service.domain.delivery import AlertVerdict, Delivery, DeliveryState, HeldBy, RecordedAlert
from service.web.schemas.common import Given, Reason, Shown

_SHOWN_BODY = "The beginning of what was sent, secrets taken out; bytes that are no UTF-8 are shown by a sign."


class Delivered(Shown):
    """What the sender of a delivery is told."""

    delivery_id: str = Field(description="`GET /api/v1/deliveries/{delivery_id}` shows what became of it.")
    repeated: bool = Field(description="It was taken before, under this id.")
    alerts: int = Field(description="Alerts that are judged now.")
    set_aside: int = Field(description="Alerts that could not be understood.")
    omitted: int = Field(description="Alerts that the sender says it has left out.")
    ignored: str = Field(description="Why there are no alerts in it, or empty.")

    @classmethod
    def of(cls, taken: Taken) -> Self:
        """Return the receipt as it is sent."""
        parsed, receipt = taken.parsed, taken.receipt
        return cls(
            delivery_id=receipt.delivery_id,
            repeated=receipt.repeated,
            alerts=len(parsed.alerts) if parsed is not None else 0,
            set_aside=len(parsed.set_aside) if parsed is not None else 0,
            omitted=parsed.omitted if parsed is not None else 0,
            ignored=parsed.ignored if parsed is not None else "",
        )


class AlertListed(Shown):
    """One alert, and what was decided of it."""

    id: str
    delivery_id: str
    source: str
    name: str = Field(description="Its label alertname, else its fingerprint.", examples=["GpuGhostVram"])
    status: AlertStatus
    starts_at: datetime
    received_at: datetime
    verdict: AlertVerdict | None = Field(description="null: it is not judged yet.")
    reason: str = Field(description="Why, in one sentence.")
    rule: str
    node: str
    run_id: str = Field(description="The run that it has started or that deals with it, or empty.")
    held_by: HeldBy | None = Field(description="What a held one waits for.")
    wake_at: datetime | None = Field(description="When it is judged (again); null: it is decided.")


class AlertDetail(AlertListed):
    """One alert with all that the monitor said."""

    fingerprint: str
    ends_at: datetime | None
    judged_at: datetime | None
    labels: dict[str, str]
    annotations: dict[str, str]
    link: str

    @classmethod
    def of(cls, alert: RecordedAlert) -> Self:
        """Return the alert as it is shown."""
        return cls.model_validate(alert)


class DeliveryDetail(Shown):
    """One delivery, as it came."""

    id: str
    source: str
    received_at: datetime
    delivered_by: str
    state: DeliveryState
    delivery_key: str | None = Field(description="What the sender calls it, the same when it comes again.")
    ignored: str = Field(description="Why there are no alerts in it, or why it was rejected.")
    omitted: int
    confirm_url: str = Field(description="An address that an operator may open to confirm a subscription of SNS.")
    body: str = Field(description=_SHOWN_BODY)
    body_bytes: int = Field(description="Bytes that were sent.")
    whole: bool = Field(description="Whether `body` is all of it.")

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """Return the delivery as it is shown."""
        return cls(
            id=delivery.id,
            source=delivery.source,
            received_at=delivery.received_at,
            delivered_by=delivery.delivered_by,
            state=delivery.state,
            delivery_key=delivery.delivery_key,
            ignored=delivery.ignored,
            omitted=delivery.omitted,
            confirm_url=delivery.confirm_url,
            body=delivery.body.decode("utf-8", "replace"),
            body_bytes=delivery.body_bytes,
            whole=delivery.whole,
        )


class Replay(Given):
    """Why an alert is played again."""

    reason: Reason = ""
