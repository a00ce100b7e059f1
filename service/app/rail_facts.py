"""Gathers what the rails ask, from the record and the inventory, at one moment."""

from datetime import datetime

from service.app.ports import Reader
from service.domain.delivery import RecordedAlert
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
    name = question.node
    disrupted = reader.disrupted_nodes() - {name}
    breaker = reader.breaker(BLAST_RADIUS)
    window = now - policy.blast_radius.per_window.within
    since = window if breaker.reset_at is None else max(window, breaker.reset_at)
    open_runs = reader.open_acting(node=name) if question.acts else ()
    return RailFacts(
        heard_at=reader.heard_at(alert),
        received_at=alert.received_at,
        resolved_at=reader.resolved_at(alert),
        pause=reader.pause(),
        breaker=breaker,
        hold=reader.hold(name),
        busy=_past(open_runs[0]) if open_runs else None,
        past=reader.past_runs(name, limit=PAST_RUNS),
        rebooted_at=reader.rebooted_at(name),
        disrupted=len(disrupted),
        in_window=reader.disrupted_since(since),
        pools=tuple(_load(pool, inventory, disrupted) for pool in inventory.nodes[name].pools),
        owners=owners,
    )


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
