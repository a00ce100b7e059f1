"""`unstick override`: break glass. Everybody is told, so it is asked for by more than one word."""

import sys
from typing import Annotated

import typer

from service.cli.answering import MustReason, find_gates, show_gate
from service.cli.asking import Json, client, path
from service.cli.printing import print_json, say, tell
from service.domain.errors import InvalidInput


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(override)


def override(
    gate: Annotated[
        str,
        typer.Argument(
            metavar="GATE",
            help="The id of a gate, or of a run with one open gate; or a beginning that nothing else has.",
        ),
    ],
    *,
    reason: MustReason,
    digest: Annotated[
        str | None,
        typer.Option(metavar="D", help="The gate's digest, as it was seen: overrides exactly that, and does not ask."),
    ] = None,
    json: Json = False,
) -> None:
    """Break glass: let a gate through that nobody has approved, where the policy allows it. Everybody is told."""
    with client() as service:
        run, gates = find_gates(service, gate)
        if len(gates) != 1:
            raise InvalidInput(f"Run {run['id']} has {len(gates)} open gates.", "Override one: unstick override GATE")
        seen = service.get(path("approvals", gates[0]["id"]))
        # Who may not, or comes too late, hears so from the service at once, and is shown and asked nothing.
        if seen["may_override"] and digest is None:
            show_gate(run, seen)
            if not _agreed(seen["node"]):
                say("Not overridden.")
                raise typer.Exit(1)
        body = {"digest": digest or seen["digest"], "reason": reason}
        answer = service.post(path("approvals", seen["id"], "override"), body)
    if json:
        print_json(answer)
        return
    say(f"gate {seen['id']} OVERRIDDEN, and every receiver of notices is told")
    tell(f"  unstick show {run['id']}")


def _agreed(node: str) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Nobody is there to be asked.", "Give --digest with what was seen.")
    sys.stdout.write(f"It acts without an approval, and everybody is told. Type the name of the node ({node}): ")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == node
