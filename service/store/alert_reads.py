"""Reads of deliveries and alerts, and of what the rails ask about runs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, or_, select, tuple_

from service.app.alert_ports import AlertBacklog, AlertFilter
from service.app.paging import Page
from service.domain.alert import AlertStatus
from service.domain.delivery import AlertVerdict, Breaker, Delivery, Pause, RecordedAlert
from service.domain.errors import NotFound
from service.domain.rails import Earlier, PastRun
from service.domain.run import HOLDING_STATES, OPEN_STATES, AttemptState, TriggerKind
from service.store import cursor as cursors
from service.store import retention, rows
from service.store.alert_tables import HELD, UNJUDGED, WAKES, alerts, breakers, deliveries, pauses
from service.store.looks import Looks
from service.store.tables import OPEN_ACTING, attempts, node_runs, runs

_A, _N = alerts.c, node_runs.c
#: What is paused, until there is more than one thing to pause.
PAUSED: Final = "alerts"
#: Of so many node runs, the newest of a node, those of sweeps are left out: a week of a sweep each five minutes.
_WALK = 2000
#: So many of the newest acting node runs tell when a node was last seen to reboot.
_RECENT = 20
#: More alerts of one fault or run than these tell nothing new.
_MOST_OF_ONE = 1000
#: What is read of each node run of the past.
_OF_PAST = (
    *("run_id", "runbook", "dry_run", "acts", "state", "created_at", "verdict"),
    *("started_at", "ended_at", "first_boot_id"),
)


def _named(alert: RecordedAlert) -> Mapping[str, Any]:
    """Return what the statements below call a fault and its occasion."""
    return {"source": alert.source, "fingerprint": alert.fingerprint, "starts_at": alert.starts_at}


def _newest(limit: int) -> Select[Any]:
    """Return the ids of the newest node runs of a node: a walk along one index, however many there were."""
    newest = select(_N.id).where(_N.node == bindparam("node"))
    return newest.order_by(_N.run_created_at.desc(), _N.run_id.desc()).limit(limit)


def _by_alert(which: ColumnElement[bool]) -> Select[Any]:
    return select(runs.c.id).where(runs.c.trigger_kind == TriggerKind.ALERT, which)


def _earlier() -> Select[Any]:
    acted = or_(_A.verdict == AlertVerdict.RAN, HELD)
    query = select(_A.id, _A.verdict, _A.run_id).where(_OCCASION, _A.id != bindparam("id"), acted)
    # One that has run says more than one that is held; of each kind the first.
    return query.order_by(_A.verdict.desc(), _A.received_at, _A.id).limit(1)


def _past_runs() -> Select[Any]:
    query = select(*(_N[name] for name in _OF_PAST), runs.c.trigger_kind, runs.c.trigger_name, runs.c.escalated_from)
    # Sweeps look often and decide nothing: they would only hide what was tried before them.
    query = query.join(runs, runs.c.id == _N.run_id).where(_N.id.in_(_newest(_WALK)))
    query = query.where(runs.c.trigger_kind != TriggerKind.SWEEP)
    return query.order_by(_N.run_created_at.desc(), _N.run_id.desc()).limit(bindparam("limit"))


def _rebooted_at() -> Select[Any]:
    acting = select(_N.id).where(_N.id.in_(_newest(_WALK)), _N.acts)
    newest = acting.order_by(_N.run_created_at.desc(), _N.run_id.desc()).limit(_RECENT)
    seen = and_(attempts.c.node_run_id.in_(newest), attempts.c.state == AttemptState.REBOOTED, attempts.c.acting)
    return select(func.max(attempts.c.intended_at).label("at")).where(seen)


# What is asked at each delivery and of each alert is made once: that costs more than to ask it.
_ALERT: Final = select(alerts).where(_A.id == bindparam("key"))
_WAKING = select(alerts).where(WAKES, _A.wake_at <= bindparam("now")).order_by(_A.wake_at, _A.id)
_DUE: Final = _WAKING.limit(bindparam("most"))
_NEXT_WAKE: Final = select(func.min(_A.wake_at).label("wake_at")).where(WAKES)
_SOME = select(_A.received_at).where(UNJUDGED).limit(bindparam("most")).subquery()
_WAITING: Final = select(func.count()).select_from(_SOME)
# What could not be understood has no fingerprint of its own.
_UNDERSTOOD = or_(_A.verdict.is_(None), _A.verdict != AlertVerdict.SET_ASIDE)
_FAULT = and_(_A.source == bindparam("source"), _A.fingerprint == bindparam("fingerprint"))
_OCCASION = and_(_FAULT, _A.starts_at == bindparam("starts_at"), _UNDERSTOOD)
_EARLIER: Final = _earlier()
_RESOLVED_AT: Final = select(func.min(_A.received_at).label("at")).where(
    _FAULT, _A.starts_at >= bindparam("starts_at"), _A.status == AlertStatus.RESOLVED, _UNDERSTOOD
)
_HEARD_AT: Final = select(func.max(_A.received_at).label("at")).where(_OCCASION, _A.status == AlertStatus.FIRING)
_PAST_RUNS: Final = _past_runs()
_REBOOTED_AT: Final = _rebooted_at()
_STARTED = _N.run_id.in_(_by_alert(runs.c.state.in_(OPEN_STATES)))
_DISRUPTED: Final = select(_N.node).distinct().where(OPEN_ACTING, or_(_N.state.in_(HOLDING_STATES), _STARTED))
_DISRUPTED_SINCE: Final = (
    select(_N.node)
    .distinct()
    .where(
        _N.run_id.in_(_by_alert(runs.c.created_at > bindparam("since"))),
        _N.acts,
        or_(_N.started_at.is_not(None), _N.ended_at.is_(None)),
    )
)
_PAUSE: Final = select(pauses).where(pauses.c.name == PAUSED)
_BREAKER: Final = select(breakers).where(breakers.c.name == bindparam("name"))


class AlertReads(Looks):
    """The part of a reader that knows of alerts."""

    def delivery(self, delivery_id: str) -> Delivery:
        """Return a delivery with what is kept of its body; NotFound."""
        return self._delivery(deliveries.c.id == delivery_id) or _missing("delivery", delivery_id)

    def delivery_by_key(self, source: str, key: str) -> Delivery | None:
        """Return the delivery that this source has called so."""
        return self._delivery(and_(deliveries.c.source == source, deliveries.c.delivery_key == key))

    def alert(self, alert_id: str) -> RecordedAlert:
        """Return an alert; NotFound."""
        found = self._alerts(_ALERT, {"key": alert_id})
        return found[0] if found else _missing("alert", alert_id)

    def alerts(self, which: AlertFilter, *, cursor: str | None, limit: int) -> Page[RecordedAlert]:
        """Return alerts, newest first, by keyset."""
        query = select(alerts)
        for name in ("node", "verdict", "source", "delivery_id"):
            wanted = getattr(which, name)
            if wanted is not None:
                query = query.where(_A[name] == wanted)
        found, more = self._page(query, _A.received_at, _A.id, cursor=cursor, limit=limit, kind="alerts")
        values = tuple(rows.from_row(RecordedAlert, row) for row in found)
        return Page(values, cursors.encode("alerts", values[-1].received_at, values[-1].id) if more else None)

    def alerts_since(self, since: datetime, *, after: RecordedAlert | None, limit: int) -> tuple[RecordedAlert, ...]:
        """Return alerts as they came, oldest first, from a time or from behind one of them on."""
        query = select(alerts).where(_A.received_at >= since)
        if after is not None:
            place = tuple_(literal(after.received_at, _A.received_at.type), literal(after.id))
            query = query.where(tuple_(_A.received_at, _A.id) > place)
        return self._alerts(query.order_by(_A.received_at, _A.id).limit(limit))

    def due_alerts(self, now: datetime, *, limit: int) -> tuple[RecordedAlert, ...]:
        """Return alerts that are to be judged now, oldest first."""
        return self._alerts(_DUE, {"now": now, "most": limit})

    def next_alert_wake(self) -> datetime | None:
        """Return when the next alert is to be judged."""
        row = self._first(_NEXT_WAKE)
        return None if row is None else row["wake_at"]

    def waiting_alerts(self, *, most: int) -> int:
        """Return how many alerts were never judged; it counts up to `most`."""
        return self._connection.execute(_WAITING, {"most": most}).scalar_one()

    def alert_backlog(self) -> AlertBacklog:
        """Return how many alerts are still to be decided; it looks at nothing that is."""
        unjudged = self._connection.execute(select(func.count()).select_from(alerts).where(UNJUDGED)).scalar_one()
        by = select(_A.held_by, func.count()).where(HELD).group_by(_A.held_by)
        return AlertBacklog(unjudged, {row[0]: row[1] for row in self._connection.execute(by)})

    def has_old(self, outputs: datetime, deliveries: datetime) -> bool:
        """Whether an output was sealed before the one time, or a delivery came before the other that may be dropped."""
        return retention.has_old(self._connection, outputs, deliveries)

    def earlier(self, alert: RecordedAlert) -> Earlier | None:
        """Return another alert of the same source, fingerprint and start that has run, or is held."""
        row = self._first(_EARLIER, {**_named(alert), "id": alert.id})
        return None if row is None else Earlier(row["id"], row["verdict"], row["run_id"])

    def resolved_at(self, alert: RecordedAlert) -> datetime | None:
        """Return when a word came by which this occasion of the fault is over."""
        row = self._first(_RESOLVED_AT, _named(alert))
        return None if row is None else row["at"]

    def heard_at(self, alert: RecordedAlert) -> datetime:
        """Return when it was last said that this occasion of the fault is there."""
        row = self._first(_HEARD_AT, _named(alert))
        return (None if row is None else row["at"]) or alert.received_at

    def of_fault(self, resolved: RecordedAlert) -> tuple[RecordedAlert, ...]:
        """Return the alerts that a resolved one ends: held, or folded into a run; and those that ended while held."""
        told = or_(HELD, _A.run_id != "", _A.verdict == AlertVerdict.RESOLVED)
        before = and_(_fault(resolved), _A.starts_at <= resolved.starts_at, told)
        query = select(alerts).where(before, _A.status == AlertStatus.FIRING)
        return self._alerts(query.order_by(_A.received_at.desc(), _A.id).limit(_MOST_OF_ONE))

    def alerts_of_run(self, run_id: str) -> tuple[RecordedAlert, ...]:
        """Return the alerts that have started a run or were folded into it."""
        query = select(alerts).where(_A.run_id != "", _A.run_id == run_id)
        return self._alerts(query.order_by(_A.received_at, _A.id).limit(_MOST_OF_ONE))

    def past_runs(self, node: str, *, limit: int) -> tuple[PastRun, ...]:
        """Return the newest node runs of a node."""
        found = self._all(_PAST_RUNS, {"node": node, "limit": limit})
        return tuple(
            PastRun(
                rule=row["trigger_name"] if row["trigger_kind"] is TriggerKind.ALERT else "",
                escalated=row["escalated_from"] is not None,
                **{name: row[name] for name in _OF_PAST},
            )
            for row in found
        )

    def rebooted_at(self, node: str) -> datetime | None:
        """Return when the last script was sent that saw this node reboot."""
        row = self._first(_REBOOTED_AT, {"node": node})
        return None if row is None else row["at"]

    def disrupted_nodes(self) -> frozenset[str]:
        """Return the nodes that an acting run has, or that one which an alert has started will have."""
        return frozenset(self._connection.execute(_DISRUPTED).scalars())

    def disrupted_since(self, since: datetime) -> frozenset[str]:
        """Return the nodes that acting runs which alerts have started after a time have, or had."""
        return frozenset(self._connection.execute(_DISRUPTED_SINCE, {"since": since}).scalars())

    def pause(self) -> Pause | None:
        """Return the pause that is on."""
        row = self._first(_PAUSE)
        return None if row is None else Pause(row["by"], row["reason"], row["at"])

    def breaker(self, name: str) -> Breaker:
        """Return a breaker; one that never latched is closed."""
        row = self._first(_BREAKER, {"name": name})
        return Breaker(name) if row is None else rows.from_row(Breaker, row)

    def _delivery(self, which: ColumnElement[bool]) -> Delivery | None:
        row = self._first(select(deliveries).where(which))
        return None if row is None else rows.from_row(Delivery, row)

    def _alerts(self, query: Select[Any], values: Mapping[str, Any] | None = None) -> tuple[RecordedAlert, ...]:
        return tuple(rows.from_row(RecordedAlert, row) for row in self._all(query, values))


def _fault(alert: RecordedAlert) -> ColumnElement[bool]:
    return and_(_A.source == alert.source, _A.fingerprint == alert.fingerprint)


def _missing(what: str, key: str) -> Any:
    raise NotFound(f"There is no {what} {key}.", "`unstick alerts` (GET /api/v1/alerts) lists what came in.")
