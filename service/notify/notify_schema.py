"""The keys of notify.yaml and what each may hold, as pydantic models; what they say together is in `notify_file`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, WithJsonSchema

from service.app.runbook_json_schema import DIALECT, clean
from service.app.runbook_schema import Entry, Line, Name, refuse, shown
from service.app.web_addresses import check_url
from service.domain.errors import ConfigInvalid
from service.domain.notice import NoticeKind, Receiver, ReceiverKind

_MANY_A_MINUTE = 600


def _web_address(value: object) -> str:
    if not isinstance(value, str):
        raise refuse(f"is {shown(value)}", "Write https://HOST/PATH.")
    try:
        check_url(value, what="It")
    except ConfigInvalid as error:
        # The address itself is not repeated: a secret may stand in it.
        raise refuse(f"cannot be used. {error.reason.removesuffix('.')}", error.way_out) from error
    return value


WebAddress = Annotated[str, BeforeValidator(_web_address), WithJsonSchema({"type": "string", "format": "uri"})]


class ChatEntry(Entry):
    """A chat, mail or pager, by apprise."""

    kind: Literal["chat"] = Field(description="How it is reached.")
    url_file: Line = Field(description="A file, beside this one, with the address as apprise has it: a secret.")
    per_minute: int = Field(
        default=Receiver("", ReceiverKind.CHAT).per_minute, ge=1, le=_MANY_A_MINUTE, description="Messages at most."
    )


class WebhookEntry(Entry):
    """A program, by signed JSON (Standard Webhooks)."""

    kind: Literal["webhook"] = Field(description="How it is reached.")
    url: WebAddress | None = Field(default=None, description="Its address, where it is no secret.")
    url_file: Line | None = Field(default=None, description="Or a file with its address.")
    secret_files: Annotated[list[Line], Field(min_length=1, max_length=2)] = Field(
        description="One or two files with a secret each; two while a secret is changed, and both sign."
    )
    per_minute: int = Field(default=_MANY_A_MINUTE, ge=1, le=_MANY_A_MINUTE, description="Messages at most.")


ReceiverEntry = Annotated[ChatEntry | WebhookEntry, Discriminator("kind")]
RECEIVER_ENTRIES: dict[str, type[Entry]] = {"chat": ChatEntry, "webhook": WebhookEntry}


class NoticeEntry(Entry):
    """Who is told what; a key that is left out means all."""

    to: Annotated[list[Name], Field(min_length=1, max_length=20)] = Field(description="Receivers.")
    on: list[Annotated[NoticeKind, Field(strict=False)]] = Field(
        default=[],
        max_length=len(NoticeKind),
        description="Of what: gate, ended, stuck, breaker, pause; an override goes to all.",
    )
    runbooks: list[Name] = Field(default=[], max_length=200, description="Only of these runbooks.")
    pools: list[Line] = Field(default=[], max_length=200, description="Only of nodes in these pools.")
    only_alerts: bool = Field(default=False, description="Only of what an alert has begun.")


class NotifyFile(Entry):
    """Where notices go, and who is told what."""

    base_url: WebAddress | None = Field(default=None, description="Where people reach the service: links begin so.")
    receivers: dict[Name, ReceiverEntry] = Field(default={}, max_length=50, description="By the name in `to`.")
    notices: list[NoticeEntry] = Field(default=[], max_length=200, description="Each that fits counts.")


def notify_json_schema() -> dict[str, object]:
    """Return the JSON Schema of notify.yaml, for editors."""
    schema = clean(NotifyFile.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **schema, "title": "Notices of unstick"}
