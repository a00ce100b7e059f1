"""Writes a new node into inventory.yaml: the comments of people stay, and a wrong result is never written."""

import fcntl
import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from service.domain.errors import ConfigInvalid, Conflict
from service.domain.node import Become, Confine, Endpoint, ExecutorKind, Login, Node, View
from service.inventory.build import build_inventory
from service.inventory.node_sets import expand, is_set

_DEFAULT = Endpoint("", ExecutorKind.SSH, "")
_ALONE: Mapping[str, Node] = {}


def render_node(node: Node, *, beside: Mapping[str, Node] = _ALONE) -> str:
    """Return the block that stands under `nodes` for a node, ready to paste `beside` those that are there."""
    out = io.StringIO()
    _yaml().dump({"nodes": {node.name: _words(node, beside)}}, out)
    return out.getvalue()


def refuse_wrong(node: Node) -> None:
    """Raise ConfigInvalid when the words of a node alone would be refused in the file, whatever stands beside them."""
    build_inventory(render_node(replace(node, controller=None)), f"the block of {node.name}", folder=Path())


def refuse_taken(path: Path, name: str) -> None:
    """Raise Conflict, which names the set, when the file is there and has this name already."""
    text = path.read_text("utf-8") if path.exists() else ""
    if text.strip() and name in build_inventory(text, str(path), folder=path.parent).nodes:
        raise _there_already(name, text, path)


def append_node(path: Path, node: Node) -> None:
    """Write a node at the end of `nodes`, in one step, and make the file when there is none.

    Conflict when the name or the machine is there already; ConfigInvalid when the file is wrong as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(path.parent):
        text = path.read_text("utf-8") if path.exists() else ""
        before = build_inventory(text, str(path), folder=path.parent).nodes if text.strip() else {}
        if node.name in before:
            raise _there_already(node.name, text, path)
        fresh = _with_node(text, node, beside=before)
        try:
            build_inventory(fresh, str(path), folder=path.parent)
        except ConfigInvalid as error:
            raise Conflict(f"With `{node.name}` {path} would be wrong: {error}") from error
        _replace(path, fresh)


def _there_already(name: str, text: str, path: Path) -> Conflict:
    """Return the refusal of a name that the file has, with the set that it is one of."""
    words = _yaml().load(text)["nodes"]
    found = next((one for one in words if is_set(str(one)) and name in expand(str(one))), None)
    if found is None:
        return Conflict(f"`{name}` is in {path} already.", "Edit it there, or give another name.")
    return Conflict(
        f"`{name}` is in {path} already, as one of `{found}`.",
        f"Edit all of them there, or take {name} out of the set first: it stands for what its brackets list.",
    )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other writers out. The folder is locked, since the file is another one after each write."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _with_node(text: str, node: Node, *, beside: Mapping[str, Node]) -> str:
    yaml = _yaml()
    try:
        document = yaml.load(text)
    except YAMLError as error:
        raise ConfigInvalid(f"The inventory cannot be read for editing: {error}", "Add the block by hand.") from error
    if document is None:
        document = CommentedMap()
    if document.get("nodes") is None:
        document["nodes"] = CommentedMap()
    document["nodes"][node.name] = _words(node, beside)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _words(node: Node, beside: Mapping[str, Node]) -> CommentedMap:
    """Return what differs from the defaults, in the words of the inventory; a jump host that is a node by its name."""
    endpoint = node.endpoint
    words = CommentedMap(executor=endpoint.executor.value)
    words |= _reach(endpoint, node.name)
    jump = endpoint.jump
    if jump is not None and jump.name in beside and beside[jump.name].endpoint == jump:
        words["jump"] = jump.name
    elif jump is not None:
        words["jump"] = CommentedMap({"address": jump.address, **_reach(jump, "")})
    for word, value, default in (
        ("become", endpoint.become, Become.NONE),
        ("view", endpoint.view, View.MACHINE),
        ("confine", endpoint.confine, Confine.TRY),
        ("path", endpoint.path, _DEFAULT.path),
    ):
        if value != default:
            words[word] = str(value)
    if node.pools:
        words["pools"] = list(node.pools)
    if node.controller is not None:
        words["controller"] = node.controller
    if node.attributes:
        words["attributes"] = dict(node.attributes)
    return words


def _reach(endpoint: Endpoint, name: str) -> dict[str, object]:
    words: dict[str, object] = {}
    if endpoint.executor is ExecutorKind.SSM:
        words["instance"] = endpoint.address
    elif endpoint.address != name:
        words["address"] = endpoint.address
    for word, value, default in (
        ("port", endpoint.port, _DEFAULT.port),
        ("user", endpoint.user, _DEFAULT.user),
        ("key_file", endpoint.key_file, None),
        ("certificate_file", endpoint.certificate_file, None),
        ("known_hosts_file", endpoint.known_hosts_file, None),
        ("login", str(endpoint.login), str(Login.ROOT)),
        ("region", endpoint.region, None),
        ("profile", endpoint.profile, None),
        ("document", endpoint.document, _DEFAULT.document),
        ("document_hash", endpoint.document_hash, None),
    ):
        if value != default:
            words[word] = value
    for word, keys in (("host_key", endpoint.host_keys), ("host_ca", endpoint.host_authorities)):
        if keys:
            words[word] = keys[0] if len(keys) == 1 else list(keys)
    return words


def _replace(path: Path, text: str) -> None:
    """Put a whole file in the place of another: a reader sees the old one or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            _copy_rights(path, file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _copy_rights(path: Path, handle: int) -> None:
    if not path.exists():
        os.fchmod(handle, 0o644)
        return
    status = path.stat()
    os.fchmod(handle, status.st_mode & 0o7777)
    if os.geteuid() == 0:
        os.fchown(handle, status.st_uid, status.st_gid)
