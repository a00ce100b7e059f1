"""What `unstick doctor` looks at."""

import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from service import main
from service.app.finding import Severity
from service.app.lint import lint_files, runbook_files
from service.app.load_runbooks import RunbookFolder
from service.cli.deployment import deployment
from service.cli.seen import Seen, noted
from service.domain.errors import ConfigInvalid, SourceSilent, UnstickError
from service.domain.logins import beliefs
from service.domain.node import Endpoint, ExecutorKind, Inventory
from service.executors.not_sent import NotSent
from service.executors.ssh.keys import KeyRing
from service.inventory.file import FileInventory, load_inventory
from service.inventory.source import SourceConfig, SsmQuestion
from service.settings import Settings, unknown_variables
from service.store import migrate
from service.store.session import is_sqlite, parse_url, sqlite_file

#: So many machines are named beside one fault that they share.
_MOST_NAMES = 5


def examine(settings: Settings) -> Iterator[Seen]:
    """Look at settings, files and database, and change nothing."""
    for name in unknown_variables():
        yield Seen(False, f"{name} is set, and is no setting of unstick.", "Is it mistyped? Else unset it.")
    yield from _runbooks(settings.runbooks_folder)
    yield from _inventory(settings.config / "inventory.yaml")
    try:
        inventory = main.read_inventory(settings, main.SystemClock())
        sources = FileInventory(main.inventory_file(settings)).sources()
    except ConfigInvalid:
        pass  # told of the file already
    else:
        yield from _sources(inventory)
        yield from _aws(inventory, sources)
        yield from _pools(settings, inventory)
    yield from _rules(settings)
    yield from _policy(settings.config / "policy.yaml")
    yield from _notices(settings)
    yield from _login(settings)
    yield from _database(settings.database_url.get_secret_value())
    yield from deployment(settings)


def _runbooks(folder: Path) -> Iterator[Seen]:
    if not folder.is_dir():
        yield Seen(False, f"There is no folder of runbooks at {folder}.", "Set UNSTICK_RUNBOOKS to one.")
        return
    files = runbook_files(folder)
    errors = [one for one in lint_files(files, shellcheck=None) if one.severity is Severity.ERROR]
    for error in errors:
        yield Seen(False, error.what, error.way_out)
    if not errors:
        yield Seen(bool(files), f"{folder}: {len(files)} runbooks, none with an error")
    yield from _others_may_write(folder, *files, *folder.glob("lib/*.sh"))
    if shutil.which("shellcheck") is None:
        yield noted("shellcheck is not installed; `unstick lint` looks less closely without it")


def _inventory(path: Path) -> Iterator[Seen]:
    try:
        inventory = load_inventory(path)
    except OSError as error:
        yield Seen(False, f"{path} cannot be read: {error.strerror}.", "Write it; `unstick nodes add --help` helps.")
        return
    except ConfigInvalid as error:
        goes_on = "A service that runs goes on with the last good one until this is mended; a new one does not start."
        yield Seen(False, error.reason, f"{error.way_out} {goes_on}".strip())
        return
    yield Seen(True, f"{path}: {len(inventory.nodes)} nodes, {len(inventory.controllers)} controllers")
    yield from _others_may_write(path)
    yield from _keys(inventory)
    yield from (Seen(True, belief) for belief in beliefs(_reached_by_ssh(inventory)))
    here = inventory.here()
    if len(here) > 1:
        yield noted(f"{_some(here)} are all this machine: whatever is meant for one of them acts here")


