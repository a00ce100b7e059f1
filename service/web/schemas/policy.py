"""What decides whether somebody may do something, as JSON."""

from pydantic import BaseModel, Field

from service.domain.person import Permission
from service.domain.rights import About, Answer, By
from service.web.schemas.common import Given, NodeName, RunbookName


class ExplainQuery(Given):
    """What you want to do."""

    what: Permission = Field(description="`decide` answers gates that ask to confirm, `approve` for a second person.")
    runbook: RunbookName | None = Field(
        default=None, description="With this runbook; without: with every one.", examples=["abort-stuck-fuse"]
    )
    node: NodeName | None = Field(default=None, description="On this node; without: on every one.", examples=["gpu-01"])


class LookDetail(BaseModel):
    """What one of them says."""

    by: By
    allows: bool
    why: str
    way_out: str


class Explained(BaseModel):
    """Whether you may, and everything that was asked; the first that refuses decides."""

    who: str
    what: Permission
    runbook: str | None
    node: str | None
    pools: list[str] | None = Field(description="Of the node; null for every node.")
    allowed: bool
    why: str
    way_out: str
    looks: list[LookDetail]

    @classmethod
    def of(cls, who: str, what: Permission, *, about: About, answer: Answer) -> "Explained":
        """Return an answer in the words of the API."""
        looks = [LookDetail(by=one.by, allows=one.allows, why=one.why, way_out=one.way_out) for one in answer.looks]
        return cls(
            who=who,
            what=what,
            runbook=about.runbook,
            node=about.node,
            pools=None if about.pools is None else sorted(about.pools),
            allowed=answer.allowed,
            why=answer.why,
            way_out=answer.way_out,
            looks=looks,
        )
