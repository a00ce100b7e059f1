"""Know who sends a delivery: by the token of its source, or by a signature over its raw bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from service.app.service import Service
from service.app.tokens import NOT_VALID, valid_tokens
from service.domain.errors import ConfigInvalid, Unauthenticated, Unavailable
from service.domain.person import Permission, Token
from service.domain.rule import AlertSource

#: One answer to everybody who is not known: it tells neither which sources there are nor what was wrong.
STRANGER = Unauthenticated(
    "The delivery is from nobody who is known here.",
    "Compare the address with the name of the source in rules.yaml, then its secret or token.",
)

#: More of a name that nobody has given to a source is not logged.
_LONGEST_NAME = 100

log = structlog.get_logger()


@dataclass(frozen=True)
class Sender:
    """A source that has proven to be itself."""

    source: AlertSource
    #: Who counts as requester of what it starts: the person of the token, or `source:NAME`.
    person: str


@dataclass(frozen=True)
class Shown:
    """What a request shows before its body is read."""

    #: The name in its address; whether there is such a source is not known yet.
    source: str
    #: Names in lower case.
    headers: Mapping[str, str]


def know_by_tokens(service: Service, some: Sequence[Shown]) -> Sequence[Sender | None]:
    """Return for each the sender when its source is one that shows a token, and shows it; None when not.

    The record is looked at once for all of them. Nothing of a body is needed for it.
    """
    asked = [(one, _source(service, one.source)) for one in some]
    texts = [_presented(service, one, source) for one, source in asked]
    tokens = valid_tokens(service, {text for text in texts if text is not None})
    return [
        None if source is None or text is None else _of_token(source, tokens.get(text))
        for (_, source), text in zip(asked, texts, strict=True)
    ]


def _presented(service: Service, one: Shown, source: AlertSource | None) -> str | None:
    if source is None or source.token is None:
        return None
    try:
        return service.receivers.token(one.headers)
    except Unauthenticated as error:
        log.info("delivery.stranger", source=source.name, reason=error.reason)
        return None


def _of_token(source: AlertSource, token: Token | None) -> Sender | None:
    if token is None:
        log.info("delivery.stranger", source=source.name, reason=NOT_VALID)
        return None
    if token.name != source.token or not token.owner.may(Permission.DELIVER):
        reason = f"The token {token.name} may not deliver for this source."
        log.info("delivery.stranger", source=source.name, reason=reason)
        return None
    return Sender(source, token.person)


def know_by_signature(service: Service, name: str, body: bytes, *, headers: Mapping[str, str]) -> Sender:
    """Return the sender whose signature the body carries; STRANGER, whatever is wrong.

    Raises Unavailable when it cannot be found out now.
    """
    source = _source(service, name)
    if source is None:
        log.info("delivery.stranger", source=name[:_LONGEST_NAME], reason="There is no source of this name.")
        raise STRANGER
    if source.token is not None:
        raise STRANGER
    try:
        service.receivers.verify(source, body, headers=headers, now=service.clock.now())
    except Unauthenticated as error:
        log.info("delivery.stranger", source=name, reason=error.reason)
        raise STRANGER from error
    return Sender(source, f"source:{name}")


def _source(service: Service, name: str) -> AlertSource | None:
    try:
        return service.rules.current().sources.get(name)
    except ConfigInvalid as error:
        raise Unavailable(
            "The rules of this service cannot be read.", "Its log and `unstick doctor` say why."
        ) from error
