"""What keeps every alert from starting anything."""

from datetime import datetime
from typing import Self

from pydantic import ConfigDict, Field

from service.app.pause_alerts import Standing
from service.domain.delivery import Breaker, Pause
from service.web.schemas.common import Given, MustReason, Shown


class PauseDetail(Shown):
    """A person says: no alert starts anything until further notice."""

    by: str
    reason: str
    at: datetime


class BreakerDetail(Shown):
    """What stops every alert once too much has happened."""

    name: str
    latched: bool = Field(description="It holds every alert now.")
    latched_at: datetime | None
    reason: str = Field(description="Why it went off.")
    reset_at: datetime | None = Field(description="When a person last reset it; what it counts began anew then.")
    reset_by: str
    reset_reason: str

    @classmethod
    def of(cls, breaker: Breaker) -> Self:
        """Return the breaker as it is shown."""
        return cls.model_validate(breaker)


class StandingDetail(Shown):
    """Whether alerts may start runs at this moment."""

    paused: bool
    pause: PauseDetail | None
    breakers: list[BreakerDetail]

    @classmethod
    def of(cls, standing: Standing) -> Self:
        """Return the standing as it is shown."""
        return cls(
            paused=standing.pause is not None,
            pause=_shown(standing.pause),
            breakers=[BreakerDetail.of(one) for one in standing.breakers],
        )


class WhyRequest(Given):
    """Why it is done, for whoever looks next."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The rule ghost fires on healthy nodes."}]})

    reason: MustReason


class JudgedAgain(Shown):
    """What an end has set free."""

    judged_again: int = Field(description="Held alerts that are judged again now, if they still fire.")


def _shown(pause: Pause | None) -> PauseDetail | None:
    return None if pause is None else PauseDetail.model_validate(pause)
