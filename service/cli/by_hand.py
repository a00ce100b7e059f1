"""`unstick export` and `unstick import`: the cure while the service is down, and its record afterwards."""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from service import main
from service.app.export_run import Shell, export_run
from service.app.request_run import RunRequest, prepare
from service.cli.asking import Json, client, pairs
from service.cli.printing import print_json, say, tell
from service.cli.requesting import Reason
from service.domain.by_hand import MOST_CHARACTERS
from service.domain.errors import InvalidInput
from service.executors.envelope import by_hand_player, loader, node_runner
from service.settings import load_settings


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(export)
    app.command("import")(import_journal)


def export(
    name: Annotated[str, typer.Argument(metavar="RUNBOOK", help="The name of a runbook.")],
    *,
    node: Annotated[str, typer.Option(metavar="N", show_default=False, help="The node; one script is for one.")],
    param: Annotated[list[str] | None, typer.Option(metavar="K=V", help="A parameter of the runbook.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there, not to standard output.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Write a plan as one script, to be played on the node at a terminal while the service is down."""
    settings = load_settings()
    service = main.files_service(settings, clock=main.SystemClock())
    request = RunRequest(name, "", nodes=(node,), params=pairs(param, option="--param"), reason=reason)
    prepared = prepare(service, request)
    shell = Shell(by_hand_player(), node_runner().decode(), loader())
    endpoint = service.inventory.current().node(node).endpoint
    named = main.service_id(settings)
    script = export_run(prepared, endpoint=endpoint, shell=shell, service_id=named, by=getpass.getuser())
    if output is None:
        typer.echo(script, nl=False)
    else:
        _write(output, script)
        say(f"{name} on {node}, plan {prepared.plan.digest}")
        say(f"  scp {output} {node}:   and   ssh -t {node} sudo sh {output.name}")


def import_journal(
    file: Annotated[Path, typer.Argument(metavar="JOURNAL", help="What the exported script wrote on the node.")],
    *,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Bring the journal of a run by hand into the record. One that was changed is refused with the line that breaks."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file} cannot be read: {error}.", "Name the journal that the script has printed."
        ) from error
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{file} has more than {MOST_CHARACTERS} characters.", "Name the journal, not the script.")
    with client() as service:
        run: dict[str, Any] = service.post("/imports", {"journal": text, "reason": reason})
    if json:
        print_json(run)
        return
    told = ", ".join(sorted({node["verdict"] for node in run["nodes"] if node.get("verdict")}))
    say(f"run {run['id']} imported, played by hand: {run['state']}{': ' if told else ''}{told}")
    say(f"  unstick show {run['id']}")
    if run["state"] == "stuck":
        tell("Its outcome is not known: look at the node, then resolve it.")
        say(f"  unstick resolve {run['id']} {run['nodes'][0]['node']} --as settle_again --reason '...'")


def _write(file: Path, script: str) -> None:
    try:
        # A file that is there may be another plan's: whoever wants it gone removes it.
        with file.open("x", encoding="utf-8") as opened:
            opened.write(script)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}.", "Name a new file.") from error
