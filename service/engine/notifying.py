"""Tells people what happens, in threads of its own: whatever becomes of it, no node run waits for it."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from service.app.notify import Follower, drop_old_notices
from service.app.notify_tell import Parcel, deliver, leave_out_strangers, parcels, record_failure
from service.app.service import Service
from service.domain.errors import ConfigInvalid
from service.domain.notice import NotifyConfig, Receiver
from service.engine.side_loop import FaultOf, SideLoop

#: The audit and what is due are looked at this often (seconds).
TICK: Final = 1.0
#: A receiver that has not taken one message in this time (seconds) is not waited for any longer.
PATIENCE: Final = 60.0
#: After a message that was not taken its receiver is left in peace for so long (seconds).
REST: Final = 10.0
#: So many messages that nobody waits for any more a receiver may keep hanging; then nothing is sent to it.
_MOST_HANGING: Final = 3
_MINUTE: Final = 60.0
#: At the end a message that is under way gets so long (seconds); later it is sent again.
_LAST_WORDS: Final = 2.0
_CLEANING: Final = 3600.0

log = structlog.get_logger()


@dataclass
class _Line:
    """The way to one receiver: one message at a time."""

    #: When messages of the last minute were begun, by the clock that is never set.
    begun: deque[float] = field(default_factory=deque)
    rests_until: float = 0.0
    round: "_Round | None" = None
    hanging: list[threading.Thread] = field(default_factory=list)

    def room(self, per_minute: int, now: float) -> int:
        """Return how many messages may be begun now."""
        while self.begun and self.begun[0] <= now - _MINUTE:
            self.begun.popleft()
        return per_minute - len(self.begun)


@dataclass
class _Round:
    """Some messages that are sent one after the other."""

    thread: threading.Thread
    #: The one that is being sent, and since when; None between two.
    parcel: Parcel | None = None
    since: float = 0.0


class Notifying(SideLoop):
    """One thread follows the audit; each receiver has one of its own while something is sent to it."""

    def __init__(
        self, service: Service, *, fault_of: FaultOf, patience: float = PATIENCE, tick: float = TICK, rest: float = REST
    ) -> None:
        """Tell what happens in this service; `fault_of` stands between the work and the threads."""
        super().__init__(service, name="notices", fault_of=fault_of)
        self._patience, self._tick, self._rest = patience, tick, rest
        self._follower = Follower(service)
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()
        self._cleaned = time.monotonic()
        #: What was said of a file that cannot be used.
        self._told = ""

    def stop(self, timeout: float) -> None:
        """Begin no more messages; what is under way is waited for, up to `timeout` seconds, or sent again later."""
        super().stop(timeout)
        until = time.monotonic() + min(timeout, _LAST_WORDS)
        with self._lock:
            threads = [line.round.thread for line in self._lines.values() if line.round is not None]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _turn(self) -> float:
        more = self._follow()
        self._fault_of(self._begin_rounds)
        self._give_up_waiting()
        if time.monotonic() - self._cleaned >= _CLEANING:
            self._cleaned = time.monotonic()
            self._attempt(partial(drop_old_notices, self._service))
        return 0.0 if more else self._tick

    def _follow(self) -> bool:
        """Make notices of what is new; True when there may be more."""
        more: list[bool] = []
        if self._fault_of(lambda: more.append(self._follower.follow())) is None:
            return more == [True]
        # One event is to blame: those before it are told, and that one is left out.
        for _ in range(1000):
            one: list[bool] = []
            if self._fault_of(lambda found=one: found.append(self._follower.follow(limit=1))) is not None:  # type: ignore[misc]
                self._fault_of(self._skip)
                break
            if one != [True]:
                break
        return True

    def _skip(self) -> None:
        log.error("notices.event_left_out", seq=self._follower.skip())

    def _begin_rounds(self) -> None:
        try:
            config = self._service.notify.current()
        except ConfigInvalid as error:
            # It was never good, so that nobody has told it; what is pending waits until it is mended.
            if error.reason != self._told:
                log.error("notices.file_unusable", reason=error.reason, way_out=error.way_out)
            self._told = error.reason
            return
        if config.receivers:
            leave_out_strangers(self._service, config)
        for receiver in config.receivers.values():
            if not self._ending.is_set():
                self._fault_of(partial(self._begin_round, receiver, config), receiver=receiver.name)

    def _begin_round(self, receiver: Receiver, config: NotifyConfig) -> None:
        now = time.monotonic()
        line = self._lines.setdefault(receiver.name, _Line())
        line.hanging = [thread for thread in line.hanging if thread.is_alive()]
        room = line.room(receiver.per_minute, now)
        if line.round is not None or now < line.rests_until or len(line.hanging) >= _MOST_HANGING or room <= 0:
            return
        found = parcels(self._service, receiver, base_url=config.base_url, most=room)
        if found:
            thread = threading.Thread(
                target=self._send, args=(line, found), name=f"notices-{receiver.name}", daemon=True
            )
            with self._lock:
                line.round = _Round(thread)
            thread.start()

    def _send(self, line: _Line, found: Sequence[Parcel]) -> None:
        """Send messages one after the other, until one is not taken or nobody waits for this thread any more."""
        mine = line.round
        for parcel in found:
            with self._lock:
                if mine is None or line.round is not mine or self._ending.is_set():
                    break
                mine.parcel, mine.since = parcel, time.monotonic()
                line.begun.append(mine.since)
            if not self._deliver(parcel):
                line.rests_until = time.monotonic() + self._rest
                break
        with self._lock:
            if line.round is mine:
                line.round = None

    def _deliver(self, parcel: Parcel) -> bool:
        name = parcel.receiver.name
        reasons: list[str] = []
        fault = self._fault_of(lambda: reasons.append(deliver(self._service, parcel)), receiver=name)
        if fault is not None:
            reason = f"A fault of the service itself: {type(fault).__name__}; see the log."
            self._fault_of(partial(record_failure, self._service, parcel, reason), receiver=name)
        elif reasons != [""]:
            log.warning("notices.not_taken", receiver=name, reason="".join(reasons), tellings=len(parcel.tellings))
        return reasons == [""]

    def _give_up_waiting(self) -> None:
        """Leave threads alone that hang in one message for too long: their receivers trickle, or never answer."""
        now = time.monotonic()
        for name, line in self._lines.items():
            with self._lock:
                hung = line.round
                if hung is None or hung.parcel is None or now - hung.since < self._patience:
                    continue
                line.round = None
                line.hanging.append(hung.thread)
                line.rests_until = now + self._rest
            reason = f"It has not taken it within {self._patience:g} seconds."
            log.warning("notices.not_taken", receiver=name, reason=reason, tellings=len(hung.parcel.tellings))
            self._fault_of(partial(record_failure, self._service, hung.parcel, reason), receiver=name)
