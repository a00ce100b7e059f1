"""A refusal or a failure (RFC 9457)."""

from pydantic import ConfigDict, Field

from service.web.schemas.common import RUN_ID, Shown


class Fault(Shown):
    """One thing that is wrong with a request."""

    where: str = Field(description="The place, such as `body.nodes.0`.", examples=["body.nodes.0"])
    reason: str = Field(description="What is wrong there.", examples=["Field required"])


class Problem(Shown):
    """Why a request was not done, and what to do next."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:unstick:problem:conflict",
                    "title": "The state of things does not allow it now.",
                    "status": 409,
                    "detail": "The gate expired at 2026-11-29 17:00:00 UTC; nothing was run.",
                    "way_out": f"Ask again: unstick retry {RUN_ID}",
                    "code": "conflict",
                }
            ]
        }
    )

    type: str = Field(description="Names the kind of problem.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened here.")
    way_out: str = Field(default="", description="What to do next.")
    code: str = Field(description="The kind of problem, for programs.")
    request_id: str | None = Field(default=None, description="Find it in the service's log.")
    errors: list[Fault] = Field(default_factory=list, description="Every fault of a request that is not understood.")