def _rules(settings: Settings) -> Iterator[Seen]:
    """Say what is wrong with the rules of alerts, and whether each secret can be used; nothing where there are none."""
    path = settings.config / "rules.yaml"
    if not path.exists() or not settings.runbooks_folder.is_dir():
        return
    # Reading secrets takes the libraries of signatures, which nobody needs without rules.
    from service.triggers.receivers import read_secret
    from service.triggers.rules_file import FileRules

    rules = FileRules(path, RunbookFolder(settings.runbooks_folder))
    try:
        found = rules.current()
    except ConfigInvalid as error:
        yield Seen(False, error.reason, error.way_out)
        return
    yield Seen(True, f"{path}: {len(found.rules)} rules, {len(found.sources)} sources of alerts")
    yield from _others_may_write(path)
    for source in found.sources.values():
        for file in source.secret_files:
            try:
                read_secret(Path(file), source.kind)
            except ConfigInvalid as error:
                yield Seen(False, f"The source {source.name} of alerts: {error.reason}", error.way_out)
            else:
                if stat.S_IMODE(Path(file).stat().st_mode) & 0o077:
                    yield Seen(False, f"Others may read {file}, which proves alerts.", f"chmod 0600 {file}")


def _policy(path: Path) -> Iterator[Seen]:
    """Say what is wrong with how far alerts may go, or in short how far that is; nothing where defaults hold."""
    if not path.exists():
        return
    from service.triggers.policy_file import FilePolicy

    try:
        found = FilePolicy(path).current()
    except ConfigInvalid as error:
        yield Seen(False, error.reason, error.way_out)
        return
    radius = found.blast_radius
    limits = f"at most {radius.nodes_at_once} nodes at once, {radius.percent_of_pool} % of a pool"
    yield Seen(True, f"{path}: {limits}, {len(found.freezes)} freezes")
    yield from _others_may_write(path)


def _pools(settings: Settings, inventory: Inventory) -> Iterator[Seen]:
    """Say which pools are named in the files about alerts, and are those of no node."""
    from service.cli.named_pools import named_pools, unknown_pools

    yield from (Seen(False, reason, way_out) for reason, way_out in unknown_pools(named_pools(settings), inventory))


