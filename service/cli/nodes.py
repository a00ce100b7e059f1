"""`unstick nodes`: list those of a running service; check and add them on the files of this host."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from service import main
from service.app.check_nodes import NodeCheck, check_nodes
from service.cli.asking import Json, client, pairs
from service.cli.printing import print_json, print_table, say, tell
from service.cli.surveying import survey
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.logins import beliefs
from service.domain.node import Become, Endpoint, ExecutorKind, Inventory, Login, Node, View
from service.domain.public_key import parse_public_key
from service.inventory.edit import append_node, refuse_taken, refuse_wrong, render_node
from service.settings import load_settings

KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of that user.")]
CertificateFile = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate of that key.")]
HostKey = Annotated[str | None, typer.Option(metavar="KEY", help="Its host key: 'ssh-ed25519 AAAA...'.")]
HostCa = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY", help="The authority that signs its host certificate; may be repeated."),
]
Jump = Annotated[
    str | None, typer.Option(metavar="NODE", help="The node of the inventory through which it is reached.")
]
AddedExecutor = Annotated[
    ExecutorKind, typer.Option(metavar="E", help="ssh; ssm where AWS reaches it; or local for this machine itself.")
]
Instance = Annotated[str | None, typer.Option(metavar="ID", help="With ssm: its instance, i-... or mi-...")]
Region = Annotated[str | None, typer.Option(metavar="R", help="With ssm: where the instance is, such as us-east-1.")]
Profile = Annotated[str | None, typer.Option(metavar="NAME", help="With ssm: a profile of ~/.aws/config.")]
DocumentName = Annotated[
    str | None, typer.Option(metavar="NAME", help="With ssm: an own document instead of AWS-RunShellScript.")
]
DocumentHash = Annotated[str | None, typer.Option(metavar="HASH", help="With ssm: the SHA-256 of that document.")]
LoginKind = Annotated[Login, typer.Option(metavar="L", help="Which user this is: root, system, lingering.")]
Scan = Annotated[bool, typer.Option("--scan", help="Ask the machine for its host key, and show its fingerprint.")]
Write = Annotated[bool, typer.Option("--write", help="Write the node into inventory.yaml.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether the fingerprint is right.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List, check and add nodes.", invoke_without_command=True)
    group.callback()(list_nodes)
    group.command(name="list", hidden=True)(list_nodes)
    group.command()(check)
    group.command()(add)
    group.command()(survey)
    app.add_typer(group, name="nodes")


def list_nodes(context: typer.Context, *, json: Json = False) -> None:
    """List the nodes of a running service, who holds them and which run has them; or check or add some."""
    if context.invoked_subcommand is not None:
        return
    with client() as service:
        nodes = list(service.items("/nodes"))
        inventory = service.get("/inventory") if not json else {}
    if json:
        print_json(nodes)
        return
    rows = [
        (
            node["name"],
            node["executor"],
            node["address"],
            node["pools"],
            _hold_of(node),
            node["occupied_by"]["run_id"] if node["occupied_by"] else None,
            _source_of(node),
        )
        for node in nodes
    ]
    print_table(("node", "executor", "address", "pools", "held by, why", "run", "source"), rows)
    _print_sources(inventory)


def _hold_of(node: Mapping[str, Any]) -> str | None:
    hold = node["hold"]
    if not hold:
        return None
    until = f" until {hold['until']}" if hold["until"] else ""
    return f"{hold['by']}{until}: {hold['reason']}"


def _source_of(node: Mapping[str, Any]) -> str | None:
    if not node["sources"]:
        return None
    return f"{', '.join(node['sources'])}{' (STALE)' if node['stale'] else ''}"


def _print_sources(inventory: Mapping[str, Any]) -> None:
    """Print how each source of nodes stands, and the names that are not clear; nothing where the file has all."""
    rows = [
        (
            source["name"],
            source["kind"],
            source["nodes"],
            "never" if source["age_seconds"] is None else f"{source['age_seconds']:.0f} s ago",
            "STALE" if source["stale"] else None,
            source["problem"],
        )
        for source in inventory["sources"]
    ]
    if rows:
        say()
        print_table(("source", "kind", "nodes", "answered", "", "problem"), rows)
    for refused in inventory["refused"]:
        say(f"refused: {refused['reason']}")
    if inventory["problem"]:
        say()
        say("inventory.yaml is not used as it is now; these are the nodes of the last good one:")
        say(f"  {inventory['problem']}")


def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", show_default=False, help="All when none is named.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Send each node a script that only reads, and say at what it fails. Exits 1 when one is not ready."""
    settings, clock = load_settings(), main.SystemClock()
    inventory = main.read_inventory(settings, clock, names=names or [])
    endpoints = _endpoints(inventory, names or [])
    for belief in beliefs(endpoints):
        tell(belief)
    with closing(main.build_executors(clock)) as executors:
        checked = check_nodes(endpoints, executors, clock=clock, service_id=main.service_id(settings))
        rows = list(checked if json else say_rows(checked))
    if json:
        print_json([_as_json(row) for row in rows])
    unclear = {} if names else inventory.refused
    for reason in unclear.values():
        tell(reason)
    raise typer.Exit(0 if all(row.ready for row in rows) and not unclear else 1)


