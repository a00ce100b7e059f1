"""`unstick nodes`: the inventory."""

import typer

from service.cli.asking import Json, client
from service.cli.printing import print_json, print_table


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List, check and add nodes.", invoke_without_command=True)
    group.callback()(list_nodes)
    app.add_typer(group, name="nodes")


def list_nodes(context: typer.Context, *, json: Json = False) -> None:
    """List the nodes of a running service, who holds them and which run has them; or check and add some."""
    if context.invoked_subcommand is not None:
        return
    with client() as service:
        nodes = list(service.items("/nodes"))
    if json:
        print_json(nodes)
        return
    rows = [
        (
            node["name"],
            node["executor"],
            node["address"],
            node["pools"],
            node["hold"]["by"] if node["hold"] else None,
            node["occupied_by"]["run_id"] if node["occupied_by"] else None,
        )
        for node in nodes
    ]
    print_table(("node", "executor", "address", "pools", "held by", "run"), rows)
