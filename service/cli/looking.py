"""`unstick runs` and `unstick show`: what a running service has recorded of runs."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from service.cli.asking import Json, RunId, client, open_gates, path, with_ways_on
from service.cli.beginnings import Kind, whole_id
from service.cli.next_commands import next_commands, would_change
from service.cli.printing import print_json, print_table, say
from service.client import Client
from service.domain.script import unconfined_of


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(runs)
    app.command()(show)


def runs(
    *,
    state: Annotated[
        str | None, typer.Option(metavar="S", help="Only runs in this state, such as waiting or stuck.")
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="N", help="Only runs on this node.")] = None,
    runbook: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this runbook.")] = None,
    requested_by: Annotated[str | None, typer.Option(metavar="P", help="Only runs that this person requested.")] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, max=200, help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="Go on where the last list ended.")] = None,
    json: Json = False,
) -> None:
    """List runs, the newest first."""
    with client() as service:
        page = service.get(
            "/runs", state=state, node=node, runbook=runbook, requested_by=requested_by, limit=limit, cursor=cursor
        )
    if json:
        print_json(page)
        return
    rows = [
        (
            run["id"],
            run["runbook"],
            [*run["first_nodes"], "..."] if run["more_nodes"] else run["first_nodes"],
            run["state"],
            run["dry_run"],
            run["requested_by"],
            run["created_at"],
        )
        for run in page["items"]
    ]
    print_table(("run", "runbook", "nodes", "state", "dry run", "requested by", "requested at"), rows)
    if page.get("next_cursor"):
        filters = {"state": state, "node": node, "runbook": runbook, "requested-by": requested_by}
        words = [f"--{name} {value}" for name, value in filters.items() if value is not None]
        say(" ".join(["  unstick runs", *words, f"--limit {limit} --cursor {page['next_cursor']}"]))


def show(
    run_id: RunId,
    *,
    output: Annotated[bool, typer.Option("--output", help="Also what the scripts said.")] = False,
    json: Json = False,
) -> None:
    """Show a run: its nodes, steps, gates, and what may be typed next."""
    with client() as service:
        run_id = whole_id(service, Kind.RUN, run_id)
        run = service.get(path("runs", run_id))
        if json:
            print_json(run)
            return
        _header(run)
        _steps(run)
        for line in unconfined_lines(run):
            say(line)
        _gates(run)
        _occupants(run)
        _targets(run)
        if output:
            _outputs(service, run)
        commands = [one for one in next_commands(with_ways_on(service, run)) if not _is_this(one, run_id, output)]
    if commands:
        say()
    for command in commands:
        say(f"  {command}")


def _is_this(command: str, run_id: str, output: bool) -> bool:
    """Whether a command would show what is on the screen already."""
    typed = command.partition("  # ")[0]
    return typed == f"unstick show {run_id}" or (output and typed == f"unstick show {run_id} --output")


# Each part but the first begins with an empty line when it has something to say, and ends with none.


def _header(run: dict[str, Any]) -> None:
    dry = ", a dry run" if run["dry_run"] else ""
    say(f"run {run['id']}: {run['runbook']} is {run['state']}{dry}")
    changes = would_change(run)
    if changes:
        say(f"{changes[0].upper()}{changes[1:]}.")
    asked = f"requested by {run['requested_by']}"
    if run.get("created_at"):
        asked += f" at {run['created_at']}"
    say(f"{asked}{': ' if run.get('reason') else ''}{run.get('reason') or ''}")
    trigger = run.get("trigger") or {}
    if trigger.get("kind") in ("alert", "sweep"):
        say(f"started by the {'rule' if trigger['kind'] == 'alert' else 'sweep'} {trigger['name']}")
    if trigger.get("kind") == "by_hand":
        say("played by hand from an exported script; this person brought its journal, in which names are claims")
    for key, words in (("retry_of", "a retry of"), ("escalated_from", "escalated from")):
        if run.get(key):
            say(f"{words} run {run[key]}")
    say(f"plan digest {run['digest']}")


def _steps(run: dict[str, Any]) -> None:
    nodes = [[node.get("node"), node["state"], node.get("verdict"), node.get("reason")] for node in run["nodes"]]
    say()
    print_table(("node", "state", "verdict", "reason"), nodes)
    said = [
        [node["node"], one["as"], one["by"], one["at"], one["reason"]]
        for node in run["nodes"]
        for one in node.get("resolutions", ())
    ]
    if said:
        say()
        print_table(("node", "resolved as", "by", "at", "reason"), said)
    rows = [
        [node["node"], step["id"], step.get("outcome"), _attempts(step), step.get("well_now"), step.get("reason")]
        for node in run["nodes"]
        for step in node["steps"]
    ]
    if rows:
        say()
        print_table(("node", "step", "outcome", "scripts", "well now", "reason"), rows)


def unconfined_lines(run: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each look of a run that the machine's kernel did not keep from touching it, and why."""
    for node in run["nodes"]:
        for step in node["steps"]:
            for attempt in step.get("attempts", ()):
                why = unconfined_of(attempt.get("reason") or "")
                if why:
                    yield f"{node['node']} {step['id']} {attempt['script']} was unconfined: {why}"


