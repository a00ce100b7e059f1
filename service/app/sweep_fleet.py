"""The fleet: of each node and sweep the newest look. One sees who would need what, and of whom nothing is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.app.ports import Reader
from service.app.service import Service
from service.domain.errors import NotFound, UnstickError
from service.domain.node import Inventory, Node
from service.domain.runbook import Runbook
from service.domain.sweep import NodeLook, OpenFinding, Sweep, SweepState, applies, columns


@dataclass(frozen=True)
class FleetRow:
    """One node in the eyes of one sweep."""

    node: str
    pools: tuple[str, ...]
    sweep: str
    runbook: str
    #: Title of each step that tells something, by id and in order.
    titles: Mapping[str, str]
    #: None: it was never looked at.
    look: NodeLook | None
    #: Since when it is found, for each step of which something is.
    since: Mapping[str, datetime]


@dataclass(frozen=True)
class SweepShown:
    """One sweep, and how its schedule stands."""

    sweep: Sweep
    #: None: the engine has not reckoned it yet.
    state: SweepState | None
    nodes: int


def list_sweeps(service: Service) -> tuple[SweepShown, ...]:
    """Return every sweep of the file, in its order."""
    inventory = service.inventory.current()
    states = {state.name: state for state in service.store.read(lambda reader: reader.sweep_states())}
    return tuple(
        SweepShown(one, states.get(one.name), len(_covered(service, one, inventory)))
        for one in service.rules.current().sweeps
    )


def fleet(
    service: Service, *, pool: str | None = None, sweep: str | None = None, after: str | None = None, limit: int = 200
) -> tuple[tuple[FleetRow, ...], str | None]:
    """Return the rows of the next `limit` nodes by name, and the last name when more follow; NotFound.

    Each node has a row for each sweep that means it. Old runs are not looked at.
    """
    inventory = service.inventory.current()
    sweeps = _sweeps(service, sweep)
    covered = {one.name: _covered(service, one, inventory) for one in sweeps}
    meant = {name for names in covered.values() for name in names}
    names = sorted(name for name in meant if pool in (None, *inventory.nodes[name].pools))
    left = [name for name in names if after is None or name > after]
    page, sweep_names = left[:limit], [one.name for one in sweeps]

    def look(reader: Reader) -> tuple[Sequence[NodeLook], Sequence[OpenFinding]]:
        return reader.looks(page, sweep_names), reader.open_findings(page, sweep_names)

    looks, found = service.store.read(look) if page else ((), ())
    seen = {(one.node, one.sweep): one for one in looks}
    titles = {one.name: _titles(_runbook(service, one)) for one in sweeps}
    rows = tuple(
        _row(inventory.nodes[name], one, titles=titles[one.name], look=seen.get((name, one.name)), found=found)
        for name in page
        for one in sweeps
        if name in covered[one.name]
    )
    return rows, page[-1] if len(left) > limit else None


def _row(
    node: Node, sweep: Sweep, *, titles: Mapping[str, str], look: NodeLook | None, found: Sequence[OpenFinding]
) -> FleetRow:
    # What another runbook has seen under this name is no look of this sweep.
    seen = look if look is not None and look.runbook == sweep.runbook else None
    since = {one.step: one.since for one in found if (one.node, one.sweep) == (node.name, sweep.name)}
    return FleetRow(node.name, node.pools, sweep.name, sweep.runbook, titles, seen, since if seen is not None else {})


def _sweeps(service: Service, name: str | None) -> tuple[Sweep, ...]:
    sweeps = service.rules.current().sweeps
    if name is None:
        return sweeps
    chosen = tuple(one for one in sweeps if one.name == name)
    if not chosen:
        raise NotFound(f"There is no sweep {name}.", "`unstick sweeps` (GET /api/v1/sweeps) lists them.")
    return chosen


def _covered(service: Service, sweep: Sweep, inventory: Inventory) -> frozenset[str]:
    runbook = _runbook(service, sweep)
    return frozenset(
        node.name
        for node in inventory.nodes.values()
        if sweep.covers(node) and (runbook is None or applies(runbook, node, inventory=inventory))
    )


def _runbook(service: Service, sweep: Sweep) -> Runbook | None:
    try:
        return service.runbooks.get(sweep.runbook)[0]
    except UnstickError:
        # The sweep is skipped then, and says why; what was seen before is shown all the same.
        return None


def _titles(runbook: Runbook | None) -> Mapping[str, str]:
    return {} if runbook is None else {step.id: step.title for step in columns(runbook)}