def say_rows(rows: Iterable[NodeCheck]) -> Iterator[NodeCheck]:
    """Say each row and hand it on; nodes that stand side by side and fail at the same share a line, all named."""
    for (failed, why, _), some in groupby(rows, lambda row: (row.failed, row.why, row.node if row.ready else "")):
        alike = list(some)
        names = ", ".join(row.node for row in alike)
        say(f"{names}  {'ready' if failed is None else f'NOT READY, {failed}'}: {why}")
        yield from alike


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the node is called.")],
    *,
    address: Annotated[str | None, typer.Option(metavar="A", help="Where it is reached; its name by default.")] = None,
    executor: AddedExecutor = ExecutorKind.SSH,
    port: Annotated[int, typer.Option(metavar="P", min=1, max=65535, help="The port of its sshd.")] = 22,
    user: Annotated[str, typer.Option(metavar="U", help="The user who logs in.")] = "root",
    key_file: KeyFile = None,
    certificate_file: CertificateFile = None,
    host_key: HostKey = None,
    host_ca: HostCa = None,
    jump: Jump = None,
    instance: Instance = None,
    region: Region = None,
    profile: Profile = None,
    document: DocumentName = None,
    document_hash: DocumentHash = None,
    become: Annotated[Become, typer.Option(metavar="B", help="sudo, where the user is not root.")] = Become.NONE,
    login: LoginKind = Login.ROOT,
    view: Annotated[View, typer.Option(metavar="V", help="machine, or boot for a booted container.")] = View.MACHINE,
    pool: Annotated[list[str] | None, typer.Option(metavar="P", help="A pool it is in; may be repeated.")] = None,
    controller: Annotated[str | None, typer.Option(metavar="C", help="The controller of its cluster.")] = None,
    attribute: Annotated[list[str] | None, typer.Option(metavar="K=V", help="An attribute; may be repeated.")] = None,
    scan: Scan = False,
    write: Write = False,
    yes: Yes = False,
) -> None:
    """Print what stands in inventory.yaml for a node, or write it there. Comments in that file stay."""
    place = _place(name, executor, address=address, instance=instance)
    endpoint = Endpoint(name, executor, place, port=port, user=user, become=become, login=login, view=view)
    endpoint = _with_keys(endpoint, key_file, certificate_file=certificate_file)
    host_keys = () if host_key is None else _keys([host_key])
    endpoint = replace(endpoint, host_keys=host_keys, host_authorities=_keys(host_ca or ()))
    endpoint = replace(endpoint, region=region, profile=profile, document_hash=document_hash)
    endpoint = endpoint if document is None else replace(endpoint, document=document)
    node = Node(name, endpoint, tuple(pool or ()), controller, pairs(attribute, option="--attribute"))
    _add(node, jump, wishes=_Wishes(scan, write, yes))


def _place(name: str, executor: ExecutorKind, *, address: str | None, instance: str | None) -> str:
    """Return where the node is: an address, or the id of its instance where AWS reaches it."""
    if executor is not ExecutorKind.SSM:
        if instance is not None:
            raise InvalidInput(f"--instance is for a node that AWS reaches, not by {executor}.", "Add --executor ssm.")
        return address or name
    if instance is not None and address is not None:
        raise InvalidInput("--instance and --address say the same.", "Keep --instance.")
    place = instance or address
    if place is None:
        raise InvalidInput(
            f"{name} is reached by SSM, and no instance is named.", "Add --instance i-..., or mi-... of a hybrid node."
        )
    return place


def _need_key(endpoint: Endpoint) -> None:
    if endpoint.executor is ExecutorKind.SSH and endpoint.key_file is None:
        raise InvalidInput(
            f"{endpoint.name} is reached by SSH, and no key to log in with is named.",
            f"Add --key-file FILE, the private key of {endpoint.user} there; neither an agent nor ~/.ssh is used.",
        )


@dataclass(frozen=True)
class _Wishes:
    scan: bool
    write: bool
    yes: bool


