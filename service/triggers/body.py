"""What every delivery has in common: JSON from outside, moments, labels, and members of which one may be bad."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn

from service.domain.alert import Alert, SetAside
from service.domain.errors import InvalidInput

#: No sender nests deeper than ten; deeper bodies are made to exhaust whoever walks them.
MAX_DEPTH = 40
#: A fingerprint is part of a key of the store.
MAX_FINGERPRINT = 500

Fields = Mapping[str, object]

# What databases cannot hold in a text: halves of surrogate pairs, and the zero character.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?(?:([Zz])|([+-])(\d\d):?(\d\d))", re.ASCII
)


def read_object(body: bytes) -> Fields:
    """Return the JSON object that a body is; InvalidInput tells the place where it is none."""
    value = read_json(body)
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The body is {kind_of(value)}, not a JSON object.", "Let the sender send its own form.")
    return value


def read_json(body: bytes) -> object:
    """Return the JSON value of a body in UTF-8.

    Characters that no database holds become U+FFFD. InvalidInput tells the place of what is no JSON.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The body is not UTF-8 text at byte {error.start}.", "Let the sender send UTF-8."
        ) from error
    return read_json_text(text)


def read_json_text(text: str) -> object:
    """Return the JSON value of a text; errors and cleaning as in `read_json`."""
    try:
        return _cleaned(json.loads(text, parse_constant=_refuse_constant), 0)
    except json.JSONDecodeError as error:
        fault = error.msg.removesuffix(" at")
        place = f"line {error.lineno}, column {error.colno}"
        reason = f"The body is not JSON: {fault[0].lower()}{fault[1:]} in {place}."
        raise InvalidInput(reason, "A template must escape quotes and line ends inside its texts.") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        # Python refuses to read numbers of more than some thousand digits.
        raise InvalidInput("The body is not JSON that can be read: a number is too long.") from error


def kind_of(value: object) -> str:
    """Return in words what a JSON value is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def shown(value: object) -> str:
    """Return a value of the sender as it stands in a sentence: short, and inert."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def shown_at(fields: Fields, name: str) -> str:
    """Return in words what stands under a name, or that nothing does."""
    if name not in fields:
        return "missing"
    value = fields[name]
    return kind_of(value) if value is None or isinstance(value, bool) else shown(value)


def object_at(fields: Fields, name: str) -> Fields:
    """Return the object under a name; an empty one when there is null or nothing, InvalidInput for anything else."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"`{name}` is {kind_of(value)}, not an object.")
    return value


def text_at(fields: Fields, name: str) -> str:
    """Return the text under a name; an empty one when there is null or nothing, InvalidInput for anything else."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"`{name}` is {kind_of(value)}, not a text.")
    return value


def texts_at(fields: Fields, name: str) -> Mapping[str, str]:
    """Return a map of texts, such as labels; an empty one when there is null or nothing, InvalidInput otherwise."""
    found = object_at(fields, name)
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidInput(f"`{name}` has {kind_of(value)} under {shown(key)}, not a text.")
    return {key: str(value) for key, value in found.items()}


def fingerprint_of(value: object, name: str) -> str:
    """Return what tells one fault from another; InvalidInput when it is missing or does not fit a key."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"`{name}` is missing, so that it cannot be told from another fault.")
    if len(value) > MAX_FINGERPRINT:
        raise InvalidInput(f"`{name}` has {len(value)} characters; {MAX_FINGERPRINT} are accepted.")
    return value


def moment_of(value: object, name: str) -> datetime | None:
    """Return a moment of RFC 3339 in UTC, to the microsecond; InvalidInput when it is none.

    None for the zero time of Go, 0001-01-01T00:00:00Z, in whichever offset it is written: it means "not set".
    """
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(f"`{name}` is no moment with an offset: {shown(value)}.")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    if year <= 1:
        return None
    microsecond = int((match[7] or "").ljust(6, "0")[:6])
    try:
        zone = UTC if match[8] else timezone(_offset(match[9], match[10], match[11]))
        return datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"`{name}` is no moment that there is: {shown(value)}.") from error


def web_link(value: object) -> str:
    """Return an address that a page may link to; anything but http and https becomes an empty text."""
    if isinstance(value, str) and re.match(r"https?://", value) and len(value) <= 2000 and value.isprintable():
        return value
    return ""


def members_at(fields: Fields, name: str) -> Sequence[object]:
    """Return the list under a name, empty for null; InvalidInput when there is none."""
    value = fields.get(name, "")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidInput(f"The body has no list `{name}`.", "Let the sender send its own form.")
    return value


def read_members(
    members: Sequence[object], read: Callable[[Fields], Alert]
) -> tuple[tuple[Alert, ...], tuple[SetAside, ...]]:
    """Read each member by itself: what `read` refuses is set aside with its reason, its neighbours stay."""
    alerts, aside = [], []
    for index, member in enumerate(members):
        try:
            alerts.append(read(_as_object(member)))
        except InvalidInput as error:
            aside.append(SetAside(index, error.reason))
    return tuple(alerts), tuple(aside)


def _as_object(member: object) -> Fields:
    if not isinstance(member, Mapping):
        raise InvalidInput(f"It is {kind_of(member)}, not an object.")
    return member


def _offset(sign: str, hours: str, minutes: str) -> timedelta:
    amount = timedelta(hours=int(hours), minutes=int(minutes))
    return -amount if sign == "-" else amount


def _cleaned(value: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise _too_deep()
    match value:
        case str():
            return _UNSTORABLE.sub("\ufffd", value)
        case list():
            return [_cleaned(item, depth + 1) for item in value]
        case dict():
            return {_UNSTORABLE.sub("\ufffd", key): _cleaned(item, depth + 1) for key, item in value.items()}
        case _:
            return value


def _too_deep() -> InvalidInput:
    return InvalidInput(f"The body is nested more than {MAX_DEPTH} deep.", "Let the sender send less.")


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"The body is not JSON: {name} is no number there.", "Let the sender send null.")
