"""Times as persons type them: how long from now, or a moment."""

import re
from datetime import UTC, datetime, timedelta

from service.domain.errors import InvalidInput

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def parse_span(text: str) -> timedelta:
    """Return the length of time that `30m`, `12h` or `90d` stands for; InvalidInput."""
    match = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if match is None or not int(match[1]):
        raise InvalidInput(f"{text!r} is no length of time.", "Write 30m, 12h or 90d.")
    return int(match[1]) * _UNITS[match[2]]


def parse_ago(text: str, *, now: datetime) -> datetime:
    """Return the moment that lies `30m`, `12h` or `90d` back, or an ISO 8601 time, in UTC; InvalidInput."""
    if re.fullmatch(r"[0-9]{1,5}[mhd]", text):
        return now - parse_span(text)
    return parse_moment(text, now=now)


def parse_moment(text: str, *, now: datetime) -> datetime:
    """Return the moment that `30m`, `12h`, `90d` or an ISO 8601 time stands for, in UTC; InvalidInput."""
    match = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if match:
        return now + int(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no time.", "Write 30m, 12h, 90d or 2030-01-31T18:00:00+00:00.") from error
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r} does not say in which time zone.", "Add Z for UTC, or an offset such as +02:00.")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        way_out = "Write a time that lies between them."
        raise InvalidInput(f"{text!r} lies before the year 1 or after the year 9999 in UTC.", way_out) from error
