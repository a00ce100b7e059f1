"""Makes nodes and controllers out of the text of inventory.yaml, or says line by line what is wrong with it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.app.finding import Finding
from service.app.runbook_yaml import Bounds, Document, read_document
from service.domain.errors import ConfigInvalid
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, Node, SourceKind, View
from service.inventory.node_sets import NAME, expand, is_set
from service.inventory.schema import INSTANCE, ControllerWords, EndpointWords, JumpWords, NodeWords, ReachWords
from service.inventory.source import (
    KubernetesQuestion,
    Question,
    SlurmQuestion,
    SourceConfig,
    SsmQuestion,
    Template,
)
from service.inventory.source_words import InventoryWords, KubernetesWords, SlurmWords, SourceWords, SsmWords

_FIELDS = {
    "ssm": SsmWords.model_fields,
    "kubernetes": KubernetesWords.model_fields,
    "slurm": SlurmWords.model_fields,
}
#: Some ten thousand nodes, each with a host key.
OF_AN_INVENTORY = Bounds(
    4 * 1024 * 1024,
    200_000,
    "Write nodes that differ by a number as a set, such as `gpu[01-32]`.",
    if_empty="Write `nodes:` and below it a block for each machine, as config/inventory.example.yaml shows.",
)


@dataclass(frozen=True)
class FileContents:
    """What one inventory.yaml says."""

    inventory: Inventory
    sources: tuple[SourceConfig, ...] = ()


def build_inventory(text: str, file: str, *, folder: Path) -> Inventory:
    """Return the nodes and controllers that the text names itself; errors and `folder` as in `build_file`."""
    return build_file(text, file, folder=folder).inventory


def build_file(text: str, file: str, *, folder: Path) -> FileContents:
    """Return what the text says; ConfigInvalid with every fault.

    Relative names of files are meant from `folder`, where the inventory lies.
    """
    document = read_document(text, file, bounds=OF_AN_INVENTORY)
    if isinstance(document, Finding):
        raise _invalid([document])
    try:
        words = InventoryWords.model_validate(document.value)
    except ValidationError as error:
        raise _invalid([_finding(details, document, file=file) for details in error.errors()]) from error
    builder = _Builder(words, document, file=file, folder=folder)
    inventory = builder.inventory()
    sources = builder.sources(inventory)
    if builder.findings:
        raise _invalid(builder.findings)
    return FileContents(inventory, sources)


@dataclass
class _Builder:
    words: InventoryWords
    document: Document
    file: str
    folder: Path
    findings: list[Finding] = field(default_factory=list)
    #: For each name the key that it stands under, which may be a set.
    named: dict[str, str] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)

    def inventory(self) -> Inventory:
        """Return nodes and controllers; what is wrong goes to `findings`."""
        self._expand_names()
        nodes = {name: self._node(name) for name in self.named}
        controllers = {name: self._controller(name, words) for name, words in self.words.controllers.items()}
        self._judge_controllers()
        self._judge_doubles(nodes)
        return Inventory(nodes, controllers)

    def sources(self, inventory: Inventory) -> tuple[SourceConfig, ...]:
        """Return where further nodes come from; what is wrong goes to `findings`."""
        found = []
        for name, words in self.words.node_sources.items():
            if not NAME.fullmatch(name):
                self._find(("node_sources", name), f"`{name}` is no name of a source.", "Correct the name.")
            question = self._question(name, words, inventory=inventory)
            if question is not None:
                template = self._template(name, words)
                kind = SourceKind(words.kind)
                found.append(SourceConfig(name, kind, question, template, words.refresh, words.stale_after))
        return tuple(found)

    def _question(self, name: str, words: SourceWords, *, inventory: Inventory) -> Question | None:
        if isinstance(words, SsmWords):
            node, names = words.node, tuple(one for pattern in words.names for one in expand(pattern))
            return SsmQuestion(node.region, node.profile, words.tag, names, dict(words.pools))
        controller = inventory.controllers.get(words.controller)
        if controller is None:
            self._no_controller(("node_sources", name, "controller"), words.controller)
            return None
        match words:
            case KubernetesWords():
                return KubernetesQuestion(controller, words.selector, dict(words.attributes), words.pools)
            case SlurmWords():
                return SlurmQuestion(controller)

    def _template(self, name: str, words: SourceWords) -> Template:
        node = words.node
        jump = self._jump(("node_sources", name, "node", "jump"), node.jump, trail=())
        controller = node.controller or (None if isinstance(words, SsmWords) else words.controller)
        if node.controller is not None and node.controller not in self.words.controllers:
            self._no_controller(("node_sources", name, "node", "controller"), node.controller)
        return Template(self._plain_endpoint("", "", words=node, jump=jump), node.pools, controller, node.attributes)

    def _expand_names(self) -> None:
        for key in self.words.nodes:
            try:
                names = expand(key)
            except ValueError as error:
                self._find(("nodes", key), str(error), "Correct the name.")
                continue
            for name in names:
                if name in self.named:
                    line = self.document.line(("nodes", self.named[name]))
                    self._find(("nodes", key), f"`{name}` is named twice, first in line {line}.", "Remove one.")
                self.named.setdefault(name, key)

    def _node(self, name: str) -> Node:
        key = self.named[name]
        words = self.words.nodes[key]
        return Node(
            name,
            self._node_endpoint(name, trail=()),
            pools=words.pools,
            controller=words.controller,
            attributes={word: _filled(value, key, name=name) for word, value in words.attributes.items()},
        )

    def _controller(self, name: str, words: ControllerWords) -> Controller:
        if not NAME.fullmatch(name):
            self._find(("controllers", name), f"`{name}` is no name of a controller.", "Correct the name.")
        jump = self._jump(("controllers", name, "jump"), words.jump, trail=())
        return Controller(name, self._endpoint(name, name, words=words, jump=jump), environment=dict(words.env))

    def _node_endpoint(self, name: str, *, trail: tuple[str, ...]) -> Endpoint:
        if name not in self.endpoints:
            key = self.named[name]
            words = self.words.nodes[key]
            jump = self._jump(("nodes", key, "jump"), words.jump, trail=(*trail, name))
            self.endpoints[name] = self._endpoint(name, key, words=words, jump=jump)
        return self.endpoints[name]

    def _jump(self, where: tuple[str, ...], jump: str | JumpWords | None, *, trail: tuple[str, ...]) -> Endpoint | None:
        match jump:
            case None:
                return None
            case JumpWords():
                return self._reached(Endpoint(jump.address, ExecutorKind.SSH, jump.address), jump)
            case str():
                return self._named_jump(where, jump, trail=trail)

    def _named_jump(self, where: tuple[str, ...], other: str, *, trail: tuple[str, ...]) -> Endpoint | None:
        if other in trail:
            self._find(where, f"The way jumps in a circle: {' -> '.join([*trail, other])}.", "Break it.")
            return None
        key = self.named.get(other)
        if key is None or self.words.nodes[key].executor is not ExecutorKind.SSH:
            self._find(where, f"The jump host `{other}` is no node that is reached by SSH.", _near(other, self.named))
            return None
        return self._node_endpoint(other, trail=trail)

    def _endpoint(self, name: str, key: str, *, words: EndpointWords, jump: Endpoint | None) -> Endpoint:
        address = _filled(words.instance or words.address or name, key, name=name)
        if words.executor is ExecutorKind.SSM and not INSTANCE.fullmatch(address):
            self._find(
                ("controllers" if isinstance(words, ControllerWords) else "nodes", key),
                f"`{address}` is no id of an instance, and a name may mean several.",
                "Write `instance: i-...`, or `instance: mi-...` of a hybrid node.",
            )
        return self._plain_endpoint(name, address, words=words, jump=jump)

    def _plain_endpoint(self, name: str, address: str, *, words: EndpointWords, jump: Endpoint | None) -> Endpoint:
        endpoint = Endpoint(
            name=name,
            executor=words.executor,
            address=address,
            jump=jump,
            become=words.become,
            view=words.view,
            confine=words.confine,
            keeps_user=isinstance(words, ControllerWords),
            path=words.path or Endpoint.path,
            region=words.region,
            profile=words.profile,
            document=words.document,
            document_hash=words.document_hash,
        )
        return self._reached(endpoint, words)

    def _reached(self, endpoint: Endpoint, words: ReachWords) -> Endpoint:
        return replace(
            endpoint,
            port=words.port,
            user=words.user,
            key_file=self._path(words.key_file),
            certificate_file=self._path(words.certificate_file),
            host_keys=words.host_key,
            known_hosts_file=self._path(words.known_hosts_file),
            host_authorities=words.host_ca,
            login=words.login,
        )

    def _path(self, path: str | None) -> str | None:
        if path is None or path.startswith("~"):
            return path
        return str(self.folder / path)

    def _judge_controllers(self) -> None:
        for key, words in self.words.nodes.items():
            if words.controller is not None and words.controller not in self.words.controllers:
                self._no_controller(("nodes", key, "controller"), words.controller)

    def _no_controller(self, where: tuple[str, ...], controller: str) -> None:
        way_out = _near(controller, self.words.controllers) or "Write it under `controllers`."
        self._find(where, f"There is no controller `{controller}`.", way_out)

    def _judge_doubles(self, nodes: Mapping[str, Node]) -> None:
        seen: dict[tuple[object, ...], str] = {}
        for name, node in nodes.items():
            endpoint = node.endpoint
            if endpoint.executor is ExecutorKind.LOCAL:
                self._judge_local(node, seen)
                continue
            other = seen.setdefault((endpoint.executor, endpoint.address, endpoint.port, endpoint.jump), name)
            if other != name:
                self._find(
                    ("nodes", self.named[name]),
                    f"`{name}` and `{other}` are one machine: both are {endpoint.executor} "
                    f"{endpoint.address}{f':{endpoint.port}' if endpoint.executor is ExecutorKind.SSH else ''}.",
                    "A machine has one name, so that only one run acts on it; in a set write `{name}` into `address`.",
                )

    def _judge_local(self, node: Node, seen: dict[tuple[object, ...], str]) -> None:
        """Refuse a second name for the machine of the service: what is meant for another would act here.

        `view: private` says that names are played, such as in a container; of several, `doctor` tells.
        """
        if node.endpoint.view is View.PRIVATE:
            return
        other = seen.setdefault((ExecutorKind.LOCAL,), node.name)
        if other != node.name:
            self._find(
                ("nodes", self.named[node.name]),
                f"`{node.name}` and `{other}` are one machine: both are local, the machine of the service itself.",
                "Another machine is `executor: ssh` or `ssm`; names that are only played say `view: private`.",
            )

    def _find(self, where: tuple[str, ...], reason: str, way_out: str) -> None:
        self.findings.append(Finding(self.file, self.document.line(where), reason, way_out))


def _filled(text: str, key: str, *, name: str) -> str:
    """Return the text of a set with `{name}` replaced; of a single node as it is."""
    return text.replace("{name}", name) if is_set(key) else text


def _invalid(findings: list[Finding]) -> ConfigInvalid:
    """Return one error for all faults: the first with its way out, the others below it."""
    first, *others = sorted(set(findings))
    return ConfigInvalid("\n".join([str(first), *map(str, others)]))


def _finding(details: ErrorDetails, document: Document, *, file: str) -> Finding:
    where = tuple(details["loc"])
    line = document.line(_known_part(where, document))
    match details["type"]:
        case "extra_forbidden":
            word = str(where[-1])
            known = _words_at(where)
            return Finding(file, line, f"`{word}` is no word of an inventory here.", _near(word, known))
        case "missing":
            return Finding(file, line, f"`{where[-1]}` is missing.", f"Add it, as in `{_example(str(where[-1]))}`.")
        case "value_error":
            reason = str(details["ctx"]["error"])
        case _:
            reason = details["msg"].rstrip(".") + "."
    subject = f"`{where[-1]}`: " if where and isinstance(where[-1], str) else ""
    return Finding(file, line, f"{subject}{reason[0].lower() + reason[1:] if subject else reason}", "")


def _known_part(where: tuple[str | int, ...], document: Document) -> tuple[str | int, ...]:
    """Return the place in the file: pydantic adds words of its own, such as the name of a union's member."""
    place: tuple[str | int, ...] = ()
    for step in where:
        if (*place, step) in document.lines:
            place = (*place, step)
    return place


def _words_at(where: tuple[str | int, ...]) -> list[str]:
    if len(where) == 1:
        return sorted(InventoryWords.model_fields)
    if "jump" in where:
        return sorted(JumpWords.model_fields)
    if where[0] == "node_sources" and "node" not in where[:-1]:
        return sorted(next((fields for kind, fields in _FIELDS.items() if kind in where), SsmWords.model_fields))
    return sorted((ControllerWords if where[0] == "controllers" else NodeWords).model_fields)


def _near(word: str, known: Mapping[str, object] | list[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known are {', '.join(list(known)[:20])}." if known else ""


def _example(word: str) -> str:
    return {"executor": "executor: ssh", "address": "address: 192.0.2.1"}.get(word, f"{word}: ...")
