"""What CloudWatch sends by Amazon SNS: an alarm's own message, or the event that EventBridge makes of it.

The forms: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html and
https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.errors import InvalidInput
from service.triggers.body import Fields, fingerprint_of, moment_of, object_at, read_json_text, shown, text_at
from service.triggers.sns import SnsEnvelope, SnsType, is_confirm_url, read_envelope

_STATUSES = {"ALARM": AlertStatus.FIRING, "OK": AlertStatus.RESOLVED}


def parse(body: bytes, headers: Mapping[str, str], *, now: datetime) -> Parsed:
    """Return the alarm in a message of SNS; InvalidInput for a body that is none, or asks for a foreign confirmation.

    ALARM fires, OK resolves; INSUFFICIENT_DATA is neither and is ignored. CloudWatch does not say with OK since when
    the alarm was on: a resolved alert begins and ends at the moment of OK, unless EventBridge names the former state.
    Nothing is fetched: a subscription's address is only handed on, for an operator to confirm.
    """
    envelope = read_envelope(body, headers)
    match envelope.type:
        case SnsType.NOTIFICATION:
            return _notification(envelope)
        case SnsType.SUBSCRIPTION:
            if not is_confirm_url(envelope.subscribe_url):
                reason = "The address by which the subscription would be confirmed is none of SNS."
                raise InvalidInput(reason, "Do not open it.")
            reason = f"SNS asks to confirm a subscription of {envelope.topic}."
            return Parsed(delivery_key=envelope.message_id, ignored=reason, confirm_url=envelope.subscribe_url)
        case SnsType.UNSUBSCRIPTION:
            return Parsed(delivery_key=envelope.message_id, ignored=f"The subscription of {envelope.topic} was ended.")


def _notification(envelope: SnsEnvelope) -> Parsed:
    key = envelope.message_id
    try:
        message = read_json_text(envelope.message)
    except InvalidInput:
        message = None
    if not isinstance(message, Mapping):
        return Parsed(delivery_key=key, ignored="The message is not about an alarm of CloudWatch.")
    try:
        state, read = _form(message)
        if state == "INSUFFICIENT_DATA":
            return Parsed(delivery_key=key, ignored="The alarm has too little data to be on or off.")
        status = _STATUSES.get(state)
        if status is None:
            return Parsed(delivery_key=key, ignored=f"The message tells no state of an alarm: {shown(state)}.")
        alert = _from_event(message, status) if read == "event" else _from_alarm(message, status)
    except InvalidInput as error:
        return Parsed(set_aside=(SetAside(0, error.reason),), delivery_key=key)
    return Parsed((alert,), delivery_key=key)


def _form(message: Fields) -> tuple[str, str]:
    """Return the state that a message tells, empty for none, and which of the two forms it has."""
    if message.get("detail-type") == "CloudWatch Alarm State Change":
        return text_at(object_at(object_at(message, "detail"), "state"), "value"), "event"
    return text_at(message, "NewStateValue"), "alarm"


def _from_alarm(message: Fields, status: AlertStatus) -> Alert:
    trigger, arn = object_at(message, "Trigger"), text_at(message, "AlarmArn")
    changed_at = _moment(message.get("StateChangeTime"), "StateChangeTime")
    named = {
        "alertname": text_at(message, "AlarmName"),
        "account": text_at(message, "AWSAccountId"),
        "region": _region(arn),
        "namespace": text_at(trigger, "Namespace"),
        "metric": text_at(trigger, "MetricName"),
    }
    annotations = {
        "description": text_at(message, "AlarmDescription"),
        "reason": text_at(message, "NewStateReason"),
        "rule": text_at(message, "AlarmRule"),
    }
    return _alert(
        arn, status, changed_at, since=None, labels=_agreed(_listed(trigger)) | _filled(named), words=annotations
    )


def _from_event(message: Fields, status: AlertStatus) -> Alert:
    detail, resources = object_at(message, "detail"), message.get("resources")
    state, former = object_at(detail, "state"), object_at(detail, "previousState")
    changed_at = _moment(state.get("timestamp") or message.get("time"), "timestamp")
    was_on = text_at(former, "value") == "ALARM" and former.get("timestamp") is not None
    configuration = object_at(detail, "configuration")
    named = {
        "alertname": text_at(detail, "alarmName"),
        "account": text_at(message, "account"),
        "region": text_at(message, "region"),
    }
    annotations = {
        "description": text_at(configuration, "description"),
        "reason": text_at(state, "reason"),
        "rule": text_at(configuration, "alarmRule"),
    }
    return _alert(
        resources[0] if isinstance(resources, list) and resources else None,
        status,
        changed_at,
        since=_moment(former["timestamp"], "timestamp") if was_on else None,
        labels=_agreed(_nested(configuration)) | _filled(named),
        words=annotations,
    )


def _alert(
    arn: object,
    status: AlertStatus,
    changed_at: datetime,
    *,
    since: datetime | None,
    labels: Mapping[str, str],
    words: Mapping[str, str],
) -> Alert:
    resolved = status is AlertStatus.RESOLVED
    return Alert(
        fingerprint_of(arn, "AlarmArn"),
        status,
        since or changed_at if resolved else changed_at,
        changed_at if resolved else None,
        labels,
        _filled(words),
    )


def _listed(trigger: Fields) -> Iterator[tuple[str, str]]:
    """Yield the dimensions of an alarm's message: name and value, of one metric or of all in an expression."""
    metrics = [object_at(object_at(query, "MetricStat"), "Metric") for query in _objects(trigger, "Metrics")]
    for metric in [trigger, *metrics]:
        for dimension in _objects(metric, "Dimensions"):
            yield text_at(dimension, "name"), text_at(dimension, "value")


def _nested(configuration: Fields) -> Iterator[tuple[str, str]]:
    """Yield the dimensions of an event: an object for each metric."""
    for query in _objects(configuration, "metrics"):
        dimensions = object_at(object_at(object_at(query, "metricStat"), "metric"), "dimensions")
        yield from ((name, text_at(dimensions, name)) for name in dimensions)


def _agreed(dimensions: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Return the dimensions on which all metrics agree; one that names two nodes names none."""
    values: dict[str, set[str]] = {}
    for name, value in dimensions:
        values.setdefault(name, set()).add(value)
    return _filled({name: next(iter(found)) for name, found in values.items() if len(found) == 1 and name})


def _objects(fields: Fields, name: str) -> list[Fields]:
    value = fields.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _filled(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


def _region(arn: str) -> str:
    """Return the region of an ARN; the message itself has only its name for people, such as US East (Ohio)."""
    words = arn.split(":")
    return words[3] if len(words) > 3 else ""


def _moment(value: object, name: str) -> datetime:
    moment = moment_of(value, name)
    if moment is None:
        raise InvalidInput(f"`{name}` is the zero time, so that it cannot be told when it began.")
    return moment
