"""Refuse what a person may not do, in the transaction that would do it."""

from collections.abc import Iterable

from service.app.service import Service
from service.domain.errors import Forbidden
from service.domain.person import Permission, Person
from service.domain.rights import EVERY_NODE, About, Answer, may
from service.domain.run import NodeRun


def answer_for(service: Service, person: Person, permission: Permission, *, about: About) -> Answer:
    """Return whether a person may do this, under the policy as it is now; ConfigInvalid where there is none."""
    policy = service.policy.current()
    return may(person, permission, about=about, rights=policy.rights, break_glass_off=policy.break_glass_off)


def insist(service: Service, person: Person, permission: Permission, *, about: About = EVERY_NODE) -> None:
    """Raise Forbidden when a person may not do this, with what refuses it and the way out."""
    answer = answer_for(service, person, permission, about=about)
    if not answer.allowed:
        raise Forbidden(answer.why, answer.way_out)


def insist_on_nodes(service: Service, person: Person, permission: Permission, *, node_runs: Iterable[NodeRun]) -> None:
    """Raise Forbidden when a person may not do this on one of these nodes, which the reason names."""
    seen: set[tuple[str, frozenset[str]]] = set()
    for node_run in node_runs:
        about = about_node_run(node_run)
        # A run may have thousands of nodes, and they are in few pools.
        if (node_run.runbook, about.pools or frozenset()) not in seen:
            insist(service, person, permission, about=about)
            seen.add((node_run.runbook, about.pools or frozenset()))


def about_node_run(node_run: NodeRun) -> About:
    """Return what a node run is about. Its pools are those of the plan, whatever the inventory says by now."""
    return About(node_run.runbook, planned_pools(node_run), node_run.node, node_run.run_id)


def about_node(service: Service, node: str) -> About:
    """Return what is about a node and every runbook; one that the inventory does not know is in no pool."""
    known = service.inventory.current().nodes.get(node)
    return About(None, frozenset(known.pools if known is not None else ()), node)


def planned_pools(node_run: NodeRun) -> frozenset[str]:
    """Return the pools that a node was in when its node run was planned."""
    pools = node_run.attributes.get("pools", ())
    return frozenset(pools if isinstance(pools, list | tuple) else ())
