"""`unstick sessions`: who is signed in to the pages; works on the database, also beside a running service."""

import getpass
from typing import Annotated

import typer

from service.app.identities import forget
from service.app.sessions import end_sessions, open_sessions
from service.cli.asking import Json
from service.cli.printing import print_json, print_table, say, tell
from service.cli.records import record
from service.domain.login import Identity, KnownIdentity
from service.domain.session import Session

Person = Annotated[str, typer.Argument(metavar="PERSON", help="A person, as `sessions list` names him.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List and end the sessions of persons on the pages.", no_args_is_help=True)
    group.command("list")(list_sessions)
    group.command()(end)
    group.command("forget")(forget_account)
    app.add_typer(group, name="sessions")


def list_sessions(
    *,
    accounts: Annotated[
        bool, typer.Option("--accounts", help="Instead: which account of the provider each person is.")
    ] = False,
    json: Json = False,
) -> None:
    """List who is signed in to the pages: with what, since when, last seen when."""
    with record(must_exist=True) as service:
        known = service.store.read(lambda reader: reader.known_identities())
        held = open_sessions(service)
    if accounts:
        _list_accounts(known, json=json)
        return
    if json:
        print_json([_as_json(session) for session in held])
        return
    rows = [(one.person.name, _with(one), sorted(one.person.roles), one.opened_at, one.seen_at) for one in held]
    print_table(("person", "signed in with", "roles", "opened at", "seen at"), rows)


def end(person: Person) -> None:
    """End every session of a person at once. Who may still sign in does so again: take that away first.

    A token is revoked (`unstick token revoke`), an account is closed at the provider, or its groups are taken away.
    """
    with record(must_exist=True) as service:
        number = end_sessions(service, person, by=f"cli:{getpass.getuser()}")
    say(f"{number} session{'' if number == 1 else 's'} of {person} ended")


def forget_account(person: Person) -> None:
    """Undo which account of the provider a person is, for one that was renamed or made anew.

    Whoever signs in next under this name is this person, and counts as him at each gate.
    """
    by = f"cli:{getpass.getuser()}"
    with record(must_exist=True) as service:
        forget(service, person, by=by)
        held = [one for one in open_sessions(service) if one.person.name == person]
        if held:
            end_sessions(service, person, by=by)
    say(f"Which account {person} is, is open again")
    tell("The next one who signs in under this name is this person.")


def _list_accounts(known: tuple[KnownIdentity, ...], *, json: bool) -> None:
    if json:
        print_json([{"person": one.person, "issuer": one.issuer, "subject": one.subject} for one in known])
    else:
        print_table(("person", "issuer", "subject"), [(one.person, one.issuer, one.subject) for one in known])


def _with(session: Session) -> str:
    return str(session.known.by) if isinstance(session.known, Identity) else f"token {session.known.name}"


def _as_json(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "person": session.person.name,
        "with": session.opened_with,
        "roles": sorted(session.person.roles),
        "opened_at": session.opened_at.isoformat(),
        "seen_at": session.seen_at.isoformat(),
    }
