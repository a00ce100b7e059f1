"""What a source is asked, and what it says: the same values for every kind of source. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from service.domain.node import Controller, Endpoint, ExecutorKind, Node, SourceKind
from service.inventory.node_sets import NAME

#: An inventory of more is not kept in one process.
MOST_FOUND = 20_000


@dataclass(frozen=True)
class SsmQuestion:
    """The managed instances of one account and region."""

    region: str | None
    profile: str | None
    #: `KEY=VALUE`
    tag: str | None = None
    #: Names that are looked up by the tag Name; empty: by what the machine calls itself.
    names: tuple[str, ...] = ()
    #: The tag (`KEY=VALUE`) of each pool.
    pools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KubernetesQuestion:
    """The nodes of one cluster."""

    controller: Controller
    selector: str | None = None
    #: The label of each attribute.
    attributes: Mapping[str, str] = field(default_factory=dict)
    pools: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlurmQuestion:
    """The nodes of one Slurm cluster."""

    controller: Controller


Question = SsmQuestion | KubernetesQuestion | SlurmQuestion


@dataclass(frozen=True)
class Found:
    """One machine as a source tells of it. How it is reached is never its to say, but for the address."""

    name: str
    #: `i-...` or `mi-...`, where the source knows it.
    instance: str | None = None
    #: A host name or an IP address.
    address: str | None = None
    pools: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceAnswer:
    """All that a source said at one moment."""

    found: Mapping[str, Found] = field(default_factory=dict)
    #: Names that stand for several machines, or that no machine may have.
    refused: Mapping[str, str] = field(default_factory=dict)


#: Asks once and returns within a bound; SourceSilent says why nothing is known.
Look = Callable[[], SourceAnswer]
#: Runs a script that only reads on a controller and returns its output; SourceSilent. The time is that of the script.
AskController = Callable[[Controller, str, timedelta], bytes]


#: What a node by SSM must be told to have; a cluster's nodes on no cloud, or on another, have none.
_INSTANCE_ID = "instance id (where Kubernetes is asked: a providerID of AWS)"


@dataclass(frozen=True)
class Template:
    """How the nodes of a source are reached, by the file."""

    endpoint: Endpoint
    pools: tuple[str, ...] = ()
    controller: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def node(self, found: Found, *, source: str) -> Node | str:
        """Return the node, or why it cannot be reached as the file wants."""
        by_ssm = self.endpoint.executor is ExecutorKind.SSM
        address = found.instance if by_ssm else found.address
        if address is None:
            return f"The source {source} tells no {_INSTANCE_ID if by_ssm else 'address'} of {found.name}."
        attributes = {word: value.replace("{name}", found.name) for word, value in self.attributes.items()}
        return Node(
            found.name,
            replace(self.endpoint, name=found.name, address=address),
            pools=tuple(dict.fromkeys((*self.pools, *found.pools))),
            controller=self.controller,
            attributes={**found.attributes, **attributes},
            sources=(source,),
            hints=found.hints,
        )


@dataclass(frozen=True)
class SourceConfig:
    """One source as the file has it."""

    name: str
    kind: SourceKind
    question: Question
    template: Template
    refresh: timedelta
    stale_after: timedelta


def gather(found: Iterable[Found]) -> SourceAnswer:
    """Return what a source said by name; a name of several machines is refused with all of them, in any order."""
    by_name: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        by_name[one.name].append(one)
    kept: dict[str, Found] = {}
    refused: dict[str, str] = {}
    for name, several in by_name.items():
        if not NAME.fullmatch(name):
            refused[name[:253]] = f"{name[:253]!r} is no name of a machine."
        elif len(several) > 1:
            machines = sorted(str(one.instance or one.address) for one in several)
            refused[name] = f"{name} is the name of {len(several)} machines: {', '.join(machines)}."
        else:
            kept[name] = several[0]
    return SourceAnswer(kept, refused)
