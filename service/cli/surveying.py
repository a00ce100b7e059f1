"""`unstick nodes survey`: what runs on a node, and who else has it."""

from typing import Annotated, Any

import typer

from service.cli.asking import Json, client, path
from service.cli.printing import print_json, say
from service.domain.survey import Kind, Sight

_HEADINGS = {
    "owners": "Somebody else has it",
    "pods": "Pods",
    "jobs": "Jobs",
    "users": "Users",
    "gpu_processes": "GPU processes",
}
_WORDS = {kind.value: kind.words for kind in Kind}


def survey(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.")], *, json: Json = False
) -> None:
    """Ask a node and its cluster what runs there and who else has it. It only reads, and takes at most 20 s."""
    with client() as service:
        seen = service.get(path("nodes", node, "survey"))
    if json:
        print_json(seen)
        return
    show_survey(seen)


def show_survey(seen: dict[str, Any]) -> None:
    """Show a survey, each kind under its heading; what was not seen says why, and what was not asked in one line."""
    for why in seen["over"]:
        say(f"A person is asked, though a rule has waived it: {why}")
    say(f"On the node at {seen['taken_at']}, by a look that no digest binds:")
    for part in seen["parts"]:
        if part["sight"] != Sight.NOT_ASKED:
            _show_part(part)
    unasked = [f"{_WORDS.get(one['kind'], one['kind'])} ({one['why']})" for one in _unasked(seen)]
    if unasked:
        say(f"   Not asked, so not known: {', '.join(unasked)}")


def _unasked(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in seen["parts"] if part["sight"] == Sight.NOT_ASKED]


def _show_part(part: dict[str, Any]) -> None:
    heading = _HEADINGS.get(part["kind"], part["kind"])
    if part["sight"] != "seen":
        say(f"   {heading}: {part['sight'].replace('_', ' ')}: {part['why']}")
        return
    apart = f", and {part['apart']} that do not count" if part["apart"] else ""
    say(f"   {heading}: {part['count']}{apart}")
    for one in part["found"]:
        facts = ", ".join(f"{word} {value}" for word, value in one["facts"].items())
        note = f" ({one['apart']})" if one["apart"] else ""
        say(f"      {one['name']}{note}{': ' if facts else ''}{facts}")
    more = part["count"] + part["apart"] - len(part["found"])
    if more:
        say(f"      and {more} more")
