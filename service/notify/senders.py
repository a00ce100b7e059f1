"""Which sender speaks to which receiver."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import assert_never

from service.app.notice_ports import NoticeSender, Outgoing
from service.domain.notice import Receiver, ReceiverKind


class Senders:
    """The sender of each kind, built when the first message of its kind is sent: apprise is large."""

    def __init__(self, *, chat: Callable[[], NoticeSender], webhook: Callable[[], NoticeSender]) -> None:
        """Take how each is built."""
        self._build_chat = chat
        self._build_webhook = webhook

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Return when the receiver has taken it; NotTold."""
        self._of(receiver).tell(receiver, outgoing, now=now)

    def check(self, receiver: Receiver) -> None:
        """Return when address and secrets of a receiver can be used; ConfigInvalid. Nothing is sent."""
        self._of(receiver).check(receiver)

    def _of(self, receiver: Receiver) -> NoticeSender:
        match receiver.kind:
            case ReceiverKind.CHAT:
                return self._chat
            case ReceiverKind.WEBHOOK:
                return self._webhook
            case _:
                assert_never(receiver.kind)

    @cached_property
    def _chat(self) -> NoticeSender:
        return self._build_chat()

    @cached_property
    def _webhook(self) -> NoticeSender:
        return self._build_webhook()
