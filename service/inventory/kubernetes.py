"""Nodes of a Kubernetes cluster: `kubectl get nodes`, run on its controller with the controller's own env."""

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import timedelta

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
# kubectl prints what is read and nothing else, for the nodes' images alone would not fit into what is kept of a script;
# and by columns, each node a line, since that packs best. Free text is quoted as Go does (%q) and so stays on its line;
# the rest cannot hold a line's end (kubernetes.io, docs: Object Names; Labels and Selectors).
_QUOTED = re.compile(r'(?:"(?:[^"\\\x00-\x1f\x7f]|\\.)*")?')
_VALUE = re.compile(r"[A-Za-z0-9._-]{0,63}")
_VALUE_OF = '{{with .metadata.labels}}{{with index . "LABEL"}}{{.}}{{end}}{{end}}'
_ADDRESS_OF = '{{if and (not $a) (eq .type "KIND")}}{{with .address}}{{$a = .}}{{end}}{{end}}'
_READY = (
    '{{$r := "Unknown"}}{{with .status}}{{range .conditions}}{{if eq .type "Ready"}}{{$r = .status}}{{end}}'
    "{{end}}{{end}}{{$r}}"
)
#: Where sshd is reached: the inner address, else a name that is resolved.
_ADDRESSES = "".join(
    f"{{{{range .addresses}}}}{_ADDRESS_OF.replace('KIND', kind)}{{{{end}}}}"
    for kind in ("InternalIP", "InternalDNS", "Hostname")
)
#: What is printed of a node ahead of its labels, and what each line of it must be.
_COLUMNS = (
    ("{{.metadata.name}}", re.compile(r"[a-z0-9.-]{1,253}")),
    (_READY, re.compile("True|False|Unknown")),
    ("{{with .spec}}{{if .unschedulable}}yes{{else}}no{{end}}{{else}}no{{end}}", re.compile("yes|no")),
    ('{{with .spec}}{{with .providerID}}{{printf "%q" .}}{{end}}{{end}}', _QUOTED),
    (
        f'{{{{$a := ""}}}}{{{{with .status}}}}{_ADDRESSES}{{{{end}}}}{{{{with $a}}}}{{{{printf "%q" .}}}}{{{{end}}}}',
        _QUOTED,
    ),
)


class KubernetesLook:
    """Asks one cluster."""

    def __init__(self, question: KubernetesQuestion, ask: AskController) -> None:
        """Take what to ask, and the way to the controller."""
        self._question = question
        self._ask = ask

    def __call__(self) -> SourceAnswer:
        """Return every node; SourceSilent when kubectl failed, or said what cannot be read."""
        selector = f" --selector={shlex.quote(self._question.selector)}" if self._question.selector else ""
        wanted = f"--output={shlex.quote(f'go-template={_template(self._question)}')}"
        script = f"{_RIGHT_CLUSTER}kubectl --request-timeout=30s get nodes{selector} {wanted} | {WRAP}\n"
        return read_nodes(unwrap(self._ask(self._question.controller, script, _SECONDS)), self._question)


def read_nodes(text: bytes, question: KubernetesQuestion) -> SourceAnswer:
    """Return the nodes of a listing by columns; SourceSilent when it is none, or not whole."""
    labels = _labels(question)
    columns = _columns(text, (*(pattern for _, pattern in _COLUMNS), *(_VALUE for _ in labels)))
    if columns is None:
        raise SourceSilent(
            f"What kubectl says on {question.controller.name} is no list of nodes, or not the whole.",
            f"Look with `kubectl get nodes` on {question.controller.name}.",
        )
    rows = zip(*columns, strict=True)
    first = len(_COLUMNS)
    return gather(_found(row[:first], dict(zip(labels, row[first:], strict=True)), question) for row in rows)


def _labels(question: KubernetesQuestion) -> tuple[str, ...]:
    """Return the labels that are read, each once, in the order of their columns."""
    return tuple(dict.fromkeys((*question.attributes.values(), *question.pools)))


def _template(question: KubernetesQuestion) -> str:
    """Return what kubectl prints: the columns and, last, how many nodes there are."""
    shown = (*(column for column, _ in _COLUMNS), *(_VALUE_OF.replace("LABEL", label) for label in _labels(question)))
    columns = (f'{{{{range .items}}}}{one}{{{{"\\n"}}}}{{{{end}}}}' for one in shown)
    return "".join(columns) + '{{len .items}} nodes{{"\\n"}}'


def _columns(text: bytes, patterns: Sequence[re.Pattern[str]]) -> list[list[str]] | None:
    """Return the columns; None when a line is not what it must be, or the last does not tell their count."""
    lines = text.decode("utf-8", "replace").split("\n")
    count, over = divmod(len(lines) - 2, len(patterns))
    if over or count > MOST_FOUND or lines[-2:] != [f"{count} nodes", ""]:
        return None
    columns = [lines[number * count : (number + 1) * count] for number in range(len(patterns))]
    right = all(pattern.fullmatch(line) for pattern, column in zip(patterns, columns, strict=True) for line in column)
    return columns if right else None


def _found(told: Sequence[str], labels: Mapping[str, str], question: KubernetesQuestion) -> Found:
    name, ready, cordoned, provider, address = told
    attributes = {word: labels[label] for word, label in question.attributes.items() if labels[label]}
    return Found(
        name,
        instance=_instance(provider[1:-1]),
        # What had to be escaped is no address.
        address=address[1:-1] if address and "\\" not in address else None,
        pools=tuple(labels[label] for label in question.pools if labels[label]),
        attributes={**attributes, "k8s_name": name},
        hints={"k8s_ready": ready, "k8s_cordoned": cordoned},
    )


def _instance(provider: str) -> str | None:
    match = _PROVIDER.fullmatch(provider)
    return match.group(1) if match is not None and INSTANCE.fullmatch(match.group(1)) else None
