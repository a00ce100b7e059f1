"""Whatever bytes come to a parser, at a large number of examples; tests/triggers/test_any_body.py has the small one."""

import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proof.counts import count
from tests.triggers.test_any_body import EVENT, GROUP, PARSERS, SNS, VALUES, Parse, read_or_refused

pytestmark = [pytest.mark.proof, pytest.mark.parametrize("name", PARSERS)]

BYTES, JSON = count("parser_bytes", 20_000), count("parser_json", 2_000)
#: Bodies that are almost those of a sender: a well-formed one with a part of it written over.
WELL = {
    "alertmanager": b'{"version":"4","alerts":[{"status":"firing","labels":{"a":"b"},"startsAt":"2026-03-01T09:00:00Z",'
    b'"endsAt":"0001-01-01T00:00:00Z","fingerprint":"00f1"}],"truncatedAlerts":0}',
    "grafana": b'{"version":"1","orgId":1,"alerts":[{"status":"firing","labels":{"a":"b"},"annotations":{},'
    b'"startsAt":"2026-03-01T09:00:00Z","fingerprint":"00f1","values":{"A":1}}],"truncatedAlerts":0}',
    "pagerduty": b'{"event":{"id":"1","event_type":"incident.triggered","occurred_at":"2026-03-01T09:00:00Z",'
    b'"data":{"id":"P1","type":"incident","created_at":"2026-03-01T09:00:00Z","title":"t"}}}',
    "cloudwatch": b'{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu-central-1:123456789012:t",'
    b'"Message":"{\\"AlarmName\\":\\"a\\",\\"NewStateValue\\":\\"ALARM\\"}","Timestamp":"2026-03-01T09:00:00.000Z"}',
    "generic": b'{"alerts":[{"fingerprint":"1","status":"firing","labels":{"a":1},"startsAt":1772355600}]}',
}
PROOF = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def bent(name: str) -> st.SearchStrategy[bytes]:
    """Return bodies of a sender in which some bytes are others."""
    well = WELL[name]
    cut = st.tuples(st.integers(0, len(well)), st.integers(0, 6), st.binary(max_size=6))
    return st.lists(cut, min_size=1, max_size=4).map(lambda cuts: _bend(well, cuts))


def _bend(body: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, instead in cuts:
        body = body[:at] + instead + body[at + length :]
    return body


def played(parse: Parse, bodies: st.SearchStrategy[bytes], most: int) -> int:
    """Play that many bodies and return how many there were."""
    seen = 0

    @settings(max_examples=most, database=None, **PROOF)  # type: ignore[arg-type]
    @given(bodies)
    def play(body: bytes) -> None:
        nonlocal seen
        seen += 1
        read_or_refused(parse, body)

    play()
    return seen


def test_bytes_of_any_kind_are_read_or_refused(name: str, record_property: Callable[[str, object], None]) -> None:
    seen = played(PARSERS[name], st.binary(max_size=300) | bent(name), BYTES)

    record_property("proof", f"any bytes and bent bodies are read or refused in words: {name}")
    record_property("count", seen)


def test_json_of_any_kind_is_read_or_refused(name: str, record_property: Callable[[str, object], None]) -> None:
    values = VALUES | GROUP | EVENT | SNS
    seen = played(PARSERS[name], values.map(lambda value: json.dumps(value).encode()), JSON)

    record_property("proof", f"any JSON is read or refused in words: {name}")
    record_property("count", seen)
