"""The words of `node_sources` in inventory.yaml, and of the whole file."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from service.domain.node import ExecutorKind
from service.inventory.node_sets import expand
from service.inventory.schema import ControllerWords, NodeWords, Word, Words

#: Of Kubernetes: `[prefix/]name` (kubernetes.io/docs/concepts/overview/working-with-objects/labels).
_LABEL = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SELECTOR = re.compile(r"[A-Za-z0-9/._,=!() -]+")
#: A name by tag costs a call of AWS each time.
MOST_NAMES_BY_TAG = 500


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError(f"`{text}` is no key of a label.")
    return text


def _selector(text: str) -> str:
    if not _SELECTOR.fullmatch(text):
        raise ValueError(f"`{text}` is no label selector, such as `nvidia.com/gpu.present=true`.")
    return text


def _tag(text: str) -> str:
    key, equals, value = text.partition("=")
    if not key or not equals or not value:
        raise ValueError(f"`{text}` is no tag; write it as `KEY=VALUE`.")
    return text


def _set(text: str) -> str:
    expand(text)
    return text


Label = Annotated[Word, AfterValidator(_label)]
Tag = Annotated[Word, AfterValidator(_tag)]
NodeSet = Annotated[Word, AfterValidator(_set)]


class TemplateWords(NodeWords):
    """How the nodes of a source are reached: what a source says of a node never has users, keys or jump hosts."""

    @model_validator(mode="after")
    def _address_is_the_sources(self) -> "TemplateWords":
        for word in ("address", "instance"):
            if word in self.model_fields_set:
                raise ValueError(f"`{word}` is what the source says; remove it.")
        if self.executor is ExecutorKind.LOCAL:
            raise ValueError("with `executor: local` all nodes would be this machine; write ssh or ssm.")
        return self


class _SourceWords(Words):
    node: TemplateWords
    refresh_seconds: Annotated[int, Field(ge=10, le=3600)] = 300
    stale_after_seconds: Annotated[int, Field(ge=60, le=7 * 86400)] = 1800

    @model_validator(mode="after")
    def _stale_after_several_tries(self) -> "_SourceWords":
        if self.stale_after_seconds < 2 * self.refresh_seconds:
            raise ValueError("`stale_after_seconds` is less than two times `refresh_seconds`.")
        return self

    @property
    def refresh(self) -> timedelta:
        """Return how long to wait between two questions."""
        return timedelta(seconds=self.refresh_seconds)

    @property
    def stale_after(self) -> timedelta:
        """Return how old an answer may be that is planned on."""
        return timedelta(seconds=self.stale_after_seconds)


class SsmWords(_SourceWords):
    """The managed instances of one account and region, those of the template."""

    kind: Literal["ssm"]
    refresh_seconds: Annotated[int, Field(ge=10, le=3600)] = 60
    stale_after_seconds: Annotated[int, Field(ge=60, le=7 * 86400)] = 600
    #: Only instances with this tag.
    tag: Tag | None = None
    #: Each of these is the instance whose tag Name says so; without it a node is called as the machine calls itself.
    names: tuple[NodeSet, ...] = Field(default=(), strict=False)
    #: A pool, and the tag of those that are in it.
    pools: dict[Word, Tag] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _reached_by_ssm(self) -> "SsmWords":
        if self.node.executor is not ExecutorKind.SSM:
            raise ValueError("`node` of a source of kind ssm has `executor: ssm`.")
        count = sum(len(expand(name)) for name in self.names)
        if count > MOST_NAMES_BY_TAG:
            raise ValueError(f"`names` has {count} names, each a call of AWS; {MOST_NAMES_BY_TAG} are accepted.")
        return self


class KubernetesWords(_SourceWords):
    """The nodes of a cluster, as kubectl on its controller lists them."""

    kind: Literal["kubernetes"]
    controller: Word
    selector: Annotated[Word, AfterValidator(_selector)] | None = None
    #: An attribute, and the label that it is taken from; no other label is.
    attributes: dict[Word, Label] = Field(default_factory=dict)
    #: Labels whose values are pools.
    pools: tuple[Label, ...] = Field(default=(), strict=False)


class SlurmWords(_SourceWords):
    """The nodes of a Slurm cluster, as scontrol on its controller lists them; partitions are pools."""

    kind: Literal["slurm"]
    controller: Word


SourceWords = Annotated[SsmWords | KubernetesWords | SlurmWords, Field(discriminator="kind")]


class InventoryWords(Words):
    """A whole inventory.yaml."""

    nodes: dict[str, NodeWords] = Field(default_factory=dict)
    controllers: dict[str, ControllerWords] = Field(default_factory=dict)
    node_sources: dict[str, SourceWords] = Field(default_factory=dict)
    #: Where alerts come from; read by who receives them.
    sources: dict[str, object] = Field(default_factory=dict)
