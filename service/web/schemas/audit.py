"""The audit and timelines."""

import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field

from service.domain.audit import AuditEvent
from service.web.schemas.common import Shown


class AuditEventDetail(Shown):
    """One fact in its place in the chain."""

    seq: int
    at: datetime
    action: str
    about: str = Field(description="What it was done to, such as `gate/ID`.")
    person: str = Field(description="Who did it; `unstick` where the service acts by itself.")
    on_behalf_of: str
    run_id: str
    node: str
    step: str
    body: dict[str, Any]
    body_sha256: str
    previous_hash: str
    hash: str

    @classmethod
    def of(cls, event: AuditEvent) -> Self:
        """Return the event as it is shown."""
        fact = event.fact
        return cls(
            seq=event.seq,
            at=event.at,
            action=fact.action,
            about=fact.about,
            person=fact.person,
            on_behalf_of=fact.on_behalf_of,
            run_id=fact.run_id,
            node=fact.node,
            step=fact.step,
            body=json.loads(event.body),
            body_sha256=event.body_sha256,
            previous_hash=event.previous_hash,
            hash=event.hash,
        )


class TimelineFormat(StrEnum):
    """How a timeline is written."""

    JSON = "json"
    MARKDOWN = "md"
    CSV = "csv"


class TimelineEntry(Shown):
    """One line of a timeline."""

    at: datetime
    seq: int
    person: str
    on_behalf_of: str
    action: str
    run: str
    node: str
    step: str
    text: str = Field(description="What happened, in one sentence.")
