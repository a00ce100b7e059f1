"""What the commands that ask a running service have in common."""

import re
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from service.client import Client, connect
from service.domain.errors import InvalidInput
from service.settings import load_settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
#: More gates, or runs that have the nodes of one run, are not asked for.
_MOST: Final = 5
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or a beginning that no other has.")]


def client() -> Client:
    """Return a client for the service and person that the environment names."""
    settings = load_settings()
    return connect(settings.service_url, settings.token.get_secret_value() if settings.token else None)


def path(*parts: str) -> str:
    """Return a path of the API whose parts come from people: `path("runs", id)`.

    Raises InvalidInput for one that would lead to another place: a server unpacks `%2F` before it looks where to go.
    """
    for part in parts:
        if part in ("", ".", "..") or "/" in part:
            raise InvalidInput(
                f"`{part}` is no id and no name.", "Type one as a list shows it, such as `unstick runs`."
            )
    return "".join(f"/{quote(part, safe='', errors='surrogateescape')}" for part in parts)


def pairs(given: list[str] | None, *, option: str) -> dict[str, str]:
    """Return `name=value` words as a mapping; InvalidInput."""
    found: dict[str, str] = {}
    for word in given or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{option} {word} has no value.", f"Write {option} NAME=VALUE.")
        if name in found:
            raise InvalidInput(f"{option} names {name} twice.", "Give it once.")
        found[name] = value
    return found


def open_gates(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the gates of a run that wait for an answer."""
    return [gate for gate in run["gates"] if gate["state"] == "open"]


def with_ways_on(service: Client, run: dict[str, Any]) -> dict[str, Any]:
    """Return a run with what its next commands rest on: who may answer its gates, and the runs that have its nodes."""
    ahead = [service.get(path("runs", run_id)) for run_id in _runs_ahead(run)[:_MOST]]
    seen = [{**other, "gates": _seen(service, other)} for other in ahead]
    return {**run, "gates": _seen(service, run), "ahead": seen}


def _seen(service: Client, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the gates of a run, the first open ones with whether the asking person may answer."""
    first = {gate["id"]: service.get(path("approvals", gate["id"])) for gate in open_gates(run)[:_MOST]}
    return [first.get(gate["id"], gate) for gate in run["gates"]]


def _runs_ahead(run: dict[str, Any]) -> list[str]:
    reasons = (node.get("reason") or "" for node in run["nodes"] if node["state"] == "queued")
    found = (re.match(r"Run (\S+) has the node", reason) for reason in reasons)
    return list(dict.fromkeys(one[1] for one in found if one))
