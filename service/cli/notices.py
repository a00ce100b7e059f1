"""`unstick notices`: what people were told by a running service; and a trial of a receiver, on files alone."""

from typing import Annotated, Any

import typer

from service import main
from service.app.notice_ports import Outgoing
from service.cli.asking import Json, client
from service.cli.printing import print_json, print_table, say
from service.domain.errors import NotFound, NotTold
from service.domain.notice_words import trial
from service.settings import load_settings

commands = typer.Typer(
    help="What people were told, and a trial of who is told.", rich_markup_mode=None, add_completion=False
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="notices")


@commands.callback(invoke_without_command=True)
@commands.command(name="list", hidden=True)
def notices(
    context: typer.Context,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that were given up.")] = False,
    receiver: Annotated[str | None, typer.Option(metavar="R", help="Only those for this receiver.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="K", help="Only of this kind, such as gate or stuck.")] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, max=200, help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="Go on where the last list ended.")] = None,
    json: Json = False,
) -> None:
    """List what people were told, the newest first: to whom, and whether it has reached them."""
    if context.invoked_subcommand is not None:
        return
    state = "given_up" if failed else None
    with client() as service:
        page = service.get("/notices", state=state, receiver=receiver, kind=kind, limit=limit, cursor=cursor)
    if json:
        print_json(page)
        return
    print_table(("at", "receiver", "state", "notice", "tries", "reason"), [_row(one) for one in page["items"]])
    if page["next_cursor"]:
        filters = {"receiver": receiver, "kind": kind, "limit": limit, "cursor": page["next_cursor"]}
        words = [f"--{name} {value}" for name, value in filters.items() if value is not None]
        say(" ".join(["  unstick notices", *(["--failed"] if failed else []), *words]))


@commands.command()
def test(
    name: Annotated[str, typer.Argument(metavar="RECEIVER", help="A receiver, as notify.yaml names it.")],
) -> None:
    """Send a trial to one receiver, from this host and its files, and say whether it was taken. Exits 1 when not."""
    settings, clock = load_settings(), main.SystemClock()
    service = main.with_notices(main.files_service(settings, clock=clock), settings)
    config = service.notify.current()
    if name not in config.receivers:
        there = ", ".join(config.receivers) or "none"
        raise NotFound(f"There is no receiver {name}.", f"{settings.config / 'notify.yaml'} names: {there}.")
    now = clock.now()
    words = trial(name, base_url=config.base_url, now=now)
    try:
        service.sender.tell(config.receivers[name], Outgoing(f"{clock.new_id()}.{name}", words), now=now)
    except NotTold as refusal:
        say(f"{name} has not taken it. {refusal}")
        raise typer.Exit(1) from refusal
    say(f"{name} has taken it.")


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (f"{one['at'][:19]}Z", one["receiver"], one["state"], one["title"], one["attempts"], one["reason"])
