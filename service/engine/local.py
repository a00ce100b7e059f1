"""The engine of one process: threads over due rows.

Correctness does not depend on it: claims carry an epoch, intents are committed before dispatch,
and a claim whose owner is gone is taken over at start.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from service.app.drive import drive
from service.app.ports import Transaction
from service.app.service import Service
from service.app.stop_attempt import stop_attempt
from service.domain.audit import Fact
from service.domain.errors import EpochLost, Unavailable, UnstickError
from service.domain.run import NodeRun
from service.engine.due_alerts import DueAlerts
from service.engine.due_sweeps import DueSweeps
from service.engine.notifying import Notifying
from service.engine.old_records import OldRecords
from service.engine.side_loop import SideLoop

#: Without a wake-up, due rows are looked for this often (seconds).
TICK = 1.0
#: Claimed rows are looked at this often at most (seconds).
MINDING = 0.25
#: So long a row stays due while its thread is claiming it (seconds).
CLAIMING = 0.05
#: A node run that met a fault of our own is tried again after this long.
AFTER_FAULT = timedelta(seconds=60)

log = structlog.get_logger()


class LocalEngine:
    """Claims due node runs and drives each in a thread of its own."""

    def __init__(self, service: Service, *, owner: str, threads: int = 64) -> None:
        """Drive node runs of this service, as this owner, at most `threads` at once."""
        self._service = service
        self._owner = owner
        self._threads = threads
        self._driving: dict[str, threading.Thread] = {}
        self._stopped: set[str] = set()
        self._minded = time.monotonic() - MINDING
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._loop = threading.Thread(target=self._run, name="engine", daemon=True)
        self._alerts = DueAlerts(service, fault_of=_fault_of)
        self._sweeps = DueSweeps(service, fault_of=_fault_of)
        others = (Notifying(service, fault_of=_fault_of), OldRecords(service, fault_of=_fault_of))
        self._beside: tuple[SideLoop, ...] = (self._alerts, self._sweeps, *others)

    def start(self) -> None:
        """Take over what an owner that is gone has left, and begin."""
        self._loop.start()
        for loop in self._beside:
            loop.start()

    def wake(self) -> None:
        """Look for due rows now."""
        self._wake.set()
        self._alerts.wake()

    def wake_judging(self) -> None:
        """Look for due alerts now."""
        self._alerts.wake()

    def stop(self, timeout: float) -> None:
        """Dispatch nothing more and wait up to `timeout` seconds for scripts that are followed.

        What is still running on a node then goes on there; the next start asks for it.
        """
        self._ending.set()
        self._wake.set()
        for loop in self._beside:
            loop.end()
        for loop in self._beside:
            loop.stop(timeout)
        if self._loop.is_alive():
            self._loop.join(timeout)
        with self._lock:
            threads = list(self._driving.values())
        for thread in threads:
            thread.join(timeout / max(1, len(threads)))

    def fault(self) -> str | None:
        """Return why the engine does not work, or None."""
        works = self._loop.is_alive() and self._alerts.alive() and self._sweeps.alive()
        return None if works else "The engine does not run."

    def idle(self) -> bool:
        """Whether nothing is driven at this moment."""
        with self._lock:
            return not self._driving

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                minding = self._mind_claimed()
                pause = min(minding, self._start_due())
            except Unavailable as error:
                log.error("engine.store_unavailable", reason=str(error))
                pause = TICK
            self._wake.wait(pause)
            self._wake.clear()

    def _pause(self, now: datetime) -> float:
        """Return the seconds until the next row is due, at most a tick; what was due at `now` has been seen to."""
        if self._free() <= 0:
            # The thread that ends next rings; to look before that would only keep it from ending.
            return TICK
        at = self._service.store.read(lambda reader: reader.next_wake())
        if at is None:
            return TICK
        if at <= now:
            return CLAIMING
        return min(TICK, max(0.0, (at - self._service.clock.now()).total_seconds()))

    def _mind_claimed(self) -> float:
        """Look at what is claimed, a few times a second at most; return the seconds until the next look.

        Each node run that ends rings the bell, and in a large run that is often.
        """
        early = self._minded + MINDING - time.monotonic()
        if early > 0:
            return early
        claimed = self._service.store.read(lambda reader: reader.owned_by_others(""))
        self._minded = time.monotonic()
        self._take_left_over(claimed)
        self._stop_cancelled(claimed)
        return TICK

    def _take_left_over(self, claimed: Sequence[NodeRun]) -> None:
        """Take node runs whose owner is gone, our own after a fault of the store among them."""
        for node_run in claimed:
            if node_run.id not in self._driving and self._free() > 0:
                self._drive(node_run.id, self._taker(node_run))

    def _taker(self, node_run: NodeRun) -> Callable[[Transaction], NodeRun | None]:
        return lambda transaction: transaction.take_from(node_run, owner=self._owner)

    def _start_due(self) -> float:
        """Drive what is due, as far as threads are free; return how long to pause then, in seconds."""
        now = self._service.clock.now()
        free = self._free()
        if free > 0:
            for node_run in self._service.store.read(lambda reader: reader.due(now, limit=free)):
                self._drive(node_run.id, self._claimer(node_run.id))
        return self._pause(now)

    def _claimer(self, node_run_id: str) -> Callable[[Transaction], NodeRun | None]:
        now = self._service.clock.now()
        return lambda transaction: transaction.claim(node_run_id, owner=self._owner, now=now)

    def _free(self) -> int:
        with self._lock:
            return self._threads - len(self._driving)

    def _drive(self, node_run_id: str, take: Callable[[Transaction], NodeRun | None]) -> None:
        thread = threading.Thread(target=self._work, args=(node_run_id, take), name=node_run_id, daemon=True)
        with self._lock:
            if node_run_id in self._driving:
                return
            self._driving[node_run_id] = thread
        thread.start()

    def _work(self, node_run_id: str, take: Callable[[Transaction], NodeRun | None]) -> None:
        taken: list[NodeRun] = []

        def take_and_drive() -> None:
            node_run = self._service.store.write(take)
            if node_run is not None:
                taken.append(node_run)
                drive(self._service, node_run, keep_on=lambda: not self._ending.is_set())

        try:
            fault = _fault_of(take_and_drive, node_run=node_run_id)
            if fault is not None and taken:
                self._put_aside(taken[0], fault)
        finally:
            with self._lock:
                self._driving.pop(node_run_id, None)
                self._stopped.discard(node_run_id)
            self._wake.set()

    def _put_aside(self, node_run: NodeRun, error: Exception) -> None:
        """Record a fault of our own and try the node run again later; nothing of it is guessed."""
        now = self._service.clock.now()
        reason = f"A fault of the service itself: {type(error).__name__}. It is tried again in a minute; see the log."
        about = f"node_run/{node_run.id}"

        def record(transaction: Transaction) -> None:
            known = transaction.node_run(node_run.id)
            aside = replace(known, owner=node_run.owner, epoch=node_run.epoch, reason=reason, wake_at=now + AFTER_FAULT)
            transaction.release(aside)
            body = {"error": type(error).__name__}
            fact = Fact("engine.fault", about, "unstick", run_id=node_run.run_id, node=node_run.node, body=body)
            transaction.append(fact)

        try:
            self._service.store.write(record)
        except UnstickError as again:
            log.error("engine.fault_not_recorded", node_run=node_run.id, reason=str(again))

    def _stop_cancelled(self, claimed: Sequence[NodeRun]) -> None:
        """Tell nodes to end the scripts of driven node runs that a person has cancelled."""
        for node_run in claimed:
            if node_run.cancel_requested_by is None:
                continue
            with self._lock:
                if node_run.id not in self._driving or node_run.id in self._stopped:
                    continue
                self._stopped.add(node_run.id)
            stop = partial(self._stop_one, node_run.id)
            threading.Thread(target=_fault_of, args=(stop,), kwargs={"node_run": node_run.id}, daemon=True).start()

    def _stop_one(self, node_run_id: str) -> None:
        reached = False
        try:
            reached = stop_attempt(self._service, node_run_id)
        except UnstickError as error:
            log.warning("engine.stop_failed", node_run=node_run_id, reason=str(error))
        finally:
            if not reached:
                # Its script may be about to be sent: look again at the next tick.
                with self._lock:
                    self._stopped.discard(node_run_id)


def _fault_of(work: Callable[[], None], **about: str) -> Exception | None:
    """Do something for a node run or an alert; return the fault of our own that it met. The log has what went wrong."""
    try:
        work()
    except EpochLost:
        log.warning("engine.epoch_lost", **about)
    except Unavailable as error:
        log.error("engine.store_unavailable", reason=str(error), **about)
    except Exception as error:  # the engine's edge: one node run's fault must not end the others
        log.exception("engine.fault", **about)
        return error
    return None
