"""What people send from the pages."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from service.web.schemas.common import Digest, Given, Reason, RunbookName


class SignInForm(Given):
    """A token that was pasted."""

    token: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)]
    next: Annotated[str, StringConstraints(max_length=2000)] = ""


class AnswerForm(Given):
    """The answer to a gate."""

    answer: Literal["approve", "deny"]
    digest: Digest
    reason: Reason = ""
    #: Ticked by whoever has read what would be acted on.
    seen: Literal["yes", ""] = ""


class OverrideForm(Given):
    """Why a gate is passed without its approval."""

    digest: Digest
    reason: Reason = ""
    #: The name of the node, typed by whoever has read what comes of it; empty before he was asked.
    node: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)] = ""


class WhyForm(Given):
    """Why alerts are paused, or may start runs again."""

    reason: Reason = ""


class ResetForm(WhyForm):
    """Why a breaker is closed again."""

    breaker: RunbookName
