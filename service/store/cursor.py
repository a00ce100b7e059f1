"""Opaque keys of the next page."""

import base64
import json
from datetime import UTC, datetime

from service.domain.errors import InvalidInput
from service.store.columns import time_text

#: Ours are under 200 characters; a longer one is not even read.
_LONGEST = 1000


def encode(kind: str, at: datetime, key: str | int) -> str:
    """Return the cursor that continues a list of this kind after a row."""
    text = json.dumps([kind, time_text(at), key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(kind: str, cursor: str, *, key: type[str] | type[int]) -> tuple[datetime, str | int]:
    """Return time and key of the row that a cursor stands at; InvalidInput when it is none of this list."""
    if len(cursor) > _LONGEST:
        raise _bad()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found, at, value = json.loads(base64.b64decode(padded.encode(), altchars=b"-_", validate=True))
        moment = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise _bad() from error
    too_big = type(value) is int and abs(value) >= 2**63
    if found != kind or type(value) is not key or too_big or "\0" in str(value):
        raise _bad()
    return moment, value


def _bad() -> InvalidInput:
    return InvalidInput("The cursor is not one that this list gave.", "Begin again without a cursor.")
