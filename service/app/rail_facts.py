"""Gathers what the rails ask, from the record and the inventory, at one moment."""

from dataclasses import replace
from datetime import datetime

from service.app.ports import Reader
from service.domain.delivery import Breaker, RecordedAlert
from service.domain.node import Inventory
from service.domain.policy import Policy
from service.domain.rails import BLAST_RADIUS, PastRun, PoolLoad, Question, RailFacts
from service.domain.run import NodeRun
from service.domain.survey import Part

#: More of the past of a node is not looked at: the most attempts that a rule may allow are fewer.
PAST_RUNS = 200


def rail_facts(
    reader: Reader,
    alert: RecordedAlert,
    *,
    question: Question,
    inventory: Inventory,
    policy: Policy,
    now: datetime,
    owners: Part | None = None,
) -> RailFacts:
    """Return what is known; the rest is not asked for an alert that is known already: a storm is made of those."""
    earlier = reader.earlier(alert)
    if earlier is not None:
        return RailFacts(heard_at=alert.received_at, received_at=alert.received_at, earlier=earlier)
    name, breaker, pause = question.node, reader.breaker(BLAST_RADIUS), reader.pause()
    facts = RailFacts(
        heard_at=reader.heard_at(alert),
        received_at=alert.received_at,
        resolved_at=reader.resolved_at(alert),
        pause=pause,
        breaker=breaker,
        past=reader.past_runs(name, limit=PAST_RUNS),
        rebooted_at=reader.rebooted_at(name),
        pools=tuple(_load(pool, inventory, frozenset()) for pool in inventory.nodes[name].pools),
        owners=owners,
    )
    if pause is not None or breaker.latched:
        # Whatever else is true, it starts nothing.
        return facts
    disrupted = reader.disrupted_nodes() - {name}
    open_runs = reader.open_acting(node=name) if question.acts else ()
    return replace(
        facts,
        hold=reader.hold(name),
        busy=_past(open_runs[0]) if open_runs else None,
        disrupted=len(disrupted),
        in_window=reader.disrupted_since(_window_begin(policy, breaker, now=now)),
        pools=tuple(_load(pool, inventory, disrupted) for pool in inventory.nodes[name].pools),
    )


def _window_begin(policy: Policy, breaker: Breaker, *, now: datetime) -> datetime:
    window = now - policy.blast_radius.per_window.within
    return window if breaker.reset_at is None else max(window, breaker.reset_at)


def _load(pool: str, inventory: Inventory, disrupted: frozenset[str]) -> PoolLoad:
    touched = sum(name in disrupted for name, node in inventory.nodes.items() if pool in node.pools)
    return PoolLoad(pool, inventory.pool_size(pool), touched)


def _past(node_run: NodeRun) -> PastRun:
    return PastRun(
        node_run.run_id,
        node_run.runbook,
        rule="",
        dry_run=node_run.dry_run,
        acts=node_run.acts,
        state=node_run.state,
        created_at=node_run.created_at,
    )
