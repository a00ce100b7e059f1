"""Play sweeps on their time: one run for a time, and none for a time that is past.

The run and the next time are written in one transaction, so that a crash makes neither two runs nor none. What went by
while nothing ran is played once, and told.
"""

from dataclasses import replace
from datetime import datetime

from service.app.driven import SELF
from service.app.ports import Transaction
from service.app.request_run import Prepared
from service.app.service import Service
from service.app.sweep_request import begin, plan_sweep, still_looking
from service.domain.audit import Fact
from service.domain.errors import Unavailable, UnstickError
from service.domain.shown_text import shown_moment
from service.domain.sweep import Sweep, SweepState, first_state, is_ahead, next_planned


def play_due_sweeps(service: Service) -> int:
    """Play every sweep whose time has come, and reckon those that are new or changed; return how many began."""
    sweeps, now = service.rules.current().sweeps, service.clock.now()
    if not sweeps:
        return 0
    states = {state.name: state for state in service.store.read(lambda reader: reader.sweep_states())}
    return sum(_mind(service, sweep, states.get(sweep.name), now=now) for sweep in sweeps)


def next_sweep_at(service: Service) -> datetime | None:
    """Return when the next sweep is due, of those that there are now."""
    names = {sweep.name for sweep in service.rules.current().sweeps}
    if not names:
        return None
    states = service.store.read(lambda reader: reader.sweep_states())
    return min((state.next_at for state in states if state.name in names), default=None)


def _mind(service: Service, sweep: Sweep, state: SweepState | None, *, now: datetime) -> bool:
    if state is None or state.schedule != sweep.words or is_ahead(sweep, state, now=now):
        _reckon(service, sweep, state, now=now)
        return False
    if now < state.next_at:
        return False
    return _play(service, sweep, state, now=now)


def _reckon(service: Service, sweep: Sweep, state: SweepState | None, *, now: datetime) -> None:
    """Write the next time of a sweep that is new or changed, or whose time is ahead of a clock that was set back."""
    first = first_state(sweep, now)
    if state is not None:
        first = replace(state, schedule=first.schedule, planned_at=first.planned_at, next_at=first.next_at)

    def record(transaction: Transaction) -> None:
        transaction.lock_sweeps()
        if transaction.sweep_state(sweep.name) != state:
            return
        transaction.put_sweep(first)
        body = {"schedule": first.schedule, "runbook": sweep.runbook, "next_at": first.next_at.isoformat()}
        transaction.append(Fact("sweep.scheduled", f"sweep/{sweep.name}", SELF, body=body))

    service.store.write(record)


def _play(service: Service, sweep: Sweep, state: SweepState, *, now: datetime) -> bool:
    """Make the run of a time that has come, or record why there is none."""
    planned, missed = next_planned(sweep, state.planned_at, now=now)
    following = replace(state, planned_at=planned, next_at=sweep.due_at(planned), missed=missed)
    prepared, refusal = _prepared(service, sweep, state, missed=missed)

    def record(transaction: Transaction) -> bool:
        transaction.lock_sweeps()
        if transaction.sweep_state(sweep.name) != state:
            # Another process was faster, or a person has just played it.
            return False
        earlier = still_looking(transaction, sweep, now=now)
        why = refusal if earlier is None else f"Run {earlier.id}, of the time before, has not ended."
        if why or prepared is None:
            _skip(transaction, following, planned_at=state.planned_at, why=why, now=now)
            return False
        begin(transaction, prepared, sweep=sweep)
        transaction.put_sweep(replace(following, last_run_id=prepared.run.id, last_at=now))
        body = {"nodes": len(prepared.node_runs), "planned_at": state.planned_at.isoformat(), "missed": missed}
        transaction.append(Fact("sweep.started", f"sweep/{sweep.name}", SELF, run_id=prepared.run.id, body=body))
        return True

    began = service.store.write(record)
    if began:
        service.wake_engine()
    return began


def _prepared(service: Service, sweep: Sweep, state: SweepState, *, missed: int) -> tuple[Prepared | None, str]:
    went_by = f" {missed} {'time was' if missed == 1 else 'times were'} missed." if missed else ""
    reason = f"Sweep {sweep.name}, planned for {shown_moment(state.planned_at)}.{went_by}"
    try:
        return plan_sweep(service, sweep, requested_by=f"sweep:{sweep.name}", reason=reason), ""
    except Unavailable:
        raise
    except UnstickError as error:
        return None, str(error)


def _skip(transaction: Transaction, state: SweepState, *, planned_at: datetime, why: str, now: datetime) -> None:
    transaction.put_sweep(replace(state, skipped_at=now, skipped=why))
    body = {"planned_at": planned_at.isoformat(), "reason": why, "missed": state.missed}
    transaction.append(Fact("sweep.skipped", f"sweep/{state.name}", SELF, body=body))
