"""Alertmanager's groups are read member by member; what is odd about times and labels stays what it is."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.errors import InvalidInput
from service.triggers import alertmanager

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def member(**fields: Any) -> dict[str, Any]:
    usual = {
        "status": "firing",
        "labels": {"alertname": "GhostVRAM", "node": "gpu-07"},
        "annotations": {},
        "startsAt": "2026-03-01T09:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prom.example.net/g",
        "fingerprint": "aa07",
    }
    return usual | fields


def group(*members: Any, **fields: Any) -> bytes:
    root = {"version": "4", "groupKey": "{}", "truncatedAlerts": 0, "status": "firing", "receiver": "unstick"}
    return json.dumps(root | {"alerts": list(members)} | fields).encode()


def parsed(body: bytes) -> Parsed:
    return alertmanager.parse(body, {}, now=NOW)


def only(body: bytes) -> Alert:
    found = parsed(body)
    assert (len(found.alerts), found.set_aside) == (1, ())
    return found.alerts[0]


def reason_aside(body: bytes) -> str:
    found = parsed(body)
    assert (found.alerts, len(found.set_aside)) == ((), 1)
    return found.set_aside[0].reason


def test_each_alert_has_its_own_status_whatever_the_group_says() -> None:
    ended = member(status="resolved", labels={"node": "gpu-08"}, endsAt="2026-03-01T09:20:00Z", fingerprint="aa08")

    found = parsed(group(member(), ended, status="firing"))

    link = "http://prom.example.net/g"
    first = Alert("aa07", AlertStatus.FIRING, NINE, None, {"alertname": "GhostVRAM", "node": "gpu-07"}, {}, link)
    ended_at = datetime(2026, 3, 1, 9, 20, tzinfo=UTC)
    second = Alert("aa08", AlertStatus.RESOLVED, NINE, ended_at, {"node": "gpu-08"}, {}, link)
    assert found == Parsed((first, second))


def test_a_group_that_is_wholly_resolved_has_nothing_that_fires() -> None:
    found = parsed(group(member(status="resolved"), status="resolved"))

    assert [alert.status for alert in found.alerts] == [AlertStatus.RESOLVED]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-03-01T09:00:00.123456789-03:30", datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)),
        ("2026-03-01T09:00:00.1Z", datetime(2026, 3, 1, 9, 0, 0, 100000, tzinfo=UTC)),
        ("2026-03-01T09:00:00+05:45", datetime(2026, 3, 1, 3, 15, tzinfo=UTC)),
        ("2026-03-01t09:00:00z", NINE),
    ],
)
def test_moments_come_out_in_utc(written: str, meant: datetime) -> None:
    assert only(group(member(startsAt=written))).starts_at == meant


@pytest.mark.parametrize(
    "zero",
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00", "0000-12-31T20:30:00-03:30", "0001-01-01T00:00:00-12:00"],
)
def test_the_zero_time_is_no_end(zero: str) -> None:
    assert only(group(member(status="resolved", endsAt=zero))).ends_at is None


def test_an_alert_that_fires_has_no_end_though_one_is_foreseen() -> None:
    assert only(group(member(endsAt="2026-03-01T09:04:00Z"))).ends_at is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"startsAt": "0001-01-01T00:00:00Z"}, "`startsAt` is the zero time, so that it cannot be told when it began."),
        ({"startsAt": "2026-03-01T09:00:00"}, "`startsAt` is no moment with an offset: '2026-03-01T09:00:00'."),
        ({"startsAt": None}, "`startsAt` is no moment with an offset: None."),
        ({"startsAt": 1772355600}, "`startsAt` is no moment with an offset: 1772355600."),
        ({"startsAt": "2026-02-30T09:00:00Z"}, "`startsAt` is no moment that there is: '2026-02-30T09:00:00Z'."),
        (
            {"startsAt": "9999-12-31T23:59:59-01:00"},
            "`startsAt` is no moment that there is: '9999-12-31T23:59:59-01:00'.",
        ),
        ({"status": "pending"}, "`status` is neither firing nor resolved: 'pending'."),
        ({"fingerprint": ""}, "`fingerprint` is missing, so that it cannot be told from another fault."),
        ({"fingerprint": "a" * 501}, "`fingerprint` has 501 characters; 500 are accepted."),
        ({"labels": {"gpu": 3}}, "`labels` has a number under 'gpu', not a text."),
        ({"labels": ["gpu"]}, "`labels` is a list, not an object."),
        ({"status": "resolved", "endsAt": "soon"}, "`endsAt` is no moment with an offset: 'soon'."),
    ],
)
def test_a_member_that_cannot_be_understood_is_set_aside(fields: dict[str, Any], reason: str) -> None:
    assert reason_aside(group(member(**fields))) == reason


def test_a_bad_member_leaves_its_neighbours_where_they_are() -> None:
    found = parsed(group(member(), None, member(fingerprint="aa09")))

    assert [alert.fingerprint for alert in found.alerts] == ["aa07", "aa09"]
    assert found.set_aside == (SetAside(1, "It is null, not an object."),)


def test_labels_stay_as_they_are_named() -> None:
    bare = member(labels={"alertname": "GhostVRAM"}, fingerprint="1")
    port = member(labels={"instance": "192.0.2.17:9400"}, fingerprint="2")
    named = member(labels={"host.name": "gpu-19", "équipe🙂": "réseau"}, fingerprint="3")

    found = parsed(group(bare, port, named))

    assert [alert.labels for alert in found.alerts] == [
        {"alertname": "GhostVRAM"},
        {"instance": "192.0.2.17:9400"},
        {"host.name": "gpu-19", "équipe🙂": "réseau"},
    ]


def test_what_no_database_holds_becomes_a_mark() -> None:
    body = group(member()).replace(b"gpu-07", b"gpu\\u0000-\\ud800")

    assert only(body).labels["node"] == "gpu\ufffd-\ufffd"


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://a\nb", "", None, 7, "https://" + "a" * 2000])
def test_a_link_is_an_address_of_the_web_or_none(link: object) -> None:
    assert only(group(member(generatorURL=link))).link == ""


def test_alerts_that_were_left_out_are_counted() -> None:
    assert parsed(group(member(), truncatedAlerts=812)).omitted == 812


def test_fields_of_a_later_version_are_no_matter() -> None:
    body = group(member(new={"a": [1]}), notification_reason="x", routeLabels={"a": "b"})

    assert only(body) == only(group(member()))


def test_labels_and_annotations_may_be_null() -> None:
    alert = only(group(member(labels=None, annotations=None)))

    assert (alert.labels, alert.annotations) == ({}, {})


@pytest.mark.parametrize("alerts", [[], None])
def test_an_empty_group_is_ignored(alerts: object) -> None:
    assert parsed(group(alerts=alerts)) == Parsed(ignored="There are no alerts in it.")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (group(version="1"), "This is not version 4 of Alertmanager's webhook: `version` is '1'."),
        (group(version=4), "This is not version 4 of Alertmanager's webhook: `version` is 4."),
        (b"{}", "This is not version 4 of Alertmanager's webhook: `version` is missing."),
        (group(version=None), "This is not version 4 of Alertmanager's webhook: `version` is null."),
        (b'{"version": "4"}', "The body has no list `alerts`."),
        (group(alerts={}), "The body has no list `alerts`."),
        (group(truncatedAlerts=-1), "`truncatedAlerts` is a number that counts nothing: -1."),
        (group(truncatedAlerts=True), "`truncatedAlerts` is true or false that counts nothing: True."),
        (b"[]", "The body is a list, not a JSON object."),
        (b"", "The body is not JSON: expecting value in line 1, column 1."),
        (b'{\n"version" "4"}', "The body is not JSON: expecting ':' delimiter in line 2, column 11."),
        (b"\xff{}", "The body is not UTF-8 text at byte 0."),
        (b'{"a": NaN}', "The body is not JSON: NaN is no number there."),
        (b'{"a": ' + b"1" * 5000 + b"}", "The body is not JSON that can be read: a number is too long."),
        (b'{"a":' * 50 + b"1" + b"}" * 50, "The body is nested more than 40 deep."),
        (b"[" * 100_000, "The body is nested more than 40 deep."),
    ],
)
def test_a_body_that_is_not_of_its_kind_is_refused_whole(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(body)

    assert caught.value.reason == reason


def test_a_mark_of_byte_order_is_no_fault() -> None:
    assert only(b"\xef\xbb\xbf" + group(member())).fingerprint == "aa07"


def test_a_body_of_nothing_but_tiny_members_is_refused_as_a_whole() -> None:
    with pytest.raises(InvalidInput, match="There are 20001 alerts in it; 20000 are accepted"):
        parsed(group(*[0] * 20_001))
