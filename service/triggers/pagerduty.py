"""What PagerDuty sends by a webhook subscription, version 3: one event in each delivery.

The form: https://github.com/PagerDuty/developer-docs/blob/main/docs/webhooks/01-Overview.md
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.errors import InvalidInput
from service.triggers.body import (
    Fields,
    fingerprint_of,
    moment_of,
    object_at,
    read_members,
    read_object,
    shown,
    text_at,
    web_link,
)

#: PagerDuty gives up after about 20 minutes; what comes later was kept by somebody and sent again.
MAX_AGE = timedelta(days=1)

_MEANINGS = {
    "incident.triggered": AlertStatus.FIRING,
    "incident.reopened": AlertStatus.FIRING,
    "incident.resolved": AlertStatus.RESOLVED,
}


def parse(body: bytes, headers: Mapping[str, str], *, now: datetime) -> Parsed:
    """Return the incident that an event tells of; InvalidInput for a body that is no event of version 3.

    Triggered and reopened fire, resolved resolves, every other event is ignored: an acknowledgement or a change of
    a service is no fault. The delivery is named by the id of the event, which the signature covers and each repeat
    has; `X-Webhook-Id`, which it does not cover, only where an event has none.
    """
    event = object_at(read_object(body), "event")
    event_type = text_at(event, "event_type")
    occurred_at = moment_of(event.get("occurred_at"), "occurred_at") if event_type else None
    if occurred_at is None:
        raise InvalidInput("This is no event of PagerDuty's webhooks, version 3.", "Make a webhook subscription.")
    delivery_key = text_at(event, "id") or headers.get("x-webhook-id") or None
    status = _MEANINGS.get(event_type)
    if status is None:
        return Parsed(delivery_key=delivery_key, ignored=f"An event of the type {shown(event_type)} is no fault.")
    if now - occurred_at > MAX_AGE:
        return Parsed(delivery_key=delivery_key, ignored=f"It tells of {occurred_at:%Y-%m-%d %H:%M} UTC, too long ago.")
    alerts, aside = read_members(
        [event.get("data")], lambda data: _incident(data, status, event_type=event_type, occurred_at=occurred_at)
    )
    return Parsed(alerts, aside, delivery_key=delivery_key)


def _incident(data: Fields, status: AlertStatus, *, event_type: str, occurred_at: datetime) -> Alert:
    made_at = None if data.get("created_at") is None else moment_of(data["created_at"], "created_at")
    # An incident that is opened again keeps the time it was made at, and is another occasion all the same; so its end
    # does not say which occasion is over, and begins when it came: it ends every one of before.
    starts_at = made_at if event_type == "incident.triggered" else None
    return Alert(
        fingerprint_of(data.get("id"), "id"),
        status,
        starts_at or occurred_at,
        occurred_at if status is AlertStatus.RESOLVED else None,
        {name: text for name, text in _labels(data, event_type).items() if text},
        link=web_link(data.get("html_url")),
    )


def _labels(data: Fields, event_type: str) -> Mapping[str, str]:
    service, number = object_at(data, "service"), data.get("number")
    return {
        "event_type": event_type,
        "title": text_at(data, "title"),
        "service": text_at(service, "summary"),
        "service_id": text_at(service, "id"),
        "urgency": text_at(data, "urgency"),
        "priority": text_at(object_at(data, "priority"), "summary"),
        "incident_key": text_at(data, "incident_key"),
        "incident_number": str(number) if isinstance(number, int) and not isinstance(number, bool) else "",
    }