def _notices(settings: Settings) -> Iterator[Seen]:
    """Say what is wrong with who is told what, and whether each receiver can be spoken to; nothing is sent."""
    path = settings.config / "notify.yaml"
    if not path.exists():
        return
    service = main.with_notices(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        found = service.notify.current()
    except ConfigInvalid as error:
        yield Seen(False, error.reason, error.way_out)
        return
    yield Seen(True, f"{path}: {len(found.receivers)} receivers of notices, {len(found.rules)} rules for them")
    yield from _others_may_write(path)
    for receiver in found.receivers.values():
        try:
            service.sender.check(receiver)
        except ConfigInvalid as error:
            yield Seen(False, f"The receiver {receiver.name} of notices: {error.reason}", error.way_out)
        for file in filter(None, (receiver.url_file, *receiver.secret_files)):
            if Path(file).exists() and stat.S_IMODE(Path(file).stat().st_mode) & 0o077:
                yield Seen(False, f"Others may read {file}, which is a secret.", f"chmod 0600 {file}")


def _login(settings: Settings) -> Iterator[Seen]:
    """Say how persons sign in besides tokens, and whether that works; nothing where there are tokens alone."""
    from service.cli.login_examination import looks_at_login

    yield from (Seen(*look) for look in looks_at_login(settings))
    yield from _others_may_write(settings.config / "login.yaml")


def _sources(inventory: Inventory) -> Iterator[Seen]:
    """Say what each source of nodes answered, where the file names some."""
    for source in inventory.sources:
        if source.problem is not None:
            yield Seen(False, f"The source {source.name} of nodes does not answer. {source.problem}")
        elif source.nodes == 0:
            said = f"The source {source.name} of nodes ({source.kind}) answers, and finds no node."
            yield Seen(False, said, "Look whether anything has the tag or name that inventory.yaml asks it for.")
        else:
            yield Seen(True, f"The source {source.name} of nodes ({source.kind}): {source.nodes} nodes")
    for reason in inventory.refused.values():
        yield Seen(False, reason, "Name it in inventory.yaml, or mend what the sources say.")


def _aws(inventory: Inventory, sources: Sequence[SourceConfig]) -> Iterator[Seen]:
    """Ask each account and region that the inventory needs whether it knows the instances; nothing without SSM."""
    places: dict[tuple[str | None, str | None], dict[str, str]] = {}
    for machine in _machines(inventory):
        if machine.executor is ExecutorKind.SSM:
            places.setdefault((machine.region, machine.profile), {})[machine.address] = machine.name
    for source in sources:
        if isinstance(source.question, SsmQuestion):
            places.setdefault((source.question.region, source.question.profile), {})
    for (region, profile), names in places.items():
        yield from _account(region, profile, names=names)


def _account(region: str | None, profile: str | None, *, names: Mapping[str, str]) -> Iterator[Seen]:
    # boto3 is loaded for machines that AWS reaches, and for no others.
    from service.inventory.ssm import look_at_account

    with_profile = "" if profile is None else f" with the profile {profile}"
    try:
        account = look_at_account(region, profile, instances=tuple(names))
    except SourceSilent as silent:
        asked = f"AWS in {region}" if region is not None else "AWS"
        yield Seen(False, f"{asked}{with_profile} was not asked for its instances. {silent.reason}", silent.way_out)
        return
    unknown = [f"{name} ({instance})" for instance, name in names.items() if instance not in account.managed]
    if unknown:
        way_out = "Is the region right, does its agent run, and has it an instance profile?"
        yield Seen(False, f"SSM in {account.region}{with_profile} does not manage {_some(unknown)}.", way_out)
    known = f" and manages {len(account.managed)} of {len(names)} machines of the inventory" if names else ""
    found = f"credentials ({account.credentials}) are found, SSM answers{known}"
    yield Seen(True, f"AWS in {account.region}{with_profile}: {found}")


def _some(names: Sequence[str]) -> str:
    others = f" (and {len(names) - _MOST_NAMES} more)" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{others}"


def _keys(inventory: Inventory) -> Iterator[Seen]:
    """Load each key as a login would, and say of each fault for which machines it is."""
    ring = KeyRing(main.SystemClock().now)
    good: set[str] = set()
    faults: dict[tuple[str, str], list[str]] = {}
    for machine in _reached_by_ssh(inventory):
        try:
            ring.key_of(machine)
        except NotSent as error:
            faults.setdefault((error.reason, error.way_out), []).append(machine.name)
        else:
            good.add(str(machine.key_file))
    for (reason, way_out), names in faults.items():
        yield Seen(False, f"Nobody can log in to {_some(names)}. {reason}", way_out)
    for key in sorted(good):
        yield Seen(True, f"{key}: a private key that loads")


def _reached_by_ssh(inventory: Inventory) -> list[Endpoint]:
    """Return each machine that is logged in to once, the jump hosts too."""
    found: dict[Endpoint, None] = {}
    for machine in _machines(inventory):
        hop: Endpoint | None = machine
        while hop is not None:
            if hop.executor is ExecutorKind.SSH:
                found[hop] = None
            hop = hop.jump
    return list(found)


def _machines(inventory: Inventory) -> list[Endpoint]:
    controllers = [controller.endpoint for controller in inventory.controllers.values()]
    return [node.endpoint for node in inventory.nodes.values()] + controllers


def _database(url: str) -> Iterator[Seen]:
    try:
        parsed = parse_url(url)
        shown = parsed.render_as_string(hide_password=True)
        if is_sqlite(parsed):
            file = sqlite_file(parsed)
            if not file.exists():
                yield Seen(True, f"{shown}: none yet, `unstick serve` makes it")
                return
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                yield Seen(False, f"Others may read the database {file}.", f"chmod 0600 {file}")
        found, wanted = migrate.revision(url), migrate.head()
    except UnstickError as error:
        yield Seen(False, error.reason, error.way_out)
        return
    if found == wanted:
        yield Seen(True, f"{shown}: at revision {found}, as this version needs it")
    else:
        way_out = "Stop the service, make a backup, then run: unstick migrate"
        yield Seen(False, f"{shown}: at revision {found or 'none'}, this version needs {wanted}.", way_out)


def _others_may_write(*paths: Path) -> Iterator[Seen]:
    for path in paths:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o002:
            yield Seen(
                False, f"Everybody may write {path}, which decides what root does on nodes.", f"chmod o-w {path}"
            )
