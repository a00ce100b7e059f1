"""What `unstick doctor` says of how the service is set up: what may be right, and what people forget."""

import os
from collections.abc import Iterator
from contextlib import closing

from service import main
from service.app.load_runbooks import RunbookFolder
from service.cli.seen import Seen
from service.domain.errors import NotFound, UnstickError
from service.domain.person import Role
from service.settings import Settings
from service.store import migrate

_MOST_NAMES = 5


def deployment(settings: Settings) -> Iterator[Seen]:
    """Look at address, user, tokens and what the files name; nothing is changed and nobody is asked."""
    if not settings.loopback:
        said = f"The service listens on {settings.host}, where others reach it, and speaks no TLS itself."
        yield Seen(True, f"{said} Put a proxy before it that does: docs/operations.md")
    if os.geteuid() == 0:
        yield Seen(True, "This is root. The service needs that for nodes of executor local alone: give it its own user")
    if not (settings.config / "policy.yaml").exists():
        yield Seen(True, f"{settings.config / 'policy.yaml'}: none, so the defaults bound what alerts may do")
    yield from _told_runbooks(settings)
    yield from _tokens(settings)


def _told_runbooks(settings: Settings) -> Iterator[Seen]:
    """Say which runbooks the rules of notices name that are not there: nobody would be told."""
    service = main.with_notices(main.files_service(settings, clock=main.SystemClock()), settings)
    try:
        rules = service.notify.current().rules
    except UnstickError:
        return  # told of the file already
    runbooks = RunbookFolder(settings.runbooks_folder)
    for name in sorted({name for rule in rules for name in rule.runbooks}):
        try:
            runbooks.get(name)
        except NotFound:
            yield Seen(False, f"notify.yaml names the runbook {name}, which is not there.", "Is it mistyped?")
        except UnstickError:
            continue  # told of the runbook already


def _tokens(settings: Settings) -> Iterator[Seen]:
    """Name the tokens that never end, and say when nobody could pause alerts."""
    url = settings.database_url.get_secret_value()
    clock = main.SystemClock()
    try:
        if migrate.revision(url) != migrate.head():
            return  # told of the database already
        with closing(main.open_store(settings, clock, must_exist=True)) as store:
            tokens = [token for token in store.read(lambda reader: reader.tokens()) if token.valid(clock.now())]
    except UnstickError:
        return
    endless = sorted(token.name for token in tokens if token.expires_at is None)
    if endless:
        some = ", ".join(endless[:_MOST_NAMES]) + (
            f" (and {len(endless) - _MOST_NAMES} more)" * (len(endless) > _MOST_NAMES)
        )
        yield Seen(True, f"Tokens that never end: {some}. `unstick token create --expires` bounds the next ones")
    if not any(Role.ADMIN in token.roles for token in tokens):
        yield Seen(True, "No token has the role admin, so nobody can pause alerts: unstick token create --role admin")
