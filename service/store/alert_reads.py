"""Reads of deliveries and alerts, and of what the rails ask about runs."""

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

_A = alerts.c
#: What is paused, until there is more than one thing to pause.
PAUSED: Final = "alerts"
#: Of so many node runs, the newest of a node, those of sweeps are left out: a week of a sweep each five minutes.
_WALK = 2000
#: So many of the newest acting node runs tell when a node was last seen to reboot.
_RECENT = 20
#: More alerts of one fault or run than these tell nothing new.
_MOST_OF_ONE = 1000
# Asked at each delivery, so it is made once.
_SOME = select(_A.received_at).where(UNJUDGED).limit(bindparam("most")).subquery()
_WAITING: Final = select(func.count()).select_from(_SOME)


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
        found = self._alerts(select(alerts).where(_A.id == alert_id))
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
        query = select(alerts).where(WAKES, _A.wake_at <= now)
        return self._alerts(query.order_by(_A.wake_at, _A.id).limit(limit))

    def next_alert_wake(self) -> datetime | None:
        """Return when the next alert is to be judged."""
        row = self._first(select(func.min(_A.wake_at).label("wake_at")).where(WAKES))
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
        acted = or_(_A.verdict == AlertVerdict.RAN, HELD)
        query = select(_A.id, _A.verdict, _A.run_id).where(_occasion(alert), _A.id != alert.id, acted)
        # One that has run says more than one that is held; of each kind the first.
        row = self._first(query.order_by(_A.verdict.desc(), _A.received_at, _A.id).limit(1))
        return None if row is None else Earlier(row["id"], row["verdict"], row["run_id"])

    def resolved_at(self, alert: RecordedAlert) -> datetime | None:
        """Return when a word came by which this occasion of the fault is over."""
        over = and_(_fault(alert), _A.starts_at >= alert.starts_at, _A.status == AlertStatus.RESOLVED)
        row = self._first(select(func.min(_A.received_at).label("at")).where(over, _understood()))
        return None if row is None else row["at"]

    def heard_at(self, alert: RecordedAlert) -> datetime:
        """Return when it was last said that this occasion of the fault is there."""
        firing = _A.status == AlertStatus.FIRING
        row = self._first(select(func.max(_A.received_at).label("at")).where(_occasion(alert), firing))
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
        c = node_runs.c
        names = ("run_id", "runbook", "dry_run", "acts", "state", "created_at", "verdict", "started_at", "ended_at")
        columns = [c[name] for name in (*names, "first_boot_id")]
        query = select(*columns, runs.c.trigger_kind, runs.c.trigger_name, runs.c.escalated_from)
        # Sweeps look often and decide nothing: they would only hide what was tried before them.
        query = query.join(runs, runs.c.id == c.run_id).where(c.id.in_(_newest(node, _WALK)))
        query = query.where(runs.c.trigger_kind != TriggerKind.SWEEP)
        found = self._all(query.order_by(c.run_created_at.desc(), c.run_id.desc()).limit(limit))
        return tuple(
            PastRun(
                rule=row["trigger_name"] if row["trigger_kind"] is TriggerKind.ALERT else "",
                escalated=row["escalated_from"] is not None,
                **{column.name: row[column.name] for column in columns},
            )
            for row in found
        )

    def rebooted_at(self, node: str) -> datetime | None:
        """Return when the last script was sent that saw this node reboot."""
        c = node_runs.c
        acting = select(c.id).where(c.id.in_(_newest(node, _WALK)), c.acts)
        newest = acting.order_by(c.run_created_at.desc(), c.run_id.desc()).limit(_RECENT)
        seen = and_(attempts.c.node_run_id.in_(newest), attempts.c.state == AttemptState.REBOOTED, attempts.c.acting)
        row = self._first(select(func.max(attempts.c.intended_at).label("at")).where(seen))
        return None if row is None else row["at"]

    def disrupted_nodes(self) -> frozenset[str]:
        """Return the nodes that an acting run has, or that one which an alert has started will have."""
        c, by_alert = node_runs.c, _by_alert(runs.c.state.in_(OPEN_STATES))
        query = select(c.node).distinct().where(OPEN_ACTING, or_(c.state.in_(HOLDING_STATES), c.run_id.in_(by_alert)))
        return frozenset(self._connection.execute(query).scalars())

    def disrupted_since(self, since: datetime) -> frozenset[str]:
        """Return the nodes that acting runs which alerts have started after a time have, or had."""
        c, by_alert = node_runs.c, _by_alert(runs.c.created_at > since)
        played = or_(c.started_at.is_not(None), c.ended_at.is_(None))
        query = select(c.node).distinct().where(c.run_id.in_(by_alert), c.acts, played)
        return frozenset(self._connection.execute(query).scalars())

    def pause(self) -> Pause | None:
        """Return the pause that is on."""
        row = self._first(select(pauses).where(pauses.c.name == PAUSED))
        return None if row is None else Pause(row["by"], row["reason"], row["at"])

    def breaker(self, name: str) -> Breaker:
        """Return a breaker; one that never latched is closed."""
        row = self._first(select(breakers).where(breakers.c.name == name))
        return Breaker(name) if row is None else rows.from_row(Breaker, row)

    def _delivery(self, which: ColumnElement[bool]) -> Delivery | None:
        row = self._first(select(deliveries).where(which))
        return None if row is None else rows.from_row(Delivery, row)

    def _alerts(self, query: Select[Any]) -> tuple[RecordedAlert, ...]:
        return tuple(rows.from_row(RecordedAlert, row) for row in self._all(query))


def _newest(node: str, limit: int) -> Select[Any]:
    """Return the ids of the newest node runs of a node: a walk along one index, however many there were."""
    c = node_runs.c
    return select(c.id).where(c.node == node).order_by(c.run_created_at.desc(), c.run_id.desc()).limit(limit)


def _fault(alert: RecordedAlert) -> ColumnElement[bool]:
    return and_(_A.source == alert.source, _A.fingerprint == alert.fingerprint)


def _occasion(alert: RecordedAlert) -> ColumnElement[bool]:
    return and_(_fault(alert), _A.starts_at == alert.starts_at, _understood())


def _understood() -> ColumnElement[bool]:
    # What could not be understood has no fingerprint of its own.
    return or_(_A.verdict.is_(None), _A.verdict != AlertVerdict.SET_ASIDE)


def _by_alert(which: ColumnElement[bool]) -> Select[Any]:
    return select(runs.c.id).where(runs.c.trigger_kind == TriggerKind.ALERT, which)


def _missing(what: str, key: str) -> Any:
    raise NotFound(f"There is no {what} {key}.", "`unstick alerts` (GET /api/v1/alerts) lists what came in.")
