"""Take what a known sender has sent: read it, and keep it whatever it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.app.know_sender import Sender
from service.app.receive_alerts import Incoming, Receipt, receive, reject
from service.app.service import Service
from service.domain.alert import Parsed
from service.domain.errors import InvalidInput


@dataclass(frozen=True)
class Taken:
    """What became of a request."""

    receipt: Receipt
    #: What it says; None when it is none of its kind, and `fault` says why.
    parsed: Parsed | None
    fault: InvalidInput | None = None


def take_delivery(service: Service, sender: Sender, body: bytes, *, headers: Mapping[str, str]) -> Taken:
    """Read a body and record it; Unavailable when that cannot be done now, and then nothing of it was taken.

    A body that is none of its kind is recorded as rejected. Names of headers are in lower case.
    """
    incoming = Incoming(sender.source.name, body, sender.person)
    try:
        parsed = service.receivers.parse(sender.source, body, headers=headers, now=service.clock.now())
    except InvalidInput as fault:
        return Taken(reject(service, incoming, fault.reason), None, fault)
    return Taken(receive(service, incoming, parsed), parsed)
