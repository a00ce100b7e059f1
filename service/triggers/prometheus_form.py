"""The form that Alertmanager and Grafana share: a group with a list of alerts, each with a status of its own."""

from datetime import datetime

from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.errors import InvalidInput
from service.triggers.body import (
    Fields,
    fingerprint_of,
    kind_of,
    members_at,
    moment_of,
    read_members,
    shown,
    texts_at,
    web_link,
)

#: More than this is no count that anybody has left out.
_MOST_OMITTED = 2**31
#: More members than this, in the largest body that is taken, are too small to be alerts; each would become a row.
MAX_MEMBERS = 20_000


def read_group(root: Fields, *, delivery_key: str | None = None) -> Parsed:
    """Return the alerts of a group; InvalidInput for more members than any monitor sends.

    The status of the group is not read: it is `firing` as soon as one member fires
    (https://github.com/prometheus/alertmanager/issues/1051).
    """
    members = members_at(root, "alerts")
    if len(members) > MAX_MEMBERS:
        reason = f"There are {len(members)} alerts in it; {MAX_MEMBERS} are accepted."
        raise InvalidInput(reason, "Bound them where they are grouped, as `max_alerts` does in Alertmanager.")
    alerts, aside = read_members(members, _alert)
    return Parsed(
        alerts,
        aside,
        omitted=_omitted(root.get("truncatedAlerts")),
        delivery_key=delivery_key,
        ignored="" if members else "There are no alerts in it.",
    )


def _alert(member: Fields) -> Alert:
    status = _status(member.get("status"))
    starts_at = moment_of(member.get("startsAt"), "startsAt")
    if starts_at is None:
        raise InvalidInput("`startsAt` is the zero time, so that it cannot be told when it began.")
    return Alert(
        fingerprint_of(member.get("fingerprint"), "fingerprint"),
        status,
        starts_at,
        _ends_at(member) if status is AlertStatus.RESOLVED else None,
        texts_at(member, "labels"),
        texts_at(member, "annotations"),
        web_link(member.get("generatorURL")),
    )


def _status(value: object) -> AlertStatus:
    match value:
        case "firing":
            return AlertStatus.FIRING
        case "resolved":
            return AlertStatus.RESOLVED
        case _:
            raise InvalidInput(f"`status` is neither firing nor resolved: {shown(value)}.")


def _ends_at(member: Fields) -> datetime | None:
    value = member.get("endsAt")
    return None if value is None else moment_of(value, "endsAt")


def _omitted(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_OMITTED:
        raise InvalidInput(f"`truncatedAlerts` is {kind_of(value)} that counts nothing: {shown(value)}.")
    return value
