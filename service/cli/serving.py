"""`unstick serve`, `migrate`, `doctor`: on the host of the service.

The help of every command is made from these modules, so what only one of them needs is imported when it runs.
"""

from typing import Annotated

import typer

from service.cli.printing import say
from service.settings import load_settings


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


def doctor() -> None:
    """Examine settings, files and database, and say how to mend what is wrong. Exits 1 when something is."""
    from service.cli.examination import examine

    settings = load_settings()
    bad = 0
    for finding in examine(settings):
        bad += not finding.good
        say(f"{finding.word}  {finding.text}")
        if finding.way_out:
            say(f"      {finding.way_out}")
    raise typer.Exit(1 if bad else 0)
