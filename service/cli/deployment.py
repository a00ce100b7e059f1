"""What `unstick doctor` says of how the service is set up: what may be right, and what people forget."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from service import main
from service.app.load_runbooks import RunbookFolder
from service.app.ports import AuditFilter
from service.cli.seen import Seen, noted
from service.domain.audit import AuditEvent
from service.domain.errors import NotFound, UnstickError
from service.domain.person import Permission, Role, Token
from service.settings import Settings
from service.store import migrate

_MOST_NAMES = 5
#: A clock may be behind the record by so much: two machines of a pair are never quite one.
_CLOCK = timedelta(minutes=1)


def deployment(settings: Settings) -> Iterator[Seen]:
    """Look at address, user, tokens and what the files name; nothing is changed and nobody is asked."""
    if not settings.loopback:
        said = f"The service listens on {settings.host}, where others reach it, and speaks no TLS itself."
        yield noted(f"{said} Put a proxy before it that does: docs/operations.md")
    if os.geteuid() == 0:
        yield noted("This is root. The service needs that for nodes of executor local alone: give it its own user")
    if not (settings.config / "policy.yaml").exists():
        said = f"{settings.config / 'policy.yaml'}: none, so the defaults bound what alerts may do"
        yield noted(f"{said}. A service that has read one goes on with that until it starts anew, with break-glass off")
    yield from _notices(settings)
    yield from _record(settings)


def _notices(settings: Settings) -> Iterator[Seen]:
    """Say where links of notices lead nowhere, and which runbooks are named that are not there: nobody would be told.

    A receiver of notices finds the pages at the top of their host alone.
    """
    service = main.with_notices(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        config = service.notify.current()
    except UnstickError:
        return  # told of the file already
    if urlsplit(config.base_url).path.strip("/"):
        reason = f"`base_url` of notify.yaml is {config.base_url}, and the pages stand at the top of their host."
        yield Seen(False, reason, "Write https://HOST alone, and let the proxy give the service a host of its own.")
    runbooks = RunbookFolder(settings.runbooks_folder)
    for name in sorted({name for rule in config.rules for name in rule.runbooks}):
        try:
            runbooks.get(name)
        except NotFound:
            yield Seen(False, f"notify.yaml names the runbook {name}, which is not there.", "Is it mistyped?")
        except UnstickError:
            continue  # told of the runbook already


def _record(settings: Settings) -> Iterator[Seen]:
    """Say what the database tells: of its tokens, of its newest event, and of the clock."""
    url = settings.database_url.get_secret_value()
    clock = main.SystemClock()
    try:
        if migrate.revision(url) != migrate.head():
            return  # told of the database already
        with closing(main.open_store(settings, clock, must_exist=True)) as store:
            tokens = [token for token in store.read(lambda reader: reader.tokens()) if token.valid(clock.now())]
            newest = store.read(lambda reader: reader.audit(AuditFilter(), cursor=None, limit=1)).items
    except UnstickError:
        return  # told of the database already
    yield from _tokens(tokens)
    yield from _break_glass(settings, tokens)
    yield from _sources(settings, tokens)
    for event in newest:
        yield from _newest(event, now=clock.now())


def _newest(event: AuditEvent, *, now: datetime) -> Iterator[Seen]:
    """Say what to keep of the record elsewhere, and whether the clock is behind it."""
    head = f"{event.seq}:{event.hash}"
    yield noted(f"The record ends at {head}: kept elsewhere, `unstick audit verify --expect` shows what is cut off")
    if event.at - now > _CLOCK:
        said = f"The clock of this machine says {now:%Y-%m-%d %H:%M} UTC, and the record's newest event is of"
        way_out = "Set the clock (timedatectl), before anything else: gates and tokens end by it."
        yield Seen(False, f"{said} {event.at:%Y-%m-%d %H:%M}.", way_out)


def _sources(settings: Settings, tokens: Sequence[Token]) -> Iterator[Seen]:
    """Name the sources of alerts whose token is not there, has ended or may not deliver: they are answered 401."""
    service = main.with_alerts(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        sources = service.rules.current().sources
    except UnstickError:
        return  # told of the file already
    good = {token.name for token in tokens if token.owner.may(Permission.DELIVER)}
    for source in sources.values():
        if source.token is not None and source.token not in good:
            said = f"The source {source.name} of alerts shows the token {source.token}, and no valid token of that name"
            way_out = f"unstick token create --name {source.token} --role source"
            yield Seen(False, f"{said} has the role source.", way_out)


def _break_glass(settings: Settings, tokens: Sequence[Token]) -> Iterator[Seen]:
    """Say who could override gates, where the policy lets anybody."""
    service = main.with_alerts(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        if not service.policy.current().break_glass:
            return
    except UnstickError:
        return  # told of the file already
    names = sorted(token.name for token in tokens if token.owner.may(Permission.OVERRIDE))
    if names:
        yield noted(f"break-glass is on; tokens with the role: {', '.join(names)}")
    else:
        yield noted("break-glass is on, but no token has the role")


def _tokens(tokens: Sequence[Token]) -> Iterator[Seen]:
    """Name the tokens that never end, and say when nobody could pause alerts."""
    endless = sorted(token.name for token in tokens if token.expires_at is None)
    if endless:
        some = ", ".join(endless[:_MOST_NAMES]) + (
            f" (and {len(endless) - _MOST_NAMES} more)" * (len(endless) > _MOST_NAMES)
        )
        yield noted(f"Tokens that never end: {some}. `unstick token create --expires` bounds the next ones")
    if not any(Role.ADMIN in token.roles for token in tokens):
        yield noted("No token has the role admin, so nobody can pause alerts: unstick token create --role admin")
