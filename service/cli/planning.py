"""`unstick plan`: on files alone, with no network, no database and no service."""

import shlex
from typing import Annotated

import typer

from service import main
from service.app.request_run import RunRequest, prepare
from service.cli.asking import Json, pairs
from service.cli.printing import print_json, say
from service.domain.plan import Plan
from service.settings import load_settings


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a runbook.")],
    *,
    node: Annotated[
        list[str], typer.Option(metavar="N", show_default=False, help="A node; may be given several times.")
    ],
    param: Annotated[list[str] | None, typer.Option(metavar="K=V", help="A parameter of the runbook.")] = None,
    json: Json = False,
) -> None:
    """Show every script that a run would send, and the digest over all of it. Nothing is sent or recorded."""
    service = main.files_service(load_settings(), clock=main.SystemClock())
    request = RunRequest(name, "", nodes=tuple(node), params=pairs(param, option="--param"))
    made = prepare(service, request).plan
    if json:
        print_json(_as_json(made))
        return
    say(f"plan of {made.runbook.name} on {', '.join(made.nodes)}")
    say(f"digest {made.digest}")
    for key, value in made.params.items():
        say(f"{key} = {value}")
    for machine in made.unconfined:
        say(f"unconfined: {machine}")
    for step in made.runbook.steps:
        if step.reads:
            say(f"step {step.id}: what only reads may talk to {', '.join(step.reads)}")
    if made.runbook.acts:
        # A plan asks nobody; what runs there is for a running service to look at.
        say(f"what runs on {made.nodes[0]} now: unstick nodes survey {shlex.quote(made.nodes[0])}")
    for script in made.scripts:
        where = "" if script.machine == "node" else f" on {script.machine}"
        say(f"\n== {script.node}{where}: {script.step} {script.kind} (SHA-256 {script.sha256})")
        say(script.text.rstrip("\n"))


def _as_json(made: Plan) -> dict[str, object]:
    return {
        "runbook": made.runbook.name,
        "file_sha256": made.runbook.file_sha256,
        "revision": made.runbook.revision,
        "nodes": list(made.nodes),
        "params": dict(made.params),
        "digest": made.digest,
        "envelope_sha256": made.envelope_sha256,
        "unconfined": list(made.unconfined),
        "controllers": {name: dict(environment) for name, environment in made.controllers.items()},
        "scripts": [
            {
                "node": script.node,
                "step": script.step,
                "script": script.kind,
                "machine": script.machine,
                "sha256": script.sha256,
                "text": script.text,
            }
            for script in made.scripts
        ],
    }
