"""Judges alerts as they become due, in a thread of its own: a storm of them keeps no node run waiting."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from service.app.judge_alerts import BATCH, judge_alerts, judge_due, put_aside
from service.app.service import Service
from service.domain.delivery import RecordedAlert

#: Without a wake-up, due alerts are looked for this often (seconds).
TICK = 1.0


class FaultOf(Protocol):
    """Does something and returns the fault of our own that it met; an expected failure is only logged."""

    def __call__(self, work: Callable[[], None], **about: str) -> Exception | None:
        """Do it."""


class DueAlerts:
    """What was stored before the process ended is due at its start: nothing is lost in between."""

    def __init__(self, service: Service, *, fault_of: FaultOf) -> None:
        """Judge the alerts of this service; `fault_of` stands between them and the thread."""
        self._service = service
        self._fault_of = fault_of
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._loop = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._loop.start()

    def wake(self) -> None:
        """Look for due alerts now."""
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """Judge no more; a batch under way is finished within `timeout` seconds, or undone."""
        self._ending.set()
        self._wake.set()
        if self._loop.is_alive():
            self._loop.join(timeout)

    def alive(self) -> bool:
        """Whether it works."""
        return self._loop.is_alive()

    def _run(self) -> None:
        while not self._ending.is_set():
            if not self._judge_some():
                self._wake.wait(self._pause())
                self._wake.clear()

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
