"""Any JSON, read by the expressions in CEL that stand with the source in the rules' file."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

from service.domain.alert import Alert, AlertStatus, Parsed, SetAside
from service.domain.condition import Condition
from service.domain.errors import InvalidInput
from service.triggers.body import Fields, fingerprint_of, kind_of, moment_of, object_at, read_json, shown, web_link

#: Each expression costs about a millisecond, and each member has some of them.
MAX_MEMBERS = 1000
#: The names that each expression may use.
WORDS: Mapping[str, frozenset[str]] = {
    "alerts": frozenset({"body"}),
    "fingerprint": frozenset({"item"}),
    "status": frozenset({"item"}),
    "labels": frozenset({"item"}),
    "starts_at": frozenset({"item"}),
    "ends_at": frozenset({"item"}),
    "annotations": frozenset({"item"}),
    "link": frozenset({"item"}),
}

# Seconds of such a number would be of the year 5138: it counts milliseconds, as Datadog does.
_FIRST_MILLISECONDS = 100_000_000_000


def parse(body: bytes, headers: Mapping[str, str], *, now: datetime, mapping: Mapping[str, Condition]) -> Parsed:
    """Return the alerts that the expressions find; InvalidInput for a body that is no JSON, or has no list of alerts.

    Of `mapping` fingerprint, status and labels have to be there. `alerts` gives a list (default: the body itself, or
    the body as the only one), `status` gives firing, resolved, or anything else for what is neither. Without
    `starts_at` an alert begins when it is received. The delivery is named by its webhook-id, which is signed.
    """
    key = headers.get("webhook-id") or None
    items = _items(read_json(body), mapping.get("alerts"))
    alerts: list[Alert] = []
    aside: list[SetAside] = []
    passed = 0
    for index, item in enumerate(items):
        try:
            alert = _alert(item, mapping, now=now)
        except InvalidInput as error:
            aside.append(SetAside(index, error.reason))
            continue
        if alert is None:
            passed += 1
            aside.append(SetAside(index, "It is neither firing nor resolved."))
        else:
            alerts.append(alert)
    if passed == len(items):
        return Parsed(delivery_key=key, ignored="Nothing in it is firing or resolved." if items else "It is empty.")
    return Parsed(tuple(alerts), tuple(aside), delivery_key=key)


def _items(body: object, alerts: Condition | None) -> list[object]:
    found = alerts.value({"body": body}) if alerts is not None else body if isinstance(body, list) else [body]
    if not isinstance(found, list):
        raise InvalidInput(f"`alerts` gives {kind_of(found)}, not a list.", "Write a list, such as [body].")
    if len(found) > MAX_MEMBERS:
        raise InvalidInput(f"There are {len(found)} alerts in it; {MAX_MEMBERS} are accepted.", "Let it send fewer.")
    return found


def _alert(item: object, mapping: Mapping[str, Condition], *, now: datetime) -> Alert | None:
    """Return what one item says; None when it is neither firing nor resolved."""
    facts = {"item": item}
    try:
        status = AlertStatus(str(mapping["status"].value(facts)))
    except ValueError:
        return None
    given = {word: found.value(facts) for word, found in mapping.items() if word not in ("status", "alerts")}
    return Alert(
        fingerprint_of(given["fingerprint"], "fingerprint"),
        status,
        _moment(given.get("starts_at"), "starts_at") or now,
        _moment(given.get("ends_at"), "ends_at") if status is AlertStatus.RESOLVED else None,
        _texts(given, "labels"),
        _texts(given, "annotations"),
        web_link(given.get("link")),
    )


def _moment(value: object, name: str) -> datetime | None:
    """Return a moment given as RFC 3339, as seconds or as milliseconds since 1970; None for null."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else moment_of(value, name)
    try:
        seconds = value / 1000 if value >= _FIRST_MILLISECONDS else value
        if isfinite(seconds) and seconds > 0:
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(f"`{name}` is no moment: {shown(value)}.")


def _texts(given: Fields, name: str) -> Mapping[str, str]:
    return {key: text for key, value in object_at(given, name).items() if (text := _text(value, name, key=key))}


def _text(value: object, name: str, *, key: str) -> str:
    """Return a plain value as text; null as an empty one."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise InvalidInput(f"`{name}` has {kind_of(value)} under {shown(key)}, not a text.")
