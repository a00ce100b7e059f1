"""An event of PagerDuty fires or resolves its incident; every other event is taken and ignored."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.errors import InvalidInput
from service.triggers import pagerduty

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
MADE = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
OCCURRED = datetime(2026, 3, 1, 9, 10, 0, 250000, tzinfo=UTC)
INCIDENT: dict[str, Any] = {
    "id": "PINC001",
    "type": "incident",
    "html_url": "https://acme.example.net/incidents/PINC001",
    "number": 2,
    "status": "triggered",
    "incident_key": "gpu-07/ghost-vram",
    "created_at": "2026-03-01T09:00:00Z",
    "title": "GhostVRAM on gpu-07",
    "service": {"id": "PSVC001", "summary": "gpu"},
    "priority": None,
    "urgency": "high",
    "resolve_reason": None,
}


def body(event_type: str, data: Any = INCIDENT, **fields: Any) -> bytes:
    event = {"id": "01EVENT", "event_type": event_type, "occurred_at": "2026-03-01T09:10:00.250Z", "agent": None}
    return json.dumps({"event": event | {"data": data} | fields}).encode()


def parsed(delivery: bytes, headers: dict[str, str] | None = None) -> Parsed:
    return pagerduty.parse(delivery, headers or {}, now=NOW)


def labels(event_type: str) -> dict[str, str]:
    return {
        "event_type": event_type,
        "title": "GhostVRAM on gpu-07",
        "service": "gpu",
        "service_id": "PSVC001",
        "urgency": "high",
        "incident_key": "gpu-07/ghost-vram",
        "incident_number": "2",
    }


@pytest.mark.parametrize(
    ("event_type", "status", "starts_at", "ends_at"),
    [
        ("incident.triggered", AlertStatus.FIRING, MADE, None),
        ("incident.reopened", AlertStatus.FIRING, OCCURRED, None),
        ("incident.resolved", AlertStatus.RESOLVED, OCCURRED, OCCURRED),
    ],
)
def test_an_incident_fires_when_it_opens_and_resolves_when_it_closes(
    event_type: str, status: AlertStatus, starts_at: datetime, ends_at: datetime | None
) -> None:
    found = parsed(body(event_type))

    link = "https://acme.example.net/incidents/PINC001"
    alert = Alert("PINC001", status, starts_at, ends_at, labels(event_type), {}, link)
    assert found == Parsed((alert,), delivery_key="01EVENT")


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("service.updated", {"id": "PSVC001", "type": "service", "summary": "gpu"}),
        ("incident.acknowledged", INCIDENT),
        ("incident.annotated", {"id": "P2", "type": "incident_note", "content": "x"}),
        ("incident.of_next_year", None),
        ("pagey.ping", {"message": "Hello from your friend Pagey!", "type": "ping"}),
    ],
)
def test_an_event_that_is_no_fault_is_ignored(event_type: str, data: object) -> None:
    ignored = f"An event of the type '{event_type}' is no fault."

    assert parsed(body(event_type, data)) == Parsed(delivery_key="01EVENT", ignored=ignored)


def test_a_repeat_has_the_same_name_though_its_header_is_another() -> None:
    first = parsed(body("incident.triggered"), {"x-webhook-id": "w-1"})
    again = parsed(body("incident.triggered"), {"x-webhook-id": "w-2"})

    assert first == again


def test_an_event_without_an_id_is_named_by_its_header() -> None:
    found = parsed(body("incident.triggered", id=None), {"x-webhook-id": "w-1"})

    assert found.delivery_key == "w-1"


def test_an_event_that_somebody_has_kept_for_a_day_is_ignored() -> None:
    found = parsed(body("incident.triggered", occurred_at="2026-02-28T09:29:59Z"))

    assert found == Parsed(delivery_key="01EVENT", ignored="It tells of 2026-02-28 09:29 UTC, too long ago.")


def test_an_incident_without_a_time_of_its_own_begins_with_the_event() -> None:
    found = parsed(body("incident.triggered", INCIDENT | {"created_at": None}))

    assert found.alerts[0].starts_at == OCCURRED


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "It is null, not an object."),
        (INCIDENT | {"id": None}, "`id` is missing, so that it cannot be told from another fault."),
        (INCIDENT | {"service": "gpu"}, "`service` is a text, not an object."),
        (INCIDENT | {"created_at": "today"}, "`created_at` is no moment with an offset: 'today'."),
    ],
)
def test_an_incident_that_cannot_be_understood_is_set_aside(data: object, reason: str) -> None:
    assert parsed(body("incident.triggered", data)) == Parsed((), (SetAside(0, reason),), delivery_key="01EVENT")


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        (b"{}", "This is no event of PagerDuty's webhooks, version 3."),
        (b'{"messages": []}', "This is no event of PagerDuty's webhooks, version 3."),
        (b'{"event": 1}', "`event` is a number, not an object."),
        (body(""), "This is no event of PagerDuty's webhooks, version 3."),
        (body("incident.triggered", occurred_at="today"), "`occurred_at` is no moment with an offset: 'today'."),
    ],
)
def test_a_body_that_is_no_event_is_refused(delivery: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(delivery)

    assert caught.value.reason == reason
