"""Nodes of a Kubernetes cluster: `kubectl get nodes -o json`, run on its controller with the controller's own env."""

import json
import re
import shlex
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.domain.errors import SourceSilent
from service.inventory.schema import INSTANCE
from service.inventory.source import MOST_FOUND, AskController, Found, KubernetesQuestion, SourceAnswer, gather
from service.inventory.wrapped import WRAP, unwrap

_SECONDS = timedelta(seconds=45)
#: As the cloud's controller writes it: `aws:///eu-central-1a/i-0123456789abcdef0` (cloud-provider-aws, docs).
_PROVIDER = re.compile(r"aws://[^/]*/[^/]*/([a-z0-9-]+)")
# Another cluster's nodes must never be taken for this one's.
_RIGHT_CLUSTER = """\
if [ -n "${KUBE_SYSTEM_UID-}" ]; then
  uid=$(kubectl --request-timeout=15s get namespace kube-system -o 'jsonpath={.metadata.uid}')
  [ "$uid" = "$KUBE_SYSTEM_UID" ] || { echo "wrong cluster: its kube-system has the UID $uid" >&2; exit 2; }
fi
"""


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Metadata(_Lenient):
    name: str
    labels: dict[str, str] = Field(default_factory=dict)


class _Spec(_Lenient):
    providerID: str = ""  # noqa: N815 - the cluster's word
    unschedulable: bool = False


class _Address(_Lenient):
    type: str
    address: str


class _Condition(_Lenient):
    type: str
    status: str


class _Status(_Lenient):
    addresses: list[_Address] = Field(default_factory=list)
    conditions: list[_Condition] = Field(default_factory=list)


class _Node(_Lenient):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _NodeList(_Lenient):
    items: list[_Node] = Field(max_length=MOST_FOUND)


class KubernetesLook:
    """Asks one cluster."""

    def __init__(self, question: KubernetesQuestion, ask: AskController) -> None:
        """Take what to ask, and the way to the controller."""
        self._question = question
        self._ask = ask

    def __call__(self) -> SourceAnswer:
        """Return every node; SourceSilent when kubectl failed, or said what cannot be read."""
        selector = f" --selector={shlex.quote(self._question.selector)}" if self._question.selector else ""
        script = f"{_RIGHT_CLUSTER}kubectl --request-timeout=30s get nodes{selector} -o json | {WRAP}\n"
        return read_nodes(unwrap(self._ask(self._question.controller, script, _SECONDS)), self._question)


def read_nodes(text: bytes, question: KubernetesQuestion) -> SourceAnswer:
    """Return the nodes of a NodeList in JSON; SourceSilent when it is none."""
    try:
        nodes = _NodeList.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError) as error:
        raise SourceSilent(
            f"What kubectl says on {question.controller.name} is no list of nodes.",
            f"Look with `kubectl get nodes -o json` on {question.controller.name}.",
        ) from error
    return gather(_found(node, question) for node in nodes.items)


def _found(node: _Node, question: KubernetesQuestion) -> Found:
    labels = node.metadata.labels
    attributes = {name: labels[label] for name, label in question.attributes.items() if labels.get(label)}
    return Found(
        node.metadata.name,
        instance=_instance(node.spec.providerID),
        address=_address(node.status.addresses),
        pools=tuple(labels[label] for label in question.pools if labels.get(label)),
        attributes={**attributes, "k8s_name": node.metadata.name},
        hints={
            "k8s_ready": next((one.status for one in node.status.conditions if one.type == "Ready"), "Unknown"),
            "k8s_cordoned": "yes" if node.spec.unschedulable else "no",
        },
    )


def _instance(provider: str) -> str | None:
    match = _PROVIDER.fullmatch(provider)
    return match.group(1) if match is not None and INSTANCE.fullmatch(match.group(1)) else None


def _address(addresses: list[_Address]) -> str | None:
    """Return where sshd is reached: the inner address, else a name that is resolved."""
    for kind in ("InternalIP", "InternalDNS", "Hostname"):
        for one in addresses:
            if one.type == kind and one.address:
                return one.address
    return None
