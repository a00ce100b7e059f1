"""The fleet as a person reads it: for each sweep its sums, and its nodes with the worst first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.app.ports import Reader
from service.app.service import Service
from service.app.sweep_fleet import FleetRow, covered_by, row_of, sweeps_named, titles_of
from service.domain.errors import InvalidInput
from service.domain.node import Node
from service.domain.sweep import NEVER, WORST_FIRST, Finding, NodeLook, Sweep, SweepState

#: Databases take only so many values in one question.
_NODES_OF_A_READ: Final = 1000


@dataclass(frozen=True)
class FleetSheet:
    """What one sweep has seen of its nodes."""

    sweep: Sweep
    #: None: the engine has not reckoned it yet.
    state: SweepState | None
    #: Title of each step that tells something, by id and in order.
    titles: Mapping[str, str]
    #: How many nodes there are of each finding, the worst first, those of other pages too; None: never looked at.
    sums: Mapping[Finding | None, int]
    rows: tuple[FleetRow, ...]
    next_cursor: str | None


def sheets(
    service: Service, *, pool: str | None = None, sweep: str | None = None, after: str | None = None, limit: int = 100
) -> tuple[FleetSheet, ...]:
    """Return each sweep with the next `limit` of its nodes, the worst first and then by name; NotFound.

    `after` is a `next_cursor` of the same sweep; InvalidInput when it is none. A node that became better or worse
    between two pages stands where it belongs by then, so it may be on both pages or on neither.
    """
    begin = _place_of(after) if after is not None else None
    states = {state.name: state for state in service.store.read(lambda reader: reader.sweep_states())}
    return tuple(
        _sheet(service, one, states.get(one.name), pool=pool, begin=begin, limit=limit)
        for one in sweeps_named(service, sweep)
    )


def _sheet(
    service: Service,
    sweep: Sweep,
    state: SweepState | None,
    *,
    pool: str | None,
    begin: tuple[int, str] | None,
    limit: int,
) -> FleetSheet:
    inventory = service.inventory.current()
    nodes = [inventory.nodes[name] for name in covered_by(service, sweep, inventory)]
    nodes = [node for node in nodes if pool in (None, *node.pools)]
    titles, looks = titles_of(service, sweep), _looks(service, sweep, nodes)
    rows = [row_of(node, sweep, titles=titles, look=looks.get(node.name), found=()) for node in nodes]
    sums = Counter(row.finding for row in rows)
    left = sorted((row for row in rows if begin is None or _place(row) > begin), key=_place)
    return FleetSheet(
        sweep,
        state,
        # A runbook that cannot be read has no titles; what was seen has its steps all the same.
        titles or {step.step: step.step for row in rows if row.look is not None for step in row.look.steps},
        {finding: sums[finding] for finding in WORST_FIRST if sums[finding]},
        _dated(service, sweep, left[:limit]),
        _cursor(left[limit - 1]) if len(left) > limit else None,
    )


def _dated(service: Service, sweep: Sweep, rows: Sequence[FleetRow]) -> tuple[FleetRow, ...]:
    """Return the rows of a page with the times since when something is found."""
    names = [row.node for row in rows if row.look is not None]
    found = service.store.read(lambda reader: reader.open_findings(names, [sweep.name])) if names else ()
    since = {name: {one.step: one.since for one in found if one.node == name} for name in names}
    return tuple(replace(row, since=since.get(row.node, {})) for row in rows)


def _looks(service: Service, sweep: Sweep, nodes: Sequence[Node]) -> dict[str, NodeLook]:
    """Return the newest looks by node, however large the fleet is."""
    looks: dict[str, NodeLook] = {}
    for first in range(0, len(nodes), _NODES_OF_A_READ):
        names = [node.name for node in nodes[first : first + _NODES_OF_A_READ]]

        def look(reader: Reader, names: Sequence[str] = names) -> Sequence[NodeLook]:
            return reader.looks(names, [sweep.name])

        looks |= {one.node: one for one in service.store.read(look)}
    return looks


def _place(row: FleetRow) -> tuple[int, str]:
    return WORST_FIRST.index(row.finding), row.node


def _cursor(row: FleetRow) -> str:
    return f"{_word(row.finding)}.{row.node}"


def _place_of(cursor: str) -> tuple[int, str]:
    """Return where a page begins; InvalidInput when no page has ended so."""
    word, _, node = cursor.partition(".")
    places = {_word(finding): place for place, finding in enumerate(WORST_FIRST)}
    if word not in places or not node:
        raise InvalidInput("The cursor is none of this list.", "Leave it out: the first page comes then.")
    return places[word], node


def _word(finding: Finding | None) -> str:
    return finding.value if finding is not None else NEVER
