"""`unstick policy`: who may do what, and why; on files and the database, with no service."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from service import main
from service.app.check_rights import rights_warnings
from service.app.insist import about_node, answer_for
from service.app.service import Service
from service.cli.asking import Json
from service.cli.named_roles import read_role
from service.cli.printing import print_json, say, tell
from service.domain.errors import ConfigInvalid, InvalidInput
from service.domain.person import Permission, Person, Role
from service.domain.person_name import is_among
from service.domain.rights import About, Answer
from service.settings import Settings, load_settings
from service.triggers.policy_file import load_policy

_WHAT: Final = ", ".join(Permission)

commands = typer.Typer(
    help="How far alerts may go, and who may do what.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="policy")


@dataclass(frozen=True)
class _Judged:
    """What one token lets somebody do."""

    #: The name of a token; empty for roles that are supposed.
    token: str
    answer: Answer


@commands.command()
def explain(
    who: Annotated[str, typer.Argument(metavar="WHO", help="A person, as `unstick token list` names him.")],
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"One of {_WHAT}. `approve` is for a second person's gate.")
    ],
    runbook: Annotated[
        str | None, typer.Argument(metavar="[RUNBOOK]", show_default=False, help="With it; without: with every one.")
    ] = None,
    *,
    node: Annotated[str | None, typer.Option(metavar="N", help="On this node; without: on every one.")] = None,
    requested_by: Annotated[
        list[str] | None, typer.Option(metavar="P", help="Who has requested the run whose gate is answered.")
    ] = None,
    role: Annotated[
        list[Role] | None,
        typer.Option(
            metavar="R", parser=read_role, help="Suppose this role, and look at no token: for who signs in otherwise."
        ),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(metavar="G", help="Suppose that he is in this group.")] = None,
    json: Json = False,
) -> None:
    """Say whether somebody may do something, and what decides it. Exits 0 when he may, 1 when not."""
    wanted = _wanted(what)
    settings = load_settings()
    about = replace(_about(settings, runbook, node=node), requesters=frozenset(requested_by or ()))
    service = main.with_alerts(_files(settings), settings)
    persons = _persons(settings, who, roles=role or [], groups=frozenset(group or ()))
    judged = [_Judged(token, answer_for(service, person, wanted, about=about)) for token, person in persons]
    # He is shown as the service knows him, however he was typed.
    who = next((person.name for _, person in persons), who)
    allowed = any(one.answer.allowed for one in judged)
    if json:
        print_json(_json(who, wanted, about=about, judged=judged))
    else:
        _say(who, wanted, about=about, judged=judged)
    raise typer.Exit(0 if allowed else 1)


@commands.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="The policy; that in UNSTICK_CONFIG.")
    ] = None,
) -> None:
    """Say what is wrong in a policy, and which of its rights name nothing. Exits 1 when something is wrong."""
    settings = load_settings()
    path = file or settings.config / "policy.yaml"
    try:
        policy = load_policy(path)
    except ConfigInvalid as error:
        say(str(error))
        raise typer.Exit(1) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}).", "Give the file.") from error
    service = _files(settings)
    warnings = [*rights_warnings(policy.rights or (), service.runbooks.all(), service.inventory.current())]
    for finding in warnings:
        say(str(finding))
    tell(f"{path}: 0 errors, {len(warnings)} warnings")


def _wanted(what: str) -> Permission:
    """Return what is asked about; InvalidInput for a word that is nothing to do."""
    try:
        return Permission(what)
    except ValueError as error:
        raise InvalidInput(f"WHAT is {what!r}, and nobody can do that here.", f"It is one of {_WHAT}.") from error


def _files(settings: Settings) -> Service:
    return main.files_service(settings, clock=main.SystemClock())


def _about(settings: Settings, runbook: str | None, *, node: str | None) -> About:
    """Return what it is about; NotFound for a runbook or node that is not there."""
    service = _files(settings)
    if runbook is not None:
        service.runbooks.get(runbook)
    if node is None:
        return About(runbook)
    service.inventory.current().node(node)
    return replace(about_node(service, node), runbook=runbook)


def _persons(
    settings: Settings, who: str, *, roles: Sequence[Role], groups: frozenset[str]
) -> list[tuple[str, Person]]:
    """Return the person as each of his valid tokens lets him be, with the token's name."""
    if roles:
        return [("", Person(who, frozenset(roles), groups=groups))]
    clock = main.SystemClock()
    with closing(main.open_store(settings, clock, must_exist=True)) as store:
        tokens = store.read(lambda reader: reader.tokens())
    now = clock.now()
    mine = [token for token in tokens if is_among(token.person, [who]) and token.valid(now)]
    return [(token.name, replace(token.owner, groups=groups)) for token in mine]


def _say(who: str, what: Permission, *, about: About, judged: Sequence[_Judged]) -> None:
    deciding = _deciding(judged)
    if deciding is None:
        say(f"refused: {who} has no valid token.")
        say("If he signs in otherwise: --role ROLE and --group GROUP suppose what he would have then.")
        return
    say(f"{'allowed' if deciding.answer.allowed else 'refused'}: {who} {what}, {about.words}")
    say(f"  {deciding.answer.why}")
    if deciding.answer.way_out:
        say(f"  {deciding.answer.way_out}")
    for one in judged:
        say(f"token {one.token}:" if one.token else "supposed:")
        for look in one.answer.looks:
            say(f"  {'yes' if look.allows else 'no '}  {look.by:<11}  {look.why}")


def _deciding(judged: Sequence[_Judged]) -> _Judged | None:
    """Return the token that allows it, else the one that comes nearest."""
    return max(
        judged, key=lambda one: (one.answer.allowed, sum(look.allows for look in one.answer.looks)), default=None
    )


def _json(who: str, what: Permission, *, about: About, judged: Sequence[_Judged]) -> dict[str, object]:
    deciding = _deciding(judged)
    return {
        "who": who,
        "what": what,
        "runbook": about.runbook,
        "node": about.node,
        "pools": None if about.pools is None else sorted(about.pools),
        "allowed": deciding is not None and deciding.answer.allowed,
        "why": deciding.answer.why if deciding is not None else f"{who} has no valid token.",
        "way_out": deciding.answer.way_out if deciding is not None else "",
        "tokens": [
            {
                "token": one.token,
                "allowed": one.answer.allowed,
                "looks": [
                    {"by": look.by, "allows": look.allows, "why": look.why, "way_out": look.way_out}
                    for look in one.answer.looks
                ],
            }
            for one in judged
        ],
    }
