"""Types of columns that are the same on both databases: UTC times, closed sets of words, JSON, text."""

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import DateTime, Dialect, LargeBinary, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from service.domain.errors import InvalidInput
from service.domain.run import StepOutcome, StepResult, Verdict, WellNow


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC with microseconds: `timestamptz` on PostgreSQL, sortable text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type that the database has for it."""
        return dialect.type_descriptor(String(27) if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuse a time without a zone, which could mean two moments; InvalidInput when UTC has no year for it."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise TypeError(f"the time {value.isoformat()} has no zone")
        try:
            utc = value.astimezone(UTC)
        except OverflowError as error:
            reason = f"The time {value.isoformat()} lies before the year 1 or after the year 9999 in UTC."
            raise InvalidInput(reason, "Give a time between them.") from error
        return time_text(utc) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        return None if value is None else self._read(value)

    def _read(self, value: Any) -> datetime:
        return value.astimezone(UTC) if isinstance(value, datetime) else datetime.fromisoformat(value)


class RecordedTime(UtcTime):
    """A time of the audit; one that was made unreadable becomes one that no event has, so that the chain names it."""

    cache_ok = True

    def _read(self, value: Any) -> datetime:
        try:
            return super()._read(value).astimezone(UTC)
        except (ValueError, TypeError, AttributeError, OverflowError):
            return datetime.min.replace(tzinfo=UTC)


class Word(TypeDecorator[StrEnum]):
    """A member of a closed set, stored as its word."""

    impl = Text
    cache_ok = True

    def __init__(self, members: type[StrEnum]) -> None:
        """Keep the set."""
        super().__init__()
        self.members = members

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Return the word."""
        return None if value is None else self.members(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:
        """Return the member."""
        return None if value is None else self.members(value)


class Plain(TypeDecorator[str]):
    """Text for people; what PostgreSQL cannot hold (a zero byte, half a surrogate pair) is replaced by a sign."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return text that both databases keep byte for byte."""
        return None if value is None else storable(value)


class JsonList(TypeDecorator[tuple[str, ...]]):
    """Words in their order, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str | None:
        """Return JSON in ASCII, which any text survives."""
        return None if value is None else _json(list(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...] | None:
        """Return the words."""
        return None if value is None else tuple(json.loads(value))


class JsonObject(TypeDecorator[Mapping[str, Any]]):
    """Values by name, as JSON with sorted names."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Any] | None, dialect: Dialect) -> str | None:
        """Return JSON in ASCII, the same for the same content."""
        return None if value is None else _json(dict(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> Mapping[str, Any] | None:
        """Return the values."""
        return None if value is None else json.loads(value)


class Packed(TypeDecorator[bytes]):
    """Bytes, compressed."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Compress."""
        return None if value is None else zlib.compress(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """Return what was compressed."""
        return None if value is None else zlib.decompress(value)


class Results(TypeDecorator[tuple[StepResult, ...]]):
    """What became of each step, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[StepResult, ...] | None, dialect: Dialect) -> str | None:
        """Return a list of rows."""
        return None if value is None else _json([[r.step, r.outcome, r.reason, r.verdict, r.well_now] for r in value])

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[StepResult, ...] | None:
        """Return the results."""
        return None if value is None else tuple(_result(*row) for row in json.loads(value))


def _result(step: str, outcome: str | None, reason: str, verdict: str | None, well_now: str | None) -> StepResult:
    return StepResult(
        step,
        None if outcome is None else StepOutcome(outcome),
        reason,
        None if verdict is None else Verdict(verdict),
        None if well_now is None else WellNow(well_now),
    )


def time_text(value: datetime) -> str:
    """Return a time as text of a fixed width, so that the order of the texts is the order of the times."""
    # Four digits of the year and six of the second, whatever they are; strftime takes five times as long.
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def storable(text: str) -> str:
    """Return text without zero bytes and lone surrogates; each is replaced by a sign for it."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\u2400").encode("utf-8", "replace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
