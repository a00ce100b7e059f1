"""The timeline of a node over all of its runs: what happened there, and who asked for it and why."""

from collections.abc import Iterator
from datetime import datetime

from service.app.ports import AuditFilter, Page, RunFilter
from service.app.service import Service
from service.app.timeline import BATCH, Entry, entry
from service.domain.audit import AuditEvent
from service.domain.errors import InvalidInput, NotFound
from service.domain.run import Run

#: So many events of a node make one timeline.
MOST_OF_A_NODE = 10_000
#: What a person said of a whole run is an event of no single node.
_OF_THE_WHOLE_RUN = "run.cancel_requested"


def node_entries(service: Service, node: str, *, since: datetime | None, until: datetime | None) -> tuple[Entry, ...]:
    """Return the lines of a node in order, with the request of each run that they are of, however early it was.

    Raises InvalidInput when the node has more than `MOST_OF_A_NODE` events, and NotFound when
    nothing at all is recorded of it and the inventory does not know it.
    """
    of_node = _events(service, AuditFilter(node=node, since=since, until=until))
    run_ids = dict.fromkeys(event.fact.run_id for event in of_node if event.fact.run_id)
    run_ids.update(dict.fromkeys(_requested(service, node, since=since, until=until)))
    found = {event.seq: event for event in of_node}
    for run_id in run_ids:
        said = AuditFilter(run_id=run_id, action=_OF_THE_WHOLE_RUN, since=since, until=until)
        for event in (*_request(service, run_id), *_events(service, said)):
            found[event.seq] = event
    if not found:
        _refuse_unknown(service, node)
    return tuple(entry(found[seq]) for seq in sorted(found))


def _events(service: Service, which: AuditFilter) -> list[AuditEvent]:
    found: list[AuditEvent] = []
    cursor: str | None = None
    while True:
        page = _page(service, which, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found
        if len(found) >= MOST_OF_A_NODE:
            about = f"Node {which.node}" if which.node is not None else f"Run {which.run_id}"
            reason = f"{about} has more than {MOST_OF_A_NODE} events in this time."
            raise InvalidInput(reason, "Narrow it with since and until.")


def _requested(service: Service, node: str, *, since: datetime | None, until: datetime | None) -> Iterator[str]:
    """Yield the runs that were requested on a node in a time: one that is queued has no event there yet."""
    cursor: str | None = None
    while True:
        page = _runs(service, node, cursor=cursor)
        for run in page.items:
            if since is not None and run.created_at < since:
                return
            if until is None or run.created_at < until:
                yield run.id
        cursor = page.next_cursor
        if cursor is None:
            return


def _page(service: Service, which: AuditFilter, *, cursor: str | None) -> Page[AuditEvent]:
    return service.store.read(lambda reader: reader.audit(which, cursor=cursor, limit=BATCH))


def _runs(service: Service, node: str, *, cursor: str | None) -> Page[Run]:
    return service.store.read(lambda reader: reader.runs(RunFilter(node=node), cursor=cursor, limit=BATCH))


def _request(service: Service, run_id: str) -> tuple[AuditEvent, ...]:
    """Return the first event of a run, which is its request."""
    first = service.store.read(lambda reader: reader.audit_after(0, run_id=run_id, limit=1))
    return tuple(event for event in first if event.fact.action == "run.requested")


def _refuse_unknown(service: Service, node: str) -> None:
    """Raise NotFound for a name that neither the record nor the inventory has."""
    ever = service.store.read(lambda reader: reader.audit(AuditFilter(node=node), cursor=None, limit=1))
    if not ever.items and node not in service.inventory.current().nodes:
        raise NotFound(
            f"Nothing is recorded of a node {node}, and the inventory does not know it either.",
            "`unstick nodes` lists the nodes.",
        )
