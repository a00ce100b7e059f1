"""`unstick serve`, `migrate`, `doctor`: on the host of the service.

The help of every command is made from these modules, so what only one of them needs is imported when it runs.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer

from service.cli.printing import say
from service.cli.seen import Seen, noted
from service.domain.errors import InvalidInput
from service.settings import Settings, is_address, load_settings


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (serve, migrate, doctor):
        app.command()(command)


def serve(
    *,
    dev: Annotated[
        bool,
        typer.Option("--dev", help="On this machine alone, with a token that is printed and ends with the service."),
    ] = False,
) -> None:
    """Serve the REST API and play runs, until SIGTERM. One service has a database at a time."""
    from service.serving import serve as serve_until_told

    serve_until_told(load_settings(), dev=dev, say=say)


def migrate() -> None:
    """Bring the database to the tables of this version. Refused while a service has it; make a backup first."""
    from service.store import migrate as store_migrate

    before, after = store_migrate.upgrade(load_settings().database_url.get_secret_value())
    since = "as before" if before == after else f"before: {before or 'empty'}"
    say(f"The database is at revision {after}, {since}.")


def doctor(
    *,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Look at the service that runs there instead, from outside, with UNSTICK_TOKEN."
        ),
    ] = None,
) -> None:
    """Examine settings, files and database, and say how to mend what is wrong. Exits 1 when something is."""
    settings = load_settings()
    bad = 0
    for finding in _examined(settings) if server is None else _seen_from_outside(settings, server):
        bad += not finding.good
        say(f"{finding.word}  {finding.text}")
        if finding.way_out:
            say(f"      {finding.way_out}")
    raise typer.Exit(1 if bad else 0)


def _examined(settings: Settings) -> Iterator[Seen]:
    from service.cli.examination import examine

    yield from examine(settings)
    yield noted(f"Whoever serves was not asked: unstick doctor --server {settings.service_url}")


def _seen_from_outside(settings: Settings, server: str) -> Iterator[Seen]:
    from service.cli.server_examination import look_at_server

    if not is_address(server):
        raise InvalidInput(f"{server} is no address of a service.", "Write it as https://HOST, without a path.")
    token = settings.token.get_secret_value() if settings.token else ""
    return look_at_server(server.rstrip("/"), token, now=datetime.now(UTC))
