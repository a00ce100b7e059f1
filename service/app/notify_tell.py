"""Tells receivers what is pending for them. A stop between the sending and its record sends again: at least once."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.app.notice_ports import Outgoing
from service.app.notify_facts import open_gates
from service.app.ports import Reader
from service.app.service import Service
from service.domain.errors import ConfigInvalid, NotTold
from service.domain.notice import Notice, NoticeKind, NotifyConfig, Receiver, Telling, Told, together
from service.domain.notice_words import bundle, message

#: So much that is due is looked at, at once.
_DUE = 200


@dataclass(frozen=True)
class Parcel:
    """One message, and the tellings that end with it."""

    receiver: Receiver
    outgoing: Outgoing
    tellings: tuple[Telling, ...]


def parcels(service: Service, receiver: Receiver, *, base_url: str, most: int) -> tuple[Parcel, ...]:
    """Return what is to be sent to a receiver now, at most so many messages.

    Gates that nobody can answer any more are left out, with what became of them.
    """
    now = service.clock.now()

    def look(reader: Reader) -> tuple[list[Told], list[Telling]]:
        true: list[Told] = []
        over: list[Telling] = []
        for told in reader.due_tellings(receiver.name, now, limit=_DUE):
            notice, reason = _as_it_is(reader, told.notice)
            if reason:
                over.append(told.telling.left_out(reason, now=now))
            else:
                true.append(Told(told.telling, notice))
        return true, over

    due, over = service.store.read(look)
    if over:
        service.store.write(lambda transaction: transaction.save_tellings(over))
    return tuple(
        Parcel(receiver, _outgoing(some, base_url=base_url, service=service), tuple(told.telling for told in some))
        for some in together(due, receiver, most=most)
    )


def deliver(service: Service, parcel: Parcel) -> str:
    """Send a message and write down what came of it; return why it was not taken, or nothing."""
    try:
        service.sender.tell(parcel.receiver, parcel.outgoing, now=service.clock.now())
    except NotTold as error:
        record_failure(service, parcel, error.reason, final=error.final)
        return error.reason
    now = service.clock.now()
    done = [telling.sent(now) for telling in parcel.tellings]
    service.store.write(lambda transaction: transaction.save_tellings(done))
    return ""


def record_failure(service: Service, parcel: Parcel, reason: str, *, final: bool = False) -> None:
    """Write down that a message was not taken: it is tried again, or given up."""
    now = service.clock.now()
    tried = [telling.failed(reason, now=now, final=final) for telling in parcel.tellings]
    service.store.write(lambda transaction: transaction.save_tellings(tried))


def leave_out_strangers(service: Service, config: NotifyConfig) -> int:
    """Leave out what is pending for receivers that are not named any more, and return how many."""
    strangers = service.store.read(lambda reader: reader.pending_receivers()) - set(config.receivers)
    if not strangers:
        return 0
    now, reason = service.clock.now(), "The receiver is not named in notify.yaml any more."
    return service.store.write(lambda transaction: transaction.leave_out(strangers, reason=reason, now=now))


def _as_it_is(reader: Reader, notice: Notice) -> tuple[Notice, str]:
    if notice.kind is not NoticeKind.GATE:
        return notice, ""
    still_open, closed = open_gates(reader, notice)
    return notice.only_gates(still_open), "" if still_open else closed or "The gate is gone."


def _outgoing(some: Sequence[Told], *, base_url: str, service: Service) -> Outgoing:
    now = service.clock.now()
    if len(some) == 1:
        return Outgoing(some[0].telling.id, message(some[0].notice, base_url=base_url, now=now))
    return Outgoing(some[0].telling.id, bundle([told.notice for told in some], base_url=base_url, now=now))


def base_url(service: Service) -> str:
    """Return how links begin; nothing where that is not known now."""
    try:
        return service.notify.current().base_url
    except ConfigInvalid:
        return ""
