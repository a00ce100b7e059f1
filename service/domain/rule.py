"""Which alert starts which runbook, on which node: what a reviewed file says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from service.domain.alert import AlertSourceKind
from service.domain.condition import Condition
from service.domain.node import ExecutorKind, Inventory, Node
from service.domain.runbook import ParamValue
from service.domain.sweep import Sweep

#: What the expressions of a rule may use.
RULE_NAMES = frozenset({"alert"})


class NodeBy(StrEnum):
    """What the text that names a node is compared with."""

    NAME = "name"
    ADDRESS = "address"
    #: The id of an instance of AWS.
    INSTANCE = "instance"
    K8S_NAME = "k8s_name"
    SLURM_NAME = "slurm_name"


@dataclass(frozen=True)
class AlertSource:
    """One sender: how it is known, and how its words are read."""

    name: str
    kind: AlertSourceKind
    #: The token of role `source` that may deliver (Alertmanager, which signs nothing, and others that cannot).
    token: str | None = None
    #: Files with one secret each, absolute; two of them while a secret is changed.
    secret_files: tuple[str, ...] = ()
    #: Topics of SNS that are listened to.
    topics: tuple[str, ...] = ()
    #: Expressions over `body` and `item` by which a generic source is read: alerts, fingerprint, status, ...
    mapping: Mapping[str, Condition] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptBudget:
    """How often one rule may try one node."""

    most: int
    within: timedelta


#: What a rule that acts has where its file says nothing of it.
USUAL_ATTEMPTS = AttemptBudget(5, timedelta(hours=24))


@dataclass(frozen=True)
class Rule:
    """One line of the reviewed file: when, what, where, and how far without a person."""

    name: str
    when: Condition
    runbook: str
    #: Gives the text that names the node.
    node: Condition
    node_by: NodeBy = NodeBy.NAME
    #: Empty: any source.
    sources: tuple[str, ...] = ()
    #: A value as it stands, or an expression over the alert.
    params: Mapping[str, ParamValue | Condition] = field(default_factory=dict)
    #: Steps whose gate is answered beforehand.
    waive: tuple[str, ...] = ()
    #: A firing alert of one fingerprint and start is acted on once; of another start, once in this time.
    dedup: timedelta = timedelta(hours=1)
    #: After a run of this rule on a node has ended, the node is left in peace for so long.
    cooldown: timedelta = timedelta(0)
    #: An alert that is older when it arrives starts nothing.
    max_age: timedelta = timedelta(hours=1)
    attempts: AttemptBudget | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class RuleSet:
    """The whole file."""

    sources: Mapping[str, AlertSource] = field(default_factory=dict)
    #: In the order of the file; the first that matches decides.
    rules: tuple[Rule, ...] = ()
    sweeps: tuple[Sweep, ...] = ()


def nodes_named(inventory: Inventory, text: str, by: NodeBy) -> tuple[str, ...]:
    """Return the names of the nodes that a text means: none, one, or several, and then it is ambiguous.

    A port behind an address or a name, as in `gpu-17:9400`, is left out.
    """
    wanted = text.strip()
    if by in (NodeBy.NAME, NodeBy.ADDRESS):
        wanted = _without_port(wanted)
    if not wanted:
        return ()
    return tuple(sorted(node.name for node in inventory.nodes.values() if wanted in _words(node, by)))


def _without_port(text: str) -> str:
    """Return a host without its port; an IPv6 address has colons of its own, and brackets where a port follows."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, _, port = text.rpartition(":")
    return host if port.isdigit() and host and ":" not in host else text


def _words(node: Node, by: NodeBy) -> tuple[str, ...]:
    match by:
        case NodeBy.NAME:
            return (node.name,)
        case NodeBy.ADDRESS:
            return (node.endpoint.address,)
        case NodeBy.INSTANCE:
            known = node.attributes.get("instance", "")
            by_ssm = node.endpoint.address if node.endpoint.executor is ExecutorKind.SSM else ""
            return tuple(word for word in (known, by_ssm) if word)
        case NodeBy.K8S_NAME | NodeBy.SLURM_NAME:
            # A node without the attribute is known there by its own name.
            return (node.attributes.get(by.value, node.name),)
        case _:
            assert_never(by)
