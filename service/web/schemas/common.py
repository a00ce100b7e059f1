"""Words that several requests and answers share."""

import re
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from service.domain.redaction import redact

Item = TypeVar("Item")

#: No control character but tab and line feed: PostgreSQL keeps no NUL, and a terminal obeys the rest.
SAFE = r"^[^\x00-\x08\x0b-\x1f\x7f]*$"
#: What is said of a text that is not safe: the pattern would tell nobody anything.
UNSAFE = "It holds a control character such as a carriage return; only tab and line feed may be in it."
MOST_CHARACTERS = 4096
_ID = r"^[A-Za-z0-9_-]+$"

#: What a person says goes into the audit for ever; a secret that was pasted into it does not.
Reason = Annotated[str, StringConstraints(pattern=SAFE, max_length=2000), AfterValidator(redact)]
MustReason = Annotated[str, StringConstraints(pattern=SAFE, min_length=1, max_length=2000), AfterValidator(redact)]
Text = Annotated[str, StringConstraints(pattern=SAFE, max_length=MOST_CHARACTERS)]
Id = Annotated[str, StringConstraints(pattern=_ID, min_length=1, max_length=64)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
NodeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")]
RunbookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=63)]
#: Names of steps are like those of runbooks.
StepId = RunbookName


def _is_written(value: object) -> object:
    if not isinstance(value, str) or not re.match(r"[0-9]{4}-", value):
        raise ValueError("Write it as 2026-11-29T03:00:00Z.")
    return value


def _has_utc(value: datetime) -> datetime:
    try:
        value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("In UTC it lies before the year 1 or after the year 9999.") from error
    return value


#: Pydantic alone would also take 0.5 for half a second after 1970.
Moment = Annotated[AwareDatetime, BeforeValidator(_is_written), AfterValidator(_has_utc)]

RUN_ID = "0198c3a2-7d4e-7c11-9a65-3f1f6f0b2c10"
GATE_ID = "0198c3a2-9b02-7f3a-8d27-51d6f2f4f0aa"
ATTEMPT_ID = "0198c3a2-8a10-7b55-b0f3-0c9d7c2e61d4"
DIGEST = "5f0f4ee0a8b7c9d2f1e3a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
PLAN_DIGEST = "c1a7f1f0e0d94be5a2d3c4b5968778695a4b3c2d1e0f9f8e7d6c5b4a39281706"
TARGET = "connection 57 since 2026-11-29+15:46:54.8413626520 device 0:57 fstype fuse.rclone mountpoint /data"


class Given(BaseModel):
    """A request body; an unknown key is refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Shown(BaseModel):
    """A part of an answer, read from a value of the domain."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Listed(Shown, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(default=None, description="Give it as `cursor` for the next page; null at the end.")
