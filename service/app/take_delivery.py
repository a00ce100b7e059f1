"""Take what known senders have sent: read it, and keep it whatever it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.app.know_sender import Sender
from service.app.receive_alerts import Incoming, Receipt, ToKeep, keep, read, refuse
from service.app.service import Service
from service.domain.alert import Parsed
from service.domain.errors import InvalidInput, Unavailable


@dataclass(frozen=True)
class Sent:
    """A body, and the source that has proven to have sent it."""

    sender: Sender
    body: bytes
    #: Names in lower case.
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Taken:
    """What became of a request."""

    receipt: Receipt
    #: What it says; None when it is none of its kind, and `fault` says why.
    parsed: Parsed | None
    fault: InvalidInput | None = None


def take_deliveries(service: Service, some: Sequence[Sent]) -> Sequence[Taken | Unavailable]:
    """Read bodies and record them in one piece; Unavailable for each that is not taken now.

    A body that is none of its kind is recorded as rejected. Raises Unavailable when nothing can be written. Whatever
    else is raised may be about one of them alone; nothing was taken, and each is then to be taken by itself.
    """
    understood = [_read(service, one) for one in some]
    receipts = keep(service, [kept for kept, _ in understood])
    return [
        told if isinstance(told, Unavailable) else _taken(told, said)
        for told, (_, said) in zip(receipts, understood, strict=True)
    ]


def _read(service: Service, sent: Sent) -> tuple[ToKeep, Parsed | InvalidInput]:
    incoming = Incoming(sent.sender.source.name, sent.body, sent.sender.person)
    try:
        parsed = service.receivers.parse(sent.sender.source, sent.body, headers=sent.headers, now=service.clock.now())
    except InvalidInput as fault:
        return refuse(service, incoming, fault.reason), fault
    return read(service, incoming, parsed), parsed


def _taken(receipt: Receipt, said: Parsed | InvalidInput) -> Taken:
    return Taken(receipt, None, said) if isinstance(said, InvalidInput) else Taken(receipt, said)
