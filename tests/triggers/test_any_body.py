"""Whatever bytes come, a delivery is read or refused in words, and nothing else happens."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.alert import Alert, Parsed
from service.domain.condition import compile_condition
from service.domain.errors import InvalidInput
from service.triggers import alertmanager, cloudwatch, generic, grafana, pagerduty
from tests.triggers.sns_messages import confirmation, message

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
Parse = Callable[[bytes, Mapping[str, str]], Parsed]
TEXTS = {
    "alerts": "has(body.alerts) ? body.alerts : [body]",
    "fingerprint": "item.fingerprint",
    "status": "item.status",
    "labels": "item.labels",
    "starts_at": "item.startsAt",
    "ends_at": "item.endsAt",
    "link": "item.generatorURL",
}
MAPPING = {word: compile_condition(text, generic.WORDS[word]) for word, text in TEXTS.items()}


def by_mapping(body: bytes, headers: Mapping[str, str]) -> Parsed:
    return generic.parse(body, headers, now=NOW, mapping=MAPPING)


PARSERS = {
    "alertmanager": lambda body, headers: alertmanager.parse(body, headers, now=NOW),
    "grafana": lambda body, headers: grafana.parse(body, headers, now=NOW),
    "pagerduty": lambda body, headers: pagerduty.parse(body, headers, now=NOW),
    "cloudwatch": lambda body, headers: cloudwatch.parse(body, headers, now=NOW),
    "generic": by_mapping,
}
each_parser = pytest.mark.parametrize("parse", [pytest.param(parse, id=name) for name, parse in PARSERS.items()])

# Values that are nested cost some 20 ms each to make, and these tests are played before each commit.
few = settings(max_examples=max(1, settings().max_examples // 4))

# Words, moments and numbers that mean something to one of the parsers, so that more than the first look is played.
WORDS = st.sampled_from(
    ["", "4", "1", "firing", "resolved", "ALARM", "OK", "INSUFFICIENT_DATA", "incident.triggered", "incident.resolved"]
)
MOMENTS = st.sampled_from(
    ["2026-03-01T09:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "2026-13-01T00:00:00Z", "2026-03-01"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS | MOMENTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def keyed(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names))


MEMBER = keyed(["status", "labels", "annotations", "startsAt", "endsAt", "fingerprint", "generatorURL"])
GROUP = st.fixed_dictionaries(
    {"version": st.sampled_from(["4", "1"]), "alerts": st.lists(MEMBER | VALUES, max_size=3)},
    optional={"truncatedAlerts": VALUES, "status": VALUES},
)
EVENT = st.fixed_dictionaries(
    {"event_type": WORDS | st.text(max_size=5), "occurred_at": MOMENTS | VALUES},
    optional={"id": VALUES, "data": keyed(["id", "created_at", "title", "service", "priority", "number"]) | VALUES},
).map(lambda event: {"event": event})
ALARM = keyed(["NewStateValue", "StateChangeTime", "AlarmArn", "AlarmName", "Trigger", "AlarmRule"])
BRIDGE = st.fixed_dictionaries(
    {
        "detail-type": st.just("CloudWatch Alarm State Change"),
        "detail": keyed(["state", "previousState", "configuration"]),
    },
    optional={"resources": VALUES, "account": VALUES, "region": VALUES},
)
SNS = (ALARM | BRIDGE | VALUES).map(lambda inner: message(Message=json.dumps(inner))) | VALUES.map(
    lambda value: confirmation(SubscribeURL=value)
)


def is_storable(alert: Alert) -> bool:
    texts = [alert.fingerprint, alert.link, *alert.labels, *alert.labels.values(), *alert.annotations.values()]
    return all("\0" not in text and text.encode() is not None for text in texts) and alert.starts_at.tzinfo is UTC


def read_or_refused(parse: Parse, body: bytes) -> None:
    try:
        found = parse(body, {"webhook-id": "1", "x-webhook-id": "2"})
    except InvalidInput as error:
        error.reason.encode()
        return
    assert all(is_storable(alert) for alert in found.alerts)
    assert found.alerts or found.set_aside or found.ignored
    assert 0 <= found.omitted < 2**31


@each_parser
@given(body=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(parse: Parse, body: bytes) -> None:
    read_or_refused(parse, body)


@each_parser
@few
@given(value=VALUES | GROUP | EVENT | SNS)
def test_any_json_is_read_or_refused(parse: Parse, value: object) -> None:
    read_or_refused(parse, json.dumps(value).encode())