def _attempts(step: dict[str, Any]) -> str:
    """Return what was sent, such as `check 0, run 0, verify 77`."""
    return ", ".join(f"{attempt['script']} {_how_it_stands(attempt)}" for attempt in step.get("attempts", ()))


def _how_it_stands(attempt: dict[str, Any]) -> str:
    if attempt["state"] != "finished":
        return str(attempt["state"])
    if attempt.get("signal") is not None:
        return f"signal {attempt['signal']}"
    return str(attempt.get("exit_code"))


def _gates(run: dict[str, Any]) -> None:
    rows = [
        (
            gate["id"],
            gate["node"],
            gate["step"],
            gate["kind"],
            gate.get("state"),
            gate.get("decided_by") or (f"rule {run['trigger']['name']}" if gate.get("state") == "waived" else None),
            gate["expires_at"],
        )
        for gate in run.get("gates", ())
    ]
    if rows:
        say()
        print_table(("gate", "node", "step", "kind", "state", "answered by", "expires at"), rows)


def _occupants(run: dict[str, Any]) -> None:
    """Print what ran on the nodes when their gates were opened, and why a waived one was opened after all."""
    looked = [gate for gate in run.get("gates", ()) if gate.get("occupants")]
    if looked:
        say()
    for gate in looked:
        say(f"{gate['node']}, when the gate of {gate['step']} was opened: {gate['occupants']}")
        for why in gate["over"]:
            say(f"  a person is asked, though a rule has waived it: {why}")


def _targets(run: dict[str, Any]) -> None:
    """Print what the open gates of a run and the acting steps of a dry run would act on."""
    places = [(gate["node"], gate["step"], gate.get("targets", ())) for gate in open_gates(run)]
    places += [
        (node["node"], step["id"], step.get("targets", ()))
        for node in run["nodes"]
        for step in node["steps"]
        if step.get("outcome") == "would_change"
    ]
    lines = [f"{node} {step} would act on: {target}" for node, step, targets in places for target in targets]
    if lines:
        say()
    for line in lines:
        say(line)


def _outputs(service: Client, run: dict[str, Any]) -> None:
    for number, (title, attempt) in enumerate(_all_attempts(run)):
        if number == 0:
            say()
        say(f"-- {title} ({_how_it_stands(attempt)})")
        _print_output(service, attempt)


def _all_attempts(run: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in run["nodes"]:
        for step in node["steps"]:
            for attempt in step.get("attempts", ()):
                yield f"{node['node']} {step['id']} {attempt['script']}", attempt


def _print_output(service: Client, attempt: dict[str, Any]) -> None:
    """Print what an attempt's script has said, standard error marked."""
    for stream, mark in (("stdout", "   "), ("stderr", " ! ")):
        text = service.text(path("attempts", attempt["id"], "output"), stream=stream)
        for line in text.splitlines():
            say(f"{mark}{line}")
    if attempt.get("truncated"):
        say("   (more was said than is kept)")
