"""What people were told."""

from datetime import datetime
from typing import Self

from pydantic import Field

from service.domain.notice import NoticeKind, TellingState, Told
from service.domain.notice_words import message
from service.web.schemas.common import RUN_ID, Shown
from service.web.schemas.query import Filter, Paged


class NoticesQuery(Paged):
    """Which notices."""

    state: TellingState | None = None
    receiver: Filter = Field(default=None, examples=["oncall"])
    kind: NoticeKind | None = None


class NoticeListed(Shown):
    """One notice for one receiver, and how far it has come."""

    id: str = Field(description="The same at every try; a webhook carries it as `webhook-id`.")
    notice_id: str
    receiver: str = Field(examples=["oncall"])
    kind: NoticeKind
    state: TellingState
    at: datetime = Field(description="When it happened.")
    title: str = Field(examples=["Gate open: abort-stuck-fuse, step abort-dead, on gpu-01"])
    link: str
    run_id: str = Field(description="Empty: it is about no run.", examples=[RUN_ID])
    runbook: str
    nodes: list[str]
    attempts: int = Field(description="How often it was tried.")
    next_at: datetime | None = Field(description="When it is tried (again); null: it has ended.")
    ended_at: datetime | None = Field(description="When it was sent, given up or left out.")
    reason: str = Field(description="Why the last try failed, or why it was left out.")

    @classmethod
    def of(cls, told: Told, *, base_url: str) -> Self:
        """Return a telling as it is shown."""
        telling, notice = told.telling, told.notice
        words = message(notice, base_url=base_url, now=telling.at)
        return cls(
            id=telling.id,
            notice_id=notice.id,
            receiver=telling.receiver,
            kind=notice.kind,
            state=telling.state,
            at=telling.at,
            title=words.title,
            link=words.link,
            run_id=notice.run_id,
            runbook=notice.runbook,
            nodes=list(notice.nodes),
            attempts=telling.attempts,
            next_at=telling.next_at,
            ended_at=telling.ended_at,
            reason=telling.reason,
        )
