"""How many node runs of sweeps are looked at together, so that a large sweep keeps no cure waiting.

A node run of a sweep sleeps (`wake_at` is empty) until it has a place. Each that ends passes its place on; what is
left over is given away by `give_places`, which the engine calls at each tick. Nothing of it is kept beside the rows.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from service.app.driven import SELF
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.run import NodeRun, Run
from service.domain.sweep import Sweep, defaults

#: Node runs of all sweeps together: half of the engine's threads, so that the others are for cures.
MOST_AT_ONCE = 32
#: Node runs that are ended in one transaction.
_PIECE = 200


def free_places(reader: Reader) -> int:
    """Return how many node runs of sweeps may be woken now."""
    taken = sum(reader.awake_node_runs(run.id) for run in reader.open_sweep_runs())
    return max(0, MOST_AT_ONCE - taken)


def pass_on(transaction: Transaction, ended: NodeRun, *, now: datetime) -> None:
    """Give the place of a node run that has ended to the next one of its run."""
    transaction.wake(transaction.asleep_node_runs(ended.run_id, limit=1), at=now)


def give_places(service: Service) -> int:
    """Wake as many node runs as there are places, those of the oldest run first; return how many."""
    sweeps = {sweep.name: sweep for sweep in service.rules.current().sweeps}
    now = service.clock.now()
    if not service.store.read(lambda reader: _due_places(reader, sweeps)):
        return 0

    def record(transaction: Transaction) -> int:
        transaction.lock_sweeps()
        found = _due_places(transaction, sweeps)
        transaction.wake(found, at=now)
        return len(found)

    woken = service.store.write(record)
    if woken:
        service.wake_engine()
    return woken


def end_late(service: Service) -> int:
    """End the node runs of sweeps that have not answered in time; return how many were asked to end."""
    sweeps = {sweep.name: sweep for sweep in service.rules.current().sweeps}
    now = service.clock.now()
    runs = service.store.read(lambda reader: reader.open_sweep_runs())
    late = [run for run in runs if now >= run.created_at + _of(run, sweeps).ends_within]
    return sum(_end(service, run, _of(run, sweeps).ends_within) for run in late)


def _end(service: Service, run: Run, within: timedelta) -> int:
    reason = f"It has not answered within {int(within.total_seconds()) // 60} min."

    def record(transaction: Transaction) -> int:
        found = transaction.open_node_runs(run.id, limit=_PIECE)
        for node_run_id in found:
            transaction.request_cancel(node_run_id, by=SELF, reason=reason)
        transaction.wake(found, at=service.clock.now())
        if found:
            body = {"nodes": len(found), "reason": reason}
            transaction.append(Fact("sweep.ended_late", f"run/{run.id}", SELF, run_id=run.id, body=body))
        return len(found)

    if not service.store.read(lambda reader: reader.open_node_runs(run.id, limit=1)):
        return 0
    ended = service.store.write(record)
    service.wake_engine()
    return ended


def _due_places(reader: Reader, sweeps: Mapping[str, Sweep]) -> tuple[str, ...]:
    runs = reader.open_sweep_runs()
    awake = {run.id: reader.awake_node_runs(run.id) for run in runs}
    free = MOST_AT_ONCE - sum(awake.values())
    found: list[str] = []
    for run in runs:
        wanted = min(free - len(found), _of(run, sweeps).nodes_at_once - awake[run.id])
        if wanted > 0:
            found += reader.asleep_node_runs(run.id, limit=wanted)
    return tuple(found)


def _of(run: Run, sweeps: Mapping[str, Sweep]) -> Sweep:
    """Return the sweep of a run; one that was taken out of the file meanwhile ends as any other."""
    return sweeps.get(run.trigger.name) or defaults(run.trigger.name, run.runbook)