def _with_keys(endpoint: Endpoint, key_file: Path | None, *, certificate_file: Path | None) -> Endpoint:
    """Return the endpoint with the files of its user; relative names are meant from here, not from the inventory."""
    if certificate_file is not None and key_file is None:
        raise InvalidInput("A certificate is of a key, and none is named.", "Add --key-file.")
    key, certificate = (str(file.absolute()) if file is not None else None for file in (key_file, certificate_file))
    return replace(endpoint, key_file=key, certificate_file=certificate)


def _keys(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(parse_public_key(text).line for text in texts)


def _through(node: Node, jump: str, *, beside: Mapping[str, Node]) -> Node:
    """Return the node as it is reached through another one of the inventory; NotFound."""
    other = beside.get(jump)
    if other is None or other.endpoint.executor is not ExecutorKind.SSH:
        raise NotFound(f"The jump host {jump} is no node that is reached by SSH.", "`unstick nodes add` adds one.")
    return replace(node, endpoint=replace(node.endpoint, jump=other.endpoint))


def _add(node: Node, jump: str | None, *, wishes: _Wishes) -> None:
    settings = load_settings()
    beside: Mapping[str, Node] = main.read_file(settings).nodes if jump is not None else {}
    if jump is not None:
        node = _through(node, jump, beside=beside)
    _need_key(node.endpoint)
    refuse_wrong(node)
    if wishes.scan:
        node = replace(node, endpoint=replace(node.endpoint, host_keys=(_scanned(node.endpoint, yes=wishes.yes),)))
    sys.stdout.write(render_node(node, beside=beside))
    sys.stdout.flush()
    if node.endpoint.executor is ExecutorKind.SSH and not (node.endpoint.host_keys or node.endpoint.host_authorities):
        tell("It names no host key, so no script is sent there before a known_hosts file does: add --scan.")
    _tell_of_login(node.endpoint)
    file = main.inventory_file(settings)
    if wishes.write:
        append_node(file, node)
        tell(f"Written to {file}. Next: unstick nodes check {node.name}")
        return
    refuse_taken(file, node.name)
    tell(f"Nothing was written. Put this into {file}, or add --write.")


def _tell_of_login(endpoint: Endpoint) -> None:
    """Say what is wrong with the user who logs in, or only believed: nobody has logged in yet."""
    if endpoint.executor is ExecutorKind.SSH and endpoint.login is Login.ROOT and endpoint.user != "root":
        tell(
            f"{endpoint.user} is not root, and --login root lets nobody else in, so no script is sent there: "
            "add --login system or --login lingering, whichever is true of the user."
        )
    for belief in beliefs([endpoint]):
        tell(belief)


def _scanned(endpoint: Endpoint, *, yes: bool) -> str:
    """Return the host key that a machine shows, once a person has said that it is the right one."""
    if endpoint.executor is not ExecutorKind.SSH:
        raise InvalidInput(
            f"--scan asks an sshd, and {endpoint.name} is reached by {endpoint.executor}.", "Leave it out."
        )
    offered = main.offered_host_keys(endpoint, main.SystemClock())
    if not offered:
        raise NotFound(f"{endpoint.name} shows no host key of a known type.", "Give it one: ssh-keygen -A")
    key = offered[0]
    tell(f"{endpoint.address}:{endpoint.port} shows the {key.kind} key {key.fingerprint}")
    tell("Compare it at the node's own console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub (or the other types)")
    if yes:
        return key.line
    if not sys.stdin.isatty():
        raise InvalidInput("Nobody is there to be asked whether that is right.", "Compare the fingerprint, then --yes.")
    if not _says_yes("Is it the same? Type yes: "):
        raise Conflict(
            "The fingerprint was not confirmed; nothing was written.", "Find out who answers at that address."
        )
    return key.line


def _says_yes(question: str) -> bool:
    """Ask, and once more where the answer was not the whole word; only the whole word is a yes."""
    for asked in (question, "Type the whole word yes if it is, or no: "):
        sys.stderr.write(asked)
        sys.stderr.flush()
        said = sys.stdin.readline().strip().lower()
        if said in ("yes", "no"):
            return said == "yes"
    return False


def _endpoints(inventory: Inventory, names: Sequence[str]) -> list[Endpoint]:
    """Return the machines of these nodes, or of all nodes and controllers; NotFound."""
    if not names:
        controllers = [controller.endpoint for controller in inventory.controllers.values()]
        return [node.endpoint for node in inventory.nodes.values()] + controllers
    return [inventory.node(name).endpoint for name in names]


def _as_json(row: NodeCheck) -> dict[str, object]:
    return {
        "node": row.node,
        "ready": row.ready,
        "failed": row.failed,
        "why": row.why,
        "passed": list(row.passed),
        "unconfined": row.unconfined,
        "boot_id": row.boot_id,
        "clock_ahead_seconds": row.skew.total_seconds() if row.skew is not None else None,
    }
