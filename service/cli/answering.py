"""`unstick approve`, `deny`, `resolve`, `hold`, `release`: what a person says."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from service.cli.asking import Json, RunId, client, open_gates, path
from service.cli.beginnings import Kind, begun, whole_id
from service.cli.moments import parse_moment
from service.cli.printing import print_json, say, tell
from service.cli.surveying import show_survey
from service.client import Client
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.run import ResolveAs

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever looks next.")]
MustReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", show_default=False, help="Why, for whoever looks next.")
]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.")]
_GATE_OR_RUN: Final = (
    "The id of a gate, or of a run for all of its open gates; a beginning will do that nothing else has."
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (approve, deny, resolve, hold, release):
        app.command()(command)


def approve(
    gate_or_run: Annotated[str, typer.Argument(metavar="GATE|RUN", help=_GATE_OR_RUN)],
    *,
    digest: Annotated[
        str | None,
        typer.Option(metavar="D", help="The gate's digest, as it was seen: agrees to exactly that, and does not ask."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, after showing what the check saw.")] = False,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Show what a check saw and what would be acted on, and agree to it."""
    with client() as service:
        run, gates = find_gates(service, gate_or_run)
        if digest is not None:
            gates = [gate for gate in gates if len(gates) == 1 or gate["digest"] == digest]
            if not gates:
                raise Conflict("No open gate of this run has that digest.", f"Look again: unstick show {run['id']}")
        if yes and digest is None and gate_or_run not in (run["id"], *(gate["id"] for gate in gates)):
            raise InvalidInput(
                "--yes asks nobody, so it takes the whole id.", f"unstick approve {gates[0]['id']} --yes"
            )
        if json and digest is None and not yes:
            raise InvalidInput("With --json nobody is asked.", "Give --digest with what was seen, or --yes.")
        answers = []
        for gate in gates:
            seen = service.get(path("approvals", gate["id"]))
            # Who may not answer, or comes too late, hears so from the service at once, and is shown and asked nothing.
            if seen["may_answer"] and not json:
                show_gate(run, seen)
            if seen["may_answer"] and digest is None and not yes and not _agreed():
                say("Not approved.")
                raise typer.Exit(1)
            answers.append(_answer(service, gate, verb="approve", digest=digest or gate["digest"], reason=reason))
            if not json:
                say(f"gate {gate['id']} approved")
    _end(run, answers, as_json=json)


def deny(
    gate_or_run: Annotated[str, typer.Argument(metavar="GATE|RUN", help=_GATE_OR_RUN)],
    *,
    reason: MustReason,
    json: Json = False,
) -> None:
    """Refuse what a gate asks for. The run ends on that node; its undoing steps still play."""
    with client() as service:
        run, gates = find_gates(service, gate_or_run)
        answers = [_answer(service, gate, verb="deny", digest=gate["digest"], reason=reason) for gate in gates]
    if not json:
        for gate in gates:
            say(f"gate {gate['id']} denied")
    _end(run, answers, as_json=json)


def resolve(
    run_id: RunId,
    node: NodeName,
    *,
    resolve_as: Annotated[
        ResolveAs,
        typer.Option(
            "--as",
            metavar="|".join(ResolveAs),
            show_default=False,
            help="settle_again asks the node once more; changed goes on at verify; failed ends it; "
            "retry begins the step anew.",
        ),
    ],
    reason: MustReason,
    json: Json = False,
) -> None:
    """Say how a stuck node goes on, after having looked at it."""
    with client() as service:
        run_id = whole_id(service, Kind.RUN, run_id)
        answer = service.post(path("runs", run_id, "nodes", node, "resolve"), {"as": resolve_as, "reason": reason})
    if json:
        print_json(answer)
    else:
        say(f"{node} is resolved as {resolve_as}")
        say(f"  unstick show {run_id}")


def hold(
    node: NodeName,
    *,
    reason: MustReason,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ends by itself: 30m, 12h, 2d or an ISO time.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of a hold that is there; the record tells of both.")
    ] = False,
    json: Json = False,
) -> None:
    """Keep all hands off a node. Runs that wait there end; one that is acting goes on, and is named."""
    moment = parse_moment(until, now=datetime.now(UTC)) if until is not None else None
    body = {"reason": reason, "until": moment.isoformat() if moment else None, "replace": replace}
    with client() as service:
        answer = service.post(path("nodes", node, "hold"), body)
    if json:
        print_json(answer)
        return
    say(f"{node} is on hold")
    for run_id in answer.get("running_runs", ()):
        say(f"run {run_id} is acting there and goes on:")
        say(f"  unstick cancel {run_id}")
    say(f"  unstick release {node}")


def release(node: NodeName, *, reason: Reason = "", json: Json = False) -> None:
    """End the hold of a node."""
    with client() as service:
        answer = service.post(path("nodes", node, "release"), {"reason": reason})
    if json:
        print_json(answer)
    else:
        hold = answer["hold"]
        say(f"{node} is released; it was on hold by {hold['by']}: {hold['reason']}")


def find_gates(service: Client, gate_or_run: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the run and its gates that are meant; Conflict when none of them is open."""
    try:
        run = service.get(path("runs", gate_or_run))
    except NotFound:
        try:
            gate = service.get(path("approvals", gate_or_run))
        except NotFound as nothing:
            _, whole = begun(service, gate_or_run, Kind.RUN, Kind.GATE, nothing=nothing)
            return find_gates(service, whole)
        return service.get(path("runs", gate["run_id"])), [gate]
    gates = open_gates(run)
    if not gates:
        raise Conflict(f"Run {gate_or_run} is {run['state']} and has no open gate.", f"unstick show {gate_or_run}")
    return run, gates


def show_gate(run: dict[str, Any], gate: dict[str, Any]) -> None:
    """Show what an answer rests on, each part under its heading."""
    say(f"{run['runbook']} on {gate['node']}, step {gate['step']}")
    say(f"requested by {run['requested_by']}{': ' if run.get('reason') else ''}{run.get('reason') or ''}")
    _show_part("What the check printed:", gate["check_output"]["stdout"], nothing="The check printed nothing.")
    _show_part("What the check complained of:", gate["check_output"]["stderr"], nothing="")
    if gate["check_output"]["truncated"]:
        say(f"It said more than this; what is kept of it: unstick show {run['id']} --output")
    if gate["unconfined"]:
        say(f"This check was unconfined: {gate['unconfined']}.")
    if gate["survey"]:
        show_survey(gate["survey"])
    _show_part("It would act on exactly:", "\n".join(gate["targets"]), nothing="It would act on nothing that is named.")
    if gate["needs_reason"]:
        say("Who approves must say why: --reason '...'")
    say(f"digest {gate['digest']}, expires at {gate['expires_at']}")


def _show_part(heading: str, text: str, *, nothing: str) -> None:
    lines = [heading, *(f"   {line}" for line in text.splitlines())] if text.strip() else [nothing]
    for line in filter(None, lines):
        say(line)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Nobody is there to be asked.", "Give --digest with what was seen, or --yes.")
    sys.stdout.write("Approve? Type yes: ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def _answer(service: Client, gate: dict[str, Any], *, verb: str, digest: str, reason: str) -> Any:
    return service.post(path("approvals", gate["id"], verb), {"digest": digest, "reason": reason})


def _end(run: dict[str, Any], answers: list[Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answers)
    else:
        tell(f"  unstick show {run['id']}")
