"""`unstick alerts`: what monitors have said to a running service, and what was decided of it."""

from typing import Annotated, Any

import typer

from service.cli.asking import Json, client, path
from service.cli.beginnings import Kind, whole_id
from service.cli.printing import print_json, print_table, say
from service.domain.errors import InvalidInput


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(alerts)


def alerts(
    alert_id: Annotated[
        str | None, typer.Argument(metavar="[ALERT]", show_default=False, help="One alert; else a list.")
    ] = None,
    *,
    node: Annotated[str | None, typer.Option(metavar="N", help="Only alerts about this node.")] = None,
    verdict: Annotated[str | None, typer.Option(metavar="V", help="Only those so judged, such as ran or held.")] = None,
    source: Annotated[str | None, typer.Option(metavar="S", help="Only alerts of this source.")] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, max=200, help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="Go on where the last list ended.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Request the run that the alert would start now, as a dry run.")
    ] = False,
    json: Json = False,
) -> None:
    """List alerts, the newest first, or show one: what was decided of it, and why."""
    if replay and alert_id is None:
        raise InvalidInput("--replay is for one alert.", "Name it: unstick alerts ALERT --replay")
    with client() as service:
        alert_id = None if alert_id is None else whole_id(service, Kind.ALERT, alert_id)
        if replay and alert_id is not None:
            run = service.post(f"{path('alerts', alert_id)}/replay", {})
            print_json(run) if json else say(f"run {run['id']}, a dry run\n  unstick show {run['id']}")
            return
        if alert_id is not None:
            shown = service.get(path("alerts", alert_id))
        else:
            shown = service.get("/alerts", node=node, verdict=verdict, source=source, limit=limit, cursor=cursor)
    if json:
        print_json(shown)
    elif alert_id is not None:
        _show(shown)
    else:
        _list(shown, limit, filters={"node": node, "verdict": verdict, "source": source})


def _list(page: dict[str, Any], limit: int, *, filters: dict[str, str | None]) -> None:
    columns = ("alert", "received", "source", "name", "status", "verdict", "node", "run", "reason")
    rows = [
        (
            one["id"],
            one["received_at"][:19].replace("T", " "),
            one["source"],
            one["name"],
            one["status"],
            one["verdict"] or "not judged yet",
            one["node"],
            one["run_id"],
            one["reason"],
        )
        for one in page["items"]
    ]
    print_table(columns, rows)
    if page.get("next_cursor"):
        words = [f"--{name} {value}" for name, value in filters.items() if value is not None]
        say(" ".join(["  unstick alerts", *words, f"--limit {limit} --cursor {page['next_cursor']}"]))


def _show(alert: dict[str, Any]) -> None:
    say(f"alert {alert['id']}: {alert['name']} of {alert['source']} is {alert['status']}")
    say(f"since {alert['starts_at']}, received at {alert['received_at']} in delivery {alert['delivery_id']}")
    judged = f"{alert['verdict']}: {alert['reason']}" if alert["verdict"] else "not judged yet"
    say(judged)
    if alert["verdict"] and alert["wake_at"]:
        say(f"it is judged again when that is over, and at {alert['wake_at']} at the latest")
    for key in ("rule", "node", "link"):
        if alert[key]:
            say(f"{key} {alert[key]}")
    for kind in ("labels", "annotations"):
        for name, value in alert[kind].items():
            say(f"{kind.removesuffix('s')} {name} = {value}")
    say()
    if alert["run_id"]:
        say(f"  unstick show {alert['run_id']}")
    say(f"  unstick alerts {alert['id']} --replay  # a dry run, by the rules of now")
