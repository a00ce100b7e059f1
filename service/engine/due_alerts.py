"""Judges alerts as they become due, in a thread of its own: a storm of them keeps no node run waiting."""

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from service.app.judge_alerts import BATCH, judge_alerts, judge_due, judge_held_again, put_aside
from service.app.service import Service
from service.domain.delivery import RecordedAlert
from service.engine.side_loop import FaultOf, SideLoop

#: Without a wake-up, due alerts are looked for this often (seconds).
TICK = 1.0
#: While deliveries are recorded judging waits, at most so long (seconds); then it has a turn in which it does not.
LONGEST_WAIT, LEAST_TURN = 3.0, 1.0
#: A clock that went back by more than this was set.
_SET_BACK: Final = timedelta(seconds=5)


class DueAlerts(SideLoop):
    """What was stored before the process ended is due at its start: nothing is lost in between."""

    def __init__(self, service: Service, *, fault_of: FaultOf) -> None:
        """Judge the alerts of this service."""
        super().__init__(service, name="alerts", fault_of=fault_of)
        self._looked_at: datetime | None = None
        self._has_turn_until = time.monotonic()

    def _turn(self) -> float:
        self._mind_clock()
        self._let_take()
        return 0.0 if self._judge_some() else self._pause()

    def _mind_clock(self) -> None:
        """Judge what is held anew at the start, and when the clock was set back: else it sleeps until a false time."""
        before, now = self._looked_at, self._service.clock.now()
        self._looked_at = now
        if before is None or now < before - _SET_BACK:
            self._attempt(partial(judge_held_again, self._service))

    def _let_take(self) -> None:
        """Wait while deliveries are recorded, unless judging has waited for its turn already."""
        if time.monotonic() < self._has_turn_until:
            return
        if not self._service.taking_first.wait_for_quiet(LONGEST_WAIT, wanted=lambda: not self._ending.is_set()):
            self._has_turn_until = time.monotonic() + LEAST_TURN

    def _judge_some(self) -> bool:
        """Judge a batch; True when there may be more."""
        looked_at: list[int] = []
        fault = self._fault_of(lambda: looked_at.append(judge_due(self._service)))
        if fault is not None:
            # One of them is to blame: each is judged by itself, and that one is put aside.
            self._fault_of(self._judge_one_by_one)
        return looked_at == [BATCH]

    def _judge_one_by_one(self) -> None:
        service = self._service
        now = service.clock.now()
        for alert in service.store.read(lambda reader: reader.due_alerts(now, limit=BATCH)):
            self._judge_one(alert)

    def _judge_one(self, alert: RecordedAlert) -> None:
        fault = self._fault_of(partial(judge_alerts, self._service, [alert]), alert=alert.id)
        if fault is not None:
            self._fault_of(partial(put_aside, self._service, alert, fault), alert=alert.id)

    def _pause(self) -> float:
        """Return the seconds until the next alert is due, at most a tick."""
        found: list[float] = []

        def look() -> None:
            at = self._service.store.read(lambda reader: reader.next_alert_wake())
            found.append(TICK if at is None else (at - self._service.clock.now()).total_seconds())

        self._fault_of(look)
        return min(TICK, max(0.01, *found)) if found else TICK
