"""`unstick token`: who may ask the service; works on the database, also beside a running service."""

import getpass
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import typer

from service import main
from service.app.tokens import LONGEST, NEVER, USUAL, create_token, revoke_token, token_end
from service.cli.asking import Json
from service.cli.databases import database_is_there, database_name
from service.cli.moments import parse_moment
from service.cli.named_roles import read_role
from service.cli.printing import print_json, print_table, say, tell
from service.cli.records import record
from service.domain.person import Role, Token
from service.domain.reach import Reach
from service.domain.shown_text import shown_moment
from service.settings import load_settings

#: More names are not listed.
_MOST_NAMES: Final = 5

PersonOption = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Whose it is; a new person with the token's name by default. For another token of somebody who has "
        "one, or lost one, name him here: only then do both count as one person at a second-person gate.",
    ),
]
Roles = Annotated[
    list[Role],
    typer.Option(
        metavar="R",
        parser=read_role,
        show_default=False,
        help=f"What it may do: {', '.join(Role)}. May be given several times. An operator requests runs, an "
        "approver answers gates of others, an admin has tokens and no gate.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help=f"When it ends: 12h, 90d or an ISO time, at most {LONGEST.days}d; {USUAL.days}d by default. One that "
        f"only delivers alerts: {LONGEST.days}d by default, or {NEVER}.",
    ),
]
RunbookGlobs = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="It acts with these runbooks alone, as node-*. Several times.")
]
PoolGlobs = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="It acts on nodes in these pools alone. Several times.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Make, list and revoke tokens of persons.", no_args_is_help=True)
    group.command()(create)
    group.command("list")(list_tokens)
    group.command()(revoke)
    app.add_typer(group, name="token")


def create(
    *,
    name: Annotated[str, typer.Option(metavar="N", show_default=False, help="What the token is called; taken once.")],
    role: Roles,
    person: PersonOption = None,
    expires: Expires = None,
    runbook: RunbookGlobs = None,
    pool: PoolGlobs = None,
) -> None:
    """Make a token and print it, alone, on standard output. It is not stored and cannot be shown again.

    One that was lost: `unstick token revoke NAME`, then make another with a new --name and the same --person.
    """
    now = main.SystemClock().now()
    until = None if expires is None or expires == NEVER else parse_moment(expires, now=now)
    wanted: datetime | Literal["never"] | None = NEVER if expires == NEVER else until
    # Before the database is opened, which makes one where there is none.
    end = token_end(frozenset(role), wanted, now=now)
    settings = load_settings()
    was_there = database_is_there(settings)
    with record(must_exist=False) as service:
        by = f"cli:{getpass.getuser()}"
        known = service.store.read(lambda reader: reader.tokens())
        reach = Reach(tuple(runbook or ()), tuple(pool or ()))
        whose = person or name
        say(create_token(service, name, roles=frozenset(role), person=whose, by=by, expires=wanted, reach=reach))
        _tell_whose(whose, known, is_named=person is not None)
    tell(f"It ends at {shown_moment(end)}" if end is not None else "It has no end")
    database = database_name(settings)
    if was_there:
        tell(f"It is in the database {database}")
    else:
        tell(f"There was no database, so a new one was made: {database}")
        tell("If the service has another one, go to its folder or set UNSTICK_DATABASE_URL.")


def _tell_whose(person: str, known: Sequence[Token], *, is_named: bool) -> None:
    """Say of which person the new token is: who lost one must not become a second person unawares."""
    others = [token.name for token in known if token.person == person]
    if others:
        tell(f"It is of the person {person}, who has {_some(others)} too.")
        return
    persons = sorted({token.person for token in known})
    beside = f", beside {_some(persons)}" if persons else ""
    tell(f"It is of the person {person}, who is new here{beside}.")
    if persons and not is_named:
        tell("If it was meant for one of them, revoke it and make it with --person:")
        tell(f"  unstick token revoke {shlex.quote(person)}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def list_tokens(*, json: Json = False) -> None:
    """List tokens: whose, for what, until when. The tokens themselves are nowhere."""
    with record(must_exist=True) as service:
        tokens = service.store.read(lambda reader: reader.tokens())
        now = service.clock.now()
        rows = [
            (token, "valid" if token.valid(now) else "revoked" if token.revoked_at else "expired") for token in tokens
        ]
    if json:
        print_json([_as_json(token, state) for token, state in rows])
        return
    columns = ("token", "name", "person", "roles", "reach", "state", "expires at", "last used at")
    print_table(columns, [_row(token, state) for token, state in rows])


def revoke(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The id or the name of a token, as `token list` shows it.")
    ],
) -> None:
    """Make a token useless from now on."""
    with record(must_exist=True) as service:
        revoke_token(service, token, by=f"cli:{getpass.getuser()}")
    say(f"{token} is revoked")


def _row(token: Token, state: str) -> tuple[object, ...]:
    end = token.expires_at or NEVER
    used = token.last_used_at or NEVER
    return (token.id, token.name, token.person, sorted(token.roles), token.reach.words, state, end, used)


def _as_json(token: Token, state: str) -> dict[str, object]:
    moments = {"created_at": token.created_at, "expires_at": token.expires_at, "last_used_at": token.last_used_at}
    return {
        "id": token.id,
        "name": token.name,
        "person": token.person,
        "roles": sorted(token.roles),
        "runbooks": list(token.reach.runbooks),
        "pools": list(token.reach.pools),
        "state": state,
        **{name: moment.isoformat() if moment else None for name, moment in moments.items()},
    }
