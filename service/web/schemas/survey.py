"""What runs on a node, and who else has it."""

from datetime import datetime
from typing import Self

from pydantic import Field

from service.domain.survey import Kind, Sight, Survey
from service.web.schemas.common import Shown


class OccupantDetail(Shown):
    """One thing that was found."""

    name: str = Field(
        description="`namespace/name` of a pod, id of a job, name of a user, pid of a process; of an owner, a sentence."
    )
    facts: dict[str, str] = Field(description="What else is known of it.")
    apart: str = Field(description="Why it does not count; empty: it counts.")


class PartDetail(Shown):
    """What is known of one kind."""

    kind: Kind
    sight: Sight = Field(description="Nothing is known of what could not be looked at; it is not nothing.")
    why: str = Field(description="Why it was not seen.")
    count: int = Field(description="How many count.")
    apart: int = Field(description="How many do not, such as pods of a DaemonSet.")
    found: list[OccupantDetail] = Field(description="At most 50 of them; those that count come first.")


class SurveyDetail(Shown):
    """What ran on a node at one moment, and who else had it. It changes by itself, and no digest binds it."""

    taken_at: datetime
    words: str = Field(description="All of it on one line.", examples=["0 foreign owners, 3 pods, 1 user"])
    over: list[str] = Field(description="Why a person is asked though a rule had waived the gate; empty: for no limit.")
    parts: list[PartDetail]

    @classmethod
    def of(cls, survey: Survey) -> Self:
        """Return the survey as it is shown."""
        parts = [
            PartDetail(
                kind=kind,
                sight=part.sight,
                why=part.why,
                count=part.count,
                apart=part.apart,
                found=[OccupantDetail.model_validate(one) for one in part.found],
            )
            for kind, part in survey.parts.items()
        ]
        return cls(taken_at=survey.taken_at, words=survey.words, over=list(survey.over), parts=parts)
