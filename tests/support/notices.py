"""Receivers of notices for tests: one that keeps what it is told, and a configuration that a test writes down."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from service.app.notice_ports import Outgoing, TellingFilter
from service.app.notify import Follower
from service.app.notify_tell import deliver, parcels
from service.domain.errors import NotTold
from service.domain.notice import NoticeRule, NotifyConfig, Receiver, ReceiverKind, Told
from tests.support.world import World

BASE = "https://unstick.example.net"
ONCALL = Receiver("oncall", ReceiverKind.CHAT, url_file="/nowhere")
HOOK = Receiver("hook", ReceiverKind.WEBHOOK, url="https://hook.example.net/", per_minute=600)


@dataclass
class Fixed:
    """A configuration that a test writes down."""

    value: NotifyConfig

    def current(self) -> NotifyConfig:
        """Return it."""
        return self.value


@dataclass
class Kept:
    """A sender that keeps what it was given; receivers in `broken` take nothing, and say why."""

    told: list[tuple[str, Outgoing]] = field(default_factory=list)
    broken: dict[str, NotTold] = field(default_factory=dict)

    def tell(self, receiver: Receiver, outgoing: Outgoing, *, now: datetime) -> None:
        """Keep it, or refuse it."""
        if receiver.name in self.broken:
            raise self.broken[receiver.name]
        self.told.append((receiver.name, outgoing))

    def check(self, receiver: Receiver) -> None:
        """Find nothing."""

    @property
    def titles(self) -> list[str]:
        """Return the titles in the order in which they came."""
        return [outgoing.message.title for _, outgoing in self.told]

    @property
    def texts(self) -> list[str]:
        """Return the texts in the order in which they came."""
        return [outgoing.message.text for _, outgoing in self.told]


def config(*rules: NoticeRule, receivers: tuple[Receiver, ...] = (ONCALL,)) -> NotifyConfig:
    """Return who is told what; by default one chat is told everything."""
    return NotifyConfig(BASE, {one.name: one for one in receivers}, rules or (NoticeRule(("oncall",)),))


def listen(world: World, told: NotifyConfig | None = None) -> tuple[Follower, Kept]:
    """Have somebody told what happens in a world from now on; return what follows, and what is told."""
    kept = Kept()
    world.service = replace(world.service, notify=Fixed(told or config()), sender=kept)
    follower = Follower(world.service)
    follower.follow()
    return follower, kept


def follow(follower: Follower) -> None:
    """Make notices of all that is new."""
    while follower.follow():
        pass


def tell(world: World, *, after: float = 10.0, most: int = 100) -> None:
    """Send what is due so many seconds later."""
    world.move_to(world.clock.now() + timedelta(seconds=after))
    current = world.service.notify.current()
    for receiver in current.receivers.values():
        for parcel in parcels(world.service, receiver, base_url=current.base_url, most=most):
            deliver(world.service, parcel)


def every(world: World) -> list[Told]:
    """Return every telling, in the order in which they came."""
    page = world.service.store.read(lambda reader: reader.tellings(TellingFilter(), cursor=None, limit=10_000))
    return list(reversed(page.items))


def states(world: World) -> list[str]:
    """Return how far each telling has come."""
    return [told.telling.state.value for told in every(world)]
