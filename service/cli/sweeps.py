"""`unstick sweeps` and `unstick fleet`: what a running service looks at on its own, and what it has seen."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer

from service.cli.asking import Json, client, path
from service.cli.printing import print_json, print_table, say
from service.domain.shown_text import shown_age
from service.domain.sweep import NEVER, Finding


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List and play sweeps.", invoke_without_command=True)
    group.callback()(list_sweeps)
    group.command(name="list", hidden=True)(list_sweeps)
    group.command(name="run")(run_sweep)
    app.add_typer(group, name="sweeps")
    app.command()(fleet)


def list_sweeps(context: typer.Context, *, json: Json = False) -> None:
    """List the sweeps of a running service: when each is played next, and how the last time went."""
    if context.invoked_subcommand is not None:
        return
    with client() as service:
        sweeps = service.get("/sweeps")["items"]
    if json:
        print_json(sweeps)
        return
    rows = [
        (one["name"], one["nodes"], one["cron"], _moment(one["next_at"]), _moment(one["last_at"])) for one in sweeps
    ]
    print_table(("sweep", "nodes", "cron", "next", "last"), rows)
    for one in sweeps:
        if one["missed"]:
            say(f"{one['name']}: missed {one['missed']} of its times before the last one")
        if one["skipped_at"]:
            say(f"{one['name']}: skipped at {_moment(one['skipped_at'])}: {one['skipped']}")


def run_sweep(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The sweep, as `unstick sweeps` names it.")],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever looks next.")] = "",
    json: Json = False,
) -> None:
    """Play a sweep now, beside its schedule: its nodes are looked at, and nothing acts."""
    with client() as service:
        started = service.post(f"{path('sweeps', name)}/run", {"reason": reason})
    if json:
        print_json(started)
        return
    say(f"run {started['run_id']}, a dry run\n  unstick show {started['run_id']}\n  unstick fleet --sweep {name}")


def fleet(
    *,
    pool: Annotated[str | None, typer.Option(metavar="P", help="Only nodes of this pool.")] = None,
    sweep: Annotated[str | None, typer.Option(metavar="S", help="Only what this sweep has seen.")] = None,
    needs: Annotated[bool, typer.Option("--needs", help="Only nodes that are not seen fine.")] = False,
    json: Json = False,
) -> None:
    """Show who would need what, a table for each sweep: a column for each step, and how old the look is."""
    with client() as service:
        rows = [one for one in service.items("/fleet", pool=pool, sweep=sweep) if not needs or one["finding"] != "fine"]
    if json:
        print_json(rows)
        return
    if not rows:
        say("Every node is seen fine." if needs else "No sweep means a node; `unstick sweeps` lists the sweeps.")
    print_fleet(rows)


def print_fleet(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each sweep: a row for each node, a column for each step, and below it how many are what."""
    by_sweep: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_sweep.setdefault(row["sweep"], []).append(row)
    for number, (name, of_sweep) in enumerate(by_sweep.items()):
        if number:
            say()
        _print_sweep(name, of_sweep)


def _print_sweep(name: str, rows: list[Mapping[str, Any]]) -> None:
    steps = rows[0]["steps"]
    say(f"sweep {name} ({rows[0]['runbook']})")
    for number, step in enumerate(steps, 1):
        say(f"  {number} {step['id']}: {step['title']}")
    columns = ("node", *(str(number) for number in range(1, len(steps) + 1)), "looked")
    print_table(columns, [(row["node"], *map(_cell, row["steps"]), _age(row["age_seconds"])) for row in rows])
    counts: dict[str, int] = {}
    for row in rows:
        words = "never looked at" if row["finding"] is None else row["finding"].replace("_", " ")
        counts[words] = counts.get(words, 0) + 1
    say(", ".join(f"{number} {words}" for words, number in counts.items()))


def _cell(step: Mapping[str, Any]) -> str:
    return NEVER if step["finding"] is None else Finding(step["finding"]).shown


def _age(seconds: float | None) -> str:
    return NEVER if seconds is None else f"{shown_age(timedelta(seconds=seconds))} ago"


def _moment(text: str | None) -> str | None:
    return None if text is None else text[:16].replace("T", " ")
