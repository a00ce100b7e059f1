"""How persons sign in, as a file: login.yaml, read strictly, read again when it changes. Without one: tokens alone."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pydantic_core import ErrorDetails

from service.app.entry_faults import explain
from service.app.finding import Finding
from service.app.kept_file import KeptFile
from service.app.runbook_schema import Entry
from service.app.runbook_yaml import Bounds, Document, Where
from service.app.secret_line import learn_lines
from service.app.strict_file import named, read_strictly, refuse_faults
from service.domain.known_secrets import KNOWN
from service.domain.login import LoginConfig, OidcConfig, ProxyConfig
from service.domain.person import Role
from service.login.login_schema import LoginFile, OidcEntry, ProxyEntry

_OF_LOGIN = Bounds(64 * 1024, 5_000, "Say less of it.", if_empty="Remove the file; then people sign in with tokens.")


class FileLogin(KeptFile[LoginConfig]):
    """What one file says. A file that became wrong locks nobody out: the last good one stays."""

    def __init__(self, path: Path) -> None:
        """Take the path of login.yaml; nothing is read yet."""
        super().__init__(path, load_login, word="login", if_absent=LoginConfig())


def load_login(path: Path) -> LoginConfig:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    entry, document = read_strictly(path, LoginFile, bounds=_OF_LOGIN, begin="groups", explain=_finding)
    refuse_faults(_together(entry, document, str(path)))
    config = LoginConfig(
        (entry.base_url or "").rstrip("/"),
        None if entry.oidc is None else _oidc(entry.oidc, path.parent),
        None if entry.proxy is None else _proxy(entry.proxy, path.parent),
        {name: frozenset(roles) for name, roles in entry.groups.items()},
        entry.help or "",
    )
    learn_lines(config.oidc.secret_file if config.oidc else "", config.proxy.secret_file if config.proxy else "")
    if config.oidc is not None and config.oidc.secret_variable:
        KNOWN.learn(os.environ.get(config.oidc.secret_variable, "").strip())
    return config


def _oidc(entry: OidcEntry, folder: Path) -> OidcConfig:
    file = entry.client_secret_file
    return OidcConfig(
        entry.name,
        entry.issuer,
        entry.client_id,
        secret_file=str((folder / file).absolute()) if file is not None else "",
        secret_variable=entry.client_secret_env or "",
        person_claim=entry.person_claim,
        groups_claim=entry.groups_claim,
        scopes=tuple(dict.fromkeys(("openid", *entry.scopes))),
        algorithms=tuple(entry.algorithms),
    )


def _proxy(entry: ProxyEntry, folder: Path) -> ProxyConfig:
    return ProxyConfig(
        entry.header.lower(),
        str((folder / entry.secret_file).absolute()),
        tuple(entry.networks),
        groups_header=(entry.groups_header or "").lower(),
        secret_header=entry.secret_header.lower(),
    )


def _together(entry: LoginFile, document: Document, file: str) -> Iterator[Finding]:
    """Yield what is wrong with values that fit each by itself."""

    def finding(where: Where, reason: str, way_out: str) -> Finding:
        return Finding(file, document.line(where), reason, way_out)

    for name, roles in entry.groups.items():
        if Role.SOURCE in roles:
            yield finding(("groups", name), f"`groups.{name}` has the role source, which no person has.", "Remove it.")
    if (entry.oidc is None) == (entry.proxy is None):
        yield finding((), "The file needs `oidc` or `proxy`, and one alone.", "Write the one by which people sign in.")
    if entry.oidc is not None:
        if entry.base_url is None:
            way_out = "Add `base_url: https://HOST`: the provider sends people back there."
            yield finding(("oidc",), "`base_url` is missing.", way_out)
        elif urlsplit(entry.base_url).path not in ("", "/"):
            reason = "`base_url` has a path, and the pages stand at the top of their host."
            yield finding(("base_url",), reason, "Write https://HOST alone.")
        if (entry.oidc.client_secret_file is None) == (entry.oidc.client_secret_env is None):
            way_out = "Write `client_secret_file`, or `client_secret_env`."
            yield finding(("oidc",), "`oidc` needs the client's secret, and from one place alone.", way_out)
    if entry.proxy is not None:
        given = [entry.proxy.header, entry.proxy.groups_header or "", entry.proxy.secret_header]
        if len({header.lower() for header in given}) < len(given):
            yield finding(("proxy",), "Two headers of `proxy` have one name.", "Give each its own.")


def _finding(details: ErrorDetails, document: Document, file: str) -> Finding:
    where: Where = tuple(part for part in details["loc"] if part != "[key]")
    reason, way_out = explain(details, where, entry=_entry_of(where))
    return Finding(file, document.line(where), f"{named(where)} {reason}", way_out)


def _entry_of(where: Where) -> type[Entry]:
    """Return the model whose keys stand around a place."""
    entries: dict[str, type[Entry]] = {"oidc": OidcEntry, "proxy": ProxyEntry}
    return entries.get(str(where[0]), LoginFile) if len(where) > 1 else LoginFile
