"""The fleet: of each node and sweep the newest look. One sees who would need what, and of whom nothing is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.app.ports import Reader
from service.app.service import Service
from service.domain.errors import NotFound, UnstickError
from service.domain.node import Inventory, Node
from service.domain.runbook import Runbook
from service.domain.sweep import Finding, NodeLook, OpenFinding, Sweep, SweepState, applies, columns


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

    @property
    def finding(self) -> Finding | None:
        """Return what is known of the node as a whole; None: it was never looked at, or never at one of the steps."""
        if self.look is None:
            return None
        told = {one.step for one in self.look.steps}
        at_ease = self.look.finding in (Finding.FINE, Finding.NOT_ASKED)
        # The runbook has got a step since: nobody has seen that one fine.
        return None if at_ease and not told.issuperset(self.titles) else self.look.finding


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
        SweepShown(one, states.get(one.name), len(covered_by(service, one, inventory)))
        for one in service.rules.current().sweeps
    )


def fleet(
    service: Service, *, pool: str | None = None, sweep: str | None = None, after: str | None = None, limit: int = 200
) -> tuple[tuple[FleetRow, ...], str | None]:
    """Return the rows of the next `limit` nodes by name, and the last name when more follow; NotFound.

    Each node has a row for each sweep that means it. Old runs are not looked at.
    """
    inventory = service.inventory.current()
    sweeps = sweeps_named(service, sweep)
    covered = {one.name: covered_by(service, one, inventory) for one in sweeps}
    meant = {name for names in covered.values() for name in names}
    names = sorted(name for name in meant if pool in (None, *inventory.nodes[name].pools))
    left = [name for name in names if after is None or name > after]
    page, sweep_names = left[:limit], [one.name for one in sweeps]

    def look(reader: Reader) -> tuple[Sequence[NodeLook], Sequence[OpenFinding]]:
        return reader.looks(page, sweep_names), reader.open_findings(page, sweep_names)

    looks, found = service.store.read(look) if page else ((), ())
    seen = {(one.node, one.sweep): one for one in looks}
    titles = {one.name: titles_of(service, one) for one in sweeps}
    rows = tuple(
        row_of(inventory.nodes[name], one, titles=titles[one.name], look=seen.get((name, one.name)), found=found)
        for name in page
        for one in sweeps
        if name in covered[one.name]
    )
    return rows, page[-1] if len(left) > limit else None


def row_of(
    node: Node, sweep: Sweep, *, titles: Mapping[str, str], look: NodeLook | None, found: Sequence[OpenFinding]
) -> FleetRow:
    """Return one row; of `found` what is open on this node in the eyes of this sweep."""
    # What another runbook has seen under this name is no look of this sweep.
    seen = look if look is not None and look.runbook == sweep.runbook else None
    since = {one.step: one.since for one in found if (one.node, one.sweep) == (node.name, sweep.name)}
    return FleetRow(node.name, node.pools, sweep.name, sweep.runbook, titles, seen, since if seen is not None else {})


def sweeps_named(service: Service, name: str | None) -> tuple[Sweep, ...]:
    """Return the sweep of this name alone, or all of them; NotFound."""
    sweeps = service.rules.current().sweeps
    if name is None:
        return sweeps
    chosen = tuple(one for one in sweeps if one.name == name)
    if not chosen:
        raise NotFound(f"There is no sweep {name}.", "`unstick sweeps` (GET /api/v1/sweeps) lists them.")
    return chosen


def covered_by(service: Service, sweep: Sweep, inventory: Inventory) -> frozenset[str]:
    """Return the names of the nodes that a sweep means and that its runbook fits."""
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


def titles_of(service: Service, sweep: Sweep) -> Mapping[str, str]:
    """Return the title of each step of which a look tells, by id and in order; of a broken runbook none."""
    runbook = _runbook(service, sweep)
    return {} if runbook is None else {step.id: step.title for step in columns(runbook)}
