"""`unstick run`, `retry`, `cancel`: ask a running service for something to be done."""

from typing import Annotated, Any, Final

import typer

from service.cli.asking import Json, RunId, client, pairs, path, with_ways_on
from service.cli.beginnings import Kind, whole_id
from service.cli.next_commands import next_commands, would_change
from service.cli.printing import print_json, say, tell
from service.cli.waiting import Exit, Until, parse_until, wait_for
from service.client import Client

WaitOption = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="[=end]",
        help="Wait for the end, or until a gate is open; --wait=end waits at gates too. Exits 0 when it succeeded, "
        "1 when it did not, 3 at an open gate, 4 when it is stuck.",
    ),
]
#: As a shell counts a program that SIGINT ended.
_INTERRUPTED: Final = 130
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever reads the record.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(retry)
    app.command()(cancel)


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a runbook.")],
    *,
    node: Annotated[list[str] | None, typer.Option(metavar="N", help="A node; may be given several times.")] = None,
    pool: Annotated[str | None, typer.Option(metavar="P", help="All nodes of a pool, instead of --node.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="All nodes with this attribute, instead of --node.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(metavar="K=V", help="A parameter of the runbook.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look only, and say what would be done.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="End a run that only waits on the node, and take its place.")
    ] = False,
    reason: Reason = "",
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key again gives the same run and no second one.")
    ] = None,
    wait: WaitOption = None,
    json: Json = False,
) -> None:
    """Request a run of a runbook on nodes. Exits 0 when it was accepted, 2 when it was refused."""
    until = parse_until(wait) if wait is not None else None
    body: dict[str, Any] = {
        "runbook": name,
        "dry_run": dry_run,
        "reason": reason,
        "params": pairs(param, option="--param"),
    }
    if pool is not None or attribute:
        body["selector"] = {"attributes": pairs(attribute, option="--attribute")} | ({"pool": pool} if pool else {})
    if node or "selector" not in body:
        body["nodes"] = node or []
    if take_over:
        body["take_over"] = True
    with client() as service:
        accepted = service.request("/runs", body, key=idempotency_key)
        _follow(service, accepted, until=until, as_json=json)


def retry(
    run_id: RunId,
    *,
    from_step: Annotated[
        str | None,
        typer.Option(metavar="S", help="Acting steps before this one are left out; steps that read play again."),
    ] = None,
    failed_nodes: Annotated[
        bool, typer.Option("--failed-nodes", help="Only the nodes on which the first run did not succeed.")
    ] = False,
    reason: Reason = "",
    wait: WaitOption = None,
    json: Json = False,
) -> None:
    """Request a run again that has ended. It looks and asks anew; who requested the first counts as requester."""
    until = parse_until(wait) if wait is not None else None
    body = {"from_step": from_step, "failed_nodes": failed_nodes, "reason": reason}
    with client() as service:
        run_id = whole_id(service, Kind.RUN, run_id)
        accepted = service.request(path("runs", run_id, "retry"), body)
        _follow(service, accepted, until=until, as_json=json)


def cancel(run_id: RunId, *, reason: Reason = "", json: Json = False) -> None:
    """Ask a run to end. Nothing more is sent; a script under way is stopped, which the node may not obey."""
    with client() as service:
        run_id = whole_id(service, Kind.RUN, run_id)
        answer = service.post(path("runs", run_id, "cancel"), {"reason": reason})
    if json:
        print_json(answer)
        return
    say(f"Cancel of run {run_id} is requested; a command on a node may still be running until `unstick show` tells.")
    for node in answer.get("stuck", ()):
        say(f"{node} is stuck and stays so until it is resolved:")
        say(f"  unstick resolve {run_id} {node} --as settle_again --reason '...'")
    say(f"  unstick show {run_id}")


def _follow(service: Client, accepted: dict[str, Any], *, until: Until | None, as_json: bool) -> None:
    """Tell of an accepted run, and wait for it when asked; ends the program with the run's exit code."""
    run_id = accepted["id"]
    if until is None:
        if as_json:
            print_json(accepted)
        else:
            say(f"run {run_id} accepted")
            say(f"  unstick show {run_id}")
        raise typer.Exit(0)
    tell(f"run {run_id} accepted")
    try:
        ended, code = wait_for(service, run_id, until=until)
    except KeyboardInterrupt as stop:
        tell(f"Not waiting any more; run {run_id} goes on:")
        tell(f"  unstick show {run_id}  # how far it is")
        tell(f"  unstick cancel {run_id}  # ends it")
        raise typer.Exit(_INTERRUPTED) from stop
    if as_json:
        print_json(ended)
    else:
        _tell_end(with_ways_on(service, ended), code)
    raise typer.Exit(code)


def _tell_end(run: dict[str, Any], code: Exit) -> None:
    verdicts = sorted({node["verdict"] for node in run["nodes"] if node.get("verdict")})
    dry = " (dry run)" if run["dry_run"] else ""
    # A node run is recorded as waiting only a moment after its gate; other nodes of the run may go on meanwhile.
    state = "stands at an open gate" if code is Exit.GATE_OPEN else run["state"]
    told = ", ".join(filter(None, (*verdicts, would_change(run))))
    say(f"run {run['id']} {state}{dry}{': ' if told else ''}{told}")
    for command in next_commands(run):
        say(f"  {command}")
