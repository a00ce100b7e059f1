"""Puts the file and what sources said together: the file wins; what is not clear is refused, never guessed. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.domain.node import Endpoint, ExecutorKind, Inventory, Node, SourceState
from service.inventory.source import SourceAnswer, Template


@dataclass(frozen=True)
class SourceReport:
    """One source: how its nodes are reached, what it last said, and how it stands."""

    template: Template
    #: None: it never answered.
    answer: SourceAnswer | None
    state: SourceState


@dataclass
class _Offers:
    """What all sources offer, by name."""

    nodes: dict[str, list[Node]]
    refused: dict[str, list[str]]


def merge(file: Inventory, reports: Sequence[SourceReport]) -> Inventory:
    """Return every node that is one machine beyond doubt, and the names that are not, with the reason."""
    offers = _offers(reports)
    nodes: dict[str, Node] = {}
    refused = {name: " ".join(reasons) for name, reasons in offers.refused.items()}
    for name, several in offers.nodes.items():
        one = _agreed(several)
        if isinstance(one, str):
            refused[name] = f"{refused[name]} {one}" if name in refused else one
        else:
            nodes[name] = one
    _refuse_second_names(file, nodes, refused=refused)
    known = {name: node for name, node in nodes.items() if name not in refused}
    # Hints of a machine go to its name in the file, whatever its source calls it.
    hints = {_machine(node.endpoint): node.hints for node in nodes.values()}
    named = {
        name: _overlaid(node, known.get(name), hints.get(_machine(node.endpoint), {}))
        for name, node in file.nodes.items()
    }
    return Inventory(
        {**known, **named},
        file.controllers,
        {name: reason for name, reason in sorted(refused.items()) if name not in file.nodes},
        tuple(report.state for report in reports),
        file.problem,
    )


def _offers(reports: Sequence[SourceReport]) -> _Offers:
    offers = _Offers(defaultdict(list), defaultdict(list))
    for report in reports:
        answer = report.answer or SourceAnswer()
        source = report.state.name
        for name, reason in answer.refused.items():
            offers.refused[name].append(f"By the source {source} {reason}")
        for name, found in answer.found.items():
            node = report.template.node(found, source=source)
            if isinstance(node, str):
                offers.refused[name].append(node)
            else:
                offers.nodes[name].append(node)
    return offers


def _agreed(offered: Sequence[Node]) -> Node | str:
    """Return the node that several sources mean, or at what they disagree."""
    first, *others = offered
    for other in others:
        disagreement = _disagreement(first, other)
        if disagreement is not None:
            return disagreement
        first = replace(
            first,
            pools=tuple(dict.fromkeys((*first.pools, *other.pools))),
            controller=first.controller or other.controller,
            attributes={**first.attributes, **other.attributes},
            sources=(*first.sources, *other.sources),
            hints={**first.hints, **other.hints},
        )
    return first


def _disagreement(one: Node, other: Node) -> str | None:
    sides = f"{', '.join(one.sources)} and {', '.join(other.sources)}"
    if _machine(one.endpoint) != _machine(other.endpoint):
        return f"{sides} disagree on which machine {one.name} is: {_shown(one.endpoint)}, {_shown(other.endpoint)}."
    if one.endpoint != other.endpoint:
        return f"{sides} disagree on how {one.name} is reached."
    if one.controller and other.controller and one.controller != other.controller:
        return f"{sides} disagree on the controller of {one.name}: {one.controller}, {other.controller}."
    for word, value in one.attributes.items():
        if other.attributes.get(word, value) != value:
            return f"{sides} disagree on {word} of {one.name}: {value}, {other.attributes[word]}."
    return None


def _refuse_second_names(file: Inventory, nodes: Mapping[str, Node], *, refused: dict[str, str]) -> None:
    """Refuse every name but the file's for a machine: two names would let two runs act on it at once."""
    names: dict[object, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        if name not in file.nodes:
            names[_machine(node.endpoint)].append(name)
    by_file = {_machine(node.endpoint): name for name, node in file.nodes.items()}
    for machine, several in names.items():
        if machine in by_file:
            for name in several:
                refused[name] = f"{name} is the machine that inventory.yaml calls {by_file[machine]}."
        elif len(several) > 1:
            for name in several:
                others = ", ".join(sorted(set(several) - {name}))
                refused[name] = f"{name} is one machine with {others}: both are {_shown(nodes[name].endpoint)}."


def _overlaid(node: Node, offered: Node | None, hints: Mapping[str, str]) -> Node:
    """Return a node of the file with what it does not say itself, from sources that agree."""
    if offered is None:
        return replace(node, hints=hints)
    return replace(
        node,
        pools=node.pools or offered.pools,
        controller=node.controller or offered.controller,
        attributes={**offered.attributes, **node.attributes},
        hints={**offered.hints, **hints},
    )


def _machine(endpoint: Endpoint) -> tuple[object, ...]:
    return endpoint.executor, endpoint.address, endpoint.port, endpoint.jump


def _shown(endpoint: Endpoint) -> str:
    port = f":{endpoint.port}" if endpoint.executor is ExecutorKind.SSH else ""
    return f"{endpoint.executor} {endpoint.address}{port}"
