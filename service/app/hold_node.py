"""Hold and release a node: a person says hands off, until when and why."""

from dataclasses import dataclass
from datetime import datetime

from service.app.insist import about_node, insist
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.delivery import HeldBy
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.person import Permission, Person
from service.domain.run import Hold, NodeRunState
from service.domain.shown_text import is_blank


@dataclass(frozen=True)
class Held:
    """A hold, and what it has reached."""

    hold: Hold
    #: Runs on this node that end without doing anything more.
    stopped_runs: tuple[str, ...]
    #: Runs that are acting at this moment, or whose outcome is unknown: they go on.
    running_runs: tuple[str, ...]


def hold_node(
    service: Service, node: str, *, person: Person, reason: str, until: datetime | None = None, replace: bool = False
) -> Held:
    """Put a node on hold; queued and waiting node runs end, a running one goes on and is named.

    Raises NotFound, Forbidden, InvalidInput without a reason or with an end in the past, and Conflict when
    the node is on hold already and that hold is not to be replaced.
    """
    if node not in service.inventory.current().nodes:
        raise NotFound(f"There is no node {node} in the inventory.", "`unstick nodes` lists the nodes.")
    if is_blank(reason):
        raise InvalidInput("A hold needs a reason.", "Say why nobody may touch this node.")
    now = service.clock.now()
    if until is not None and until <= now:
        raise InvalidInput("The hold would end in the past.", "Give a later time.")

    def record(transaction: Transaction) -> Held:
        insist(service, person, Permission.HOLD, about=about_node(service, node))
        before = _active_hold(transaction, node, now=now)
        if before is not None and not replace:
            raise _refusal(before, person=person)
        hold = Hold(node, person.name, reason, now, until)
        transaction.put_hold(hold)
        body = {"reason": reason, "until": until.isoformat() if until else None}
        if before is not None:
            body["in_place_of"] = before.words
        transaction.append(Fact("node.held", f"node/{node}", person.name, node=node, body=body))
        on_node = transaction.open_acting(node=node)
        quiet = [one for one in on_node if one.state in (NodeRunState.QUEUED, NodeRunState.WAITING)]
        for node_run in quiet:
            why = f"node {node} is {hold.words}"
            transaction.request_cancel(node_run.id, by=person.name, reason=why)
        transaction.wake([one.id for one in quiet], at=now)
        going = tuple(one.run_id for one in on_node if one not in quiet)
        return Held(hold, tuple(one.run_id for one in quiet), going)

    held = service.store.write(record)
    service.wake_engine()
    return held


def release_node(service: Service, node: str, *, person: Person, reason: str = "") -> Hold:
    """End the hold of a node, whoever set it, and return it; Forbidden, and Conflict when there is none."""

    def record(transaction: Transaction) -> Hold:
        insist(service, person, Permission.HOLD, about=about_node(service, node))
        hold = transaction.hold(node)
        if hold is None:
            raise Conflict(f"Node {node} is not on hold.", "There is nothing to release.")
        transaction.remove_hold(node)
        transaction.wake_alerts(at=service.clock.now(), node=node, held_by=HeldBy.HOLD)
        body = {"reason": reason, "it_was": hold.words}
        transaction.append(Fact("node.released", f"node/{node}", person.name, node=node, body=body))
        return hold

    released = service.store.write(record)
    service.wake_engine()
    return released


def _active_hold(reader: Reader, node: str, *, now: datetime) -> Hold | None:
    hold = reader.hold(node)
    return hold if hold is not None and hold.active(now) else None


def _refusal(hold: Hold, *, person: Person) -> Conflict:
    again = f"`unstick hold {hold.node} --replace --reason ...`"
    if hold.by == person.name:
        way_out = f"It is your own: {again} changes it."
    else:
        way_out = f"Ask {hold.by}; {again} takes it from {hold.by}, and the record says so."
    return Conflict(f"Node {hold.node} is {hold.words}", way_out)
