"""Every shape in which CloudWatch's alarms come by SNS becomes the same alert; only ALARM fires."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.errors import InvalidInput
from service.triggers import cloudwatch
from tests.triggers.sns_messages import CONFIRM, NOW, TOPIC, confirmation, message

ARN = "arn:aws:cloudwatch:us-east-1:111122223333:alarm:gpu-vram"
KEY = "00000000-0000-4000-8000-000000000002"
CHANGED = datetime(2026, 3, 1, 9, 0, 0, 123000, tzinfo=UTC)
INSTANCE = "i-0123456789abcdef0"
NAMED = {"alertname": "gpu-vram", "account": "111122223333", "region": "us-east-1"}
DIMENSION = {"value": INSTANCE, "name": "InstanceId"}
METRIC = {"MetricName": "vram_used", "Namespace": "GPU", "Unit": None, "Dimensions": [DIMENSION], "Period": 60}


def stat(identity: str, *dimensions: dict[str, str]) -> dict[str, Any]:
    metric = {"Dimensions": list(dimensions), "MetricName": "vram_used", "Namespace": "GPU"}
    return {"Id": identity, "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}, "ReturnData": False}


def alarm(state: Any = "ALARM", **fields: Any) -> dict[str, Any]:
    return {
        "AlarmName": "gpu-vram",
        "AlarmDescription": None,
        "AWSAccountId": "111122223333",
        "NewStateValue": state,
        "NewStateReason": "crossed",
        "StateChangeTime": "2026-03-01T09:00:00.123+0000",
        "Region": "US East (N. Virginia)",
        "AlarmArn": ARN,
        "OldStateValue": "INSUFFICIENT_DATA",
    } | fields


def event(state: Any = "ALARM", dimensions: Any = None, **fields: Any) -> dict[str, Any]:
    metric = {"dimensions": dimensions or {"InstanceId": INSTANCE}, "name": "vram_used", "namespace": "GPU"}
    query = {"id": "m1", "metricStat": {"metric": metric, "period": 60, "stat": "Maximum"}, "returnData": True}
    detail = {
        "alarmName": "gpu-vram",
        "configuration": {"metrics": [query]},
        "previousState": {"value": "OK", "timestamp": "2026-03-01T08:00:00.000+0000"},
        "state": {"value": state, "reason": "crossed", "timestamp": "2026-03-01T09:00:00.123+0000"},
    }
    root = {"version": "0", "detail-type": "CloudWatch Alarm State Change", "source": "aws.cloudwatch"}
    where = {"account": "111122223333", "time": "2026-03-01T09:00:01Z", "region": "us-east-1", "resources": [ARN]}
    return root | where | {"detail": detail | fields}


COMPOSITE: dict[str, Any] = {"AlarmRule": 'ALARM("a") OR ALARM("b")', "TriggeringChildren": [{"Arn": ARN + "a"}]}
MATH: dict[str, Any] = {
    "Trigger": {"Metrics": [{"Id": "e1", "Expression": "m1/m2", "ReturnData": True}, stat("m1", DIMENSION), stat("m2")]}
}


def parsed(inner: Any) -> Parsed:
    text = inner if isinstance(inner, str) else json.dumps(inner)
    return cloudwatch.parse(json.dumps(message(Message=text)).encode(), {}, now=NOW)


@pytest.mark.parametrize(
    ("inner", "labels", "annotations"),
    [
        (alarm(Trigger=METRIC), {"InstanceId": INSTANCE, "namespace": "GPU", "metric": "vram_used"}, {}),
        (alarm(**MATH), {"InstanceId": INSTANCE}, {}),
        (alarm(**COMPOSITE), {}, {"rule": 'ALARM("a") OR ALARM("b")'}),
        (event(), {"InstanceId": INSTANCE}, {}),
        (event(configuration={"alarmRule": "ALARM(a)"}), {}, {"rule": "ALARM(a)"}),
        (alarm(AlarmDescription="too full", Trigger={}), {}, {"description": "too full"}),
    ],
    ids=["metric", "math", "composite", "event", "composite event", "described"],
)
def test_every_shape_becomes_the_same_alert(
    inner: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]
) -> None:
    alert = Alert(ARN, AlertStatus.FIRING, CHANGED, None, labels | NAMED, {"reason": "crossed"} | annotations)

    assert parsed(inner) == Parsed((alert,), delivery_key=KEY)


@pytest.mark.parametrize("inner", [alarm("OK", Trigger=METRIC), alarm("OK", **COMPOSITE), event("OK")])
def test_ok_resolves_at_its_moment(inner: dict[str, Any]) -> None:
    (alert,) = parsed(inner).alerts

    assert (alert.fingerprint, alert.status) == (ARN, AlertStatus.RESOLVED)
    assert (alert.starts_at, alert.ends_at) == (CHANGED, CHANGED)


def test_an_event_says_since_when_the_alarm_was_on() -> None:
    former = {"value": "ALARM", "timestamp": "2026-03-01T08:30:00.123+0000"}

    (alert,) = parsed(event("OK", previousState=former)).alerts

    assert (alert.starts_at, alert.ends_at) == (CHANGED - timedelta(minutes=30), CHANGED)


@pytest.mark.parametrize(
    "inner",
    [alarm("INSUFFICIENT_DATA", Trigger=METRIC), alarm("INSUFFICIENT_DATA", **COMPOSITE), event("INSUFFICIENT_DATA")],
)
def test_too_little_data_is_neither_on_nor_off(inner: dict[str, Any]) -> None:
    assert parsed(inner) == Parsed(delivery_key=KEY, ignored="The alarm has too little data to be on or off.")


def test_a_dimension_on_which_the_metrics_differ_names_no_node() -> None:
    other = {"value": "i-0fedcba9876543210", "name": "InstanceId"}
    zone = {"value": "z1", "name": "Zone"}
    trigger = {"Metrics": [stat("m1", DIMENSION, zone), stat("m2", other, zone)]}

    (alert,) = parsed(alarm(Trigger=trigger)).alerts

    assert alert.labels == NAMED | {"Zone": "z1"}


def test_a_dimension_does_not_take_the_place_of_the_alarms_own_name() -> None:
    (alert,) = parsed(event(dimensions={"alertname": "other", "account": "other"})).alerts

    assert alert.labels == NAMED


@pytest.mark.parametrize(
    "inner",
    ["plain words", "7", "[]", '"text"', "{", ""],
)
def test_a_message_for_people_is_ignored(inner: str) -> None:
    assert parsed(inner) == Parsed(delivery_key=KEY, ignored="The message is not about an alarm of CloudWatch.")


@pytest.mark.parametrize("inner", [{}, {"detail-type": "EC2 Instance State-change Notification"}, alarm("")])
def test_a_message_about_something_else_is_ignored(inner: dict[str, Any]) -> None:
    assert parsed(inner) == Parsed(delivery_key=KEY, ignored="The message tells no state of an alarm: ''.")


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (alarm(AlarmArn=None), "`AlarmArn` is missing, so that it cannot be told from another fault."),
        (alarm(StateChangeTime=None), "`StateChangeTime` is no moment with an offset: None."),
        (alarm(Trigger="x"), "`Trigger` is a text, not an object."),
        (alarm(Trigger={"Dimensions": [{"name": 1}]}), "`name` is a number, not a text."),
        (alarm(NewStateValue=1), "`NewStateValue` is a number, not a text."),
        (event(state=[]), "`value` is a list, not a text."),
    ],
)
def test_an_alarm_that_cannot_be_understood_is_set_aside(inner: dict[str, Any], reason: str) -> None:
    assert parsed(inner) == Parsed((), (SetAside(0, reason),), delivery_key=KEY)


@pytest.mark.parametrize("content_type", ["text/plain; charset=UTF-8", "application/json", None])
def test_a_confirmation_is_handed_on_whatever_its_content_type_says(content_type: str | None) -> None:
    headers = {"x-amz-sns-message-type": "SubscriptionConfirmation"}
    headers |= {"content-type": content_type} if content_type else {}

    found = cloudwatch.parse(json.dumps(confirmation()).encode(), headers, now=NOW)

    reason = f"SNS asks to confirm a subscription of {TOPIC}."
    assert found == Parsed(delivery_key=KEY, ignored=reason, confirm_url=CONFIRM)


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/meta-data", "https://evil.example/?Action=ConfirmSubscription", ""]
)
def test_a_confirmation_at_a_foreign_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="The address by which the subscription would be confirmed is none of SNS"):
        cloudwatch.parse(json.dumps(confirmation(SubscribeURL=url)).encode(), {}, now=NOW)


def test_the_end_of_a_subscription_offers_no_way_to_subscribe_again() -> None:
    found = cloudwatch.parse(json.dumps(confirmation("UnsubscribeConfirmation")).encode(), {}, now=NOW)

    assert found == Parsed(delivery_key=KEY, ignored=f"The subscription of {TOPIC} was ended.")


def test_an_alarm_that_does_not_come_by_sns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The body is no message of SNS"):
        cloudwatch.parse(json.dumps(event()).encode(), {}, now=NOW)
