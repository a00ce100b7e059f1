"""`unstick pause`, `resume`, `breaker`: whether alerts may start anything."""

from typing import Annotated, Any

import typer

from service.cli.asking import Json, client, path
from service.cli.printing import print_json, say

MustReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", show_default=False, help="Why, for whoever looks next.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(pause)
    app.command()(resume)
    breaker = typer.Typer(help="Show and reset what stops every alert.", no_args_is_help=True, rich_markup_mode=None)
    breaker.command("show")(show_breakers)
    breaker.command("reset")(reset_breaker)
    app.add_typer(breaker, name="breaker")


def pause(*, reason: MustReason, json: Json = False) -> None:
    """Let no alert start anything until somebody resumes; runs that were started go on."""
    with client() as service:
        answer = service.post("/pause", {"reason": reason})
    _tell(answer, "Alerts are recorded and held. `unstick resume --reason ...` ends it.", as_json=json)


def resume(*, reason: MustReason, json: Json = False) -> None:
    """End the pause; what it held is judged again, if it still fires."""
    with client() as service:
        answer = service.post("/resume", {"reason": reason})
    _tell(answer, f"Alerts may start runs. Judged again, of those held: {answer['judged_again']}.", as_json=json)


def show_breakers(*, json: Json = False) -> None:
    """Show the pause, if one is on, and each breaker."""
    with client() as service:
        answer = service.get("/pause")
    if json:
        print_json(answer)
        return
    paused = answer["pause"]
    say(f"paused by {paused['by']}: {paused['reason']}" if paused else "not paused")
    for breaker in answer["breakers"]:
        latched = f"latched at {breaker['latched_at']}: {breaker['reason']}"
        say(f"breaker {breaker['name']}: {latched if breaker['latched'] else 'closed'}")


def reset_breaker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The breaker, as `unstick breaker show` names it.")],
    *,
    reason: MustReason,
    json: Json = False,
) -> None:
    """Close a breaker that has latched, after a look at what went wrong."""
    with client() as service:
        answer = service.post(f"{path('breakers', name)}/reset", {"reason": reason})
    _tell(answer, f"The breaker is closed. Judged again, of the alerts held: {answer['judged_again']}.", as_json=json)


def _tell(answer: Any, words: str, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        say(words)
