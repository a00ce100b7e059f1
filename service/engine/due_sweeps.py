"""Plays sweeps as they become due and gives them places, in a thread of its own."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from service.app.service import Service
from service.app.sweep_due import next_sweep_at, play_due_sweeps
from service.app.sweep_places import end_late, give_places
from service.engine.side_loop import FaultOf, SideLoop

#: Due sweeps and free places are looked for this often at least (seconds).
TICK = 1.0


class DueSweeps(SideLoop):
    """What was due while the process did not run is played at its start, once."""

    def __init__(self, service: Service, *, fault_of: FaultOf) -> None:
        """Play the sweeps of this service."""
        super().__init__(service, name="sweeps", fault_of=fault_of)

    def _turn(self) -> float:
        works: tuple[Callable[[Service], int], ...] = (play_due_sweeps, end_late, give_places)
        for work in works:
            # Each by itself: a sweep that cannot be played keeps no other from its places.
            self._attempt(partial(work, self._service), thread="sweeps")
        return self._pause()

    def _pause(self) -> float:
        """Return the seconds until the next sweep is due, at most a tick."""
        found: list[datetime | None] = []
        self._fault_of(lambda: found.append(next_sweep_at(self._service)), thread="sweeps")
        if not found or found[0] is None:
            return TICK
        return min(TICK, max(0.01, (found[0] - self._service.clock.now()).total_seconds()))
