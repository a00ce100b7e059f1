"""What a person may type next, for a run that waits or has ended badly."""

from collections.abc import Iterator, Sequence
from typing import Any

from service.cli.asking import open_gates

#: More than these are not listed; `unstick show` has them all.
_MOST = 5


def next_commands(run: dict[str, Any]) -> list[str]:
    """Return commands with what each does, as `command  # why`; none when all is well."""
    return [f"{command}  # {why}" for command, why in _commands(run)]


def would_change(run: dict[str, Any]) -> str:
    """Return what a dry run would have changed, in words that nobody takes for a good end; empty: nothing."""
    places = [
        f"{node['node']} (step {step['id']}, {_count(step.get('targets', ()))})"
        for node in run["nodes"]
        for step in node["steps"]
        if run["dry_run"] and step.get("outcome") == "would_change"
    ]
    if not places:
        return ""
    more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
    return f"it would change {', '.join(places[:_MOST])}{more}; nothing was changed"


def _count(targets: Sequence[object]) -> str:
    return f"{len(targets)} target{'' if len(targets) == 1 else 's'}"


def _commands(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    run_id = run["id"]
    match run["state"]:
        case "waiting" | "queued" | "running":
            yield from _gates(run)
            yield from _ahead(run)
            if not open_gates(run):
                yield f"unstick show {run_id}", "how far it is"
                yield f"unstick cancel {run_id}", "or withdraw it"
        case "stuck":
            yield f"unstick show {run_id} --output", "what the scripts said before"
            yield from _stuck(run)
        case "failed":
            yield f"unstick show {run_id} --output", "what the scripts said"
            yield f"unstick retry {run_id} --failed-nodes", "again, from the first look on"
        case "expired":
            yield f"unstick retry {run_id}", "nothing was run at the gate; ask again"
        case "succeeded" if would_change(run):
            yield f"unstick show {run_id} --output", "what the checks saw"
        case "denied" | "cancelled":
            yield f"unstick show {run_id}", "why, and what had been changed by then"
            yield f"unstick retry {run_id}", "again, from the first look on"
        case _:
            pass


def _gates(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    gates = open_gates(run)
    for gate in gates[:_MOST]:
        where = f"step {gate['step']} on {gate['node']}"
        if gate.get("may_not_because"):
            yield f"# not you: {gate['may_not_because']}", f"{where}; who may types: unstick approve {gate['id']}"
        else:
            yield f"unstick approve {gate['id']}", f"look at {where}, and agree; {who_may_answer(gate)}"
    mine = [gate for gate in gates[:_MOST] if not gate.get("may_not_because")]
    for gate in mine[:1]:
        yield f"unstick deny {gate['id']} --reason '...'", "or refuse"
    if gates and not mine:
        yield f"unstick cancel {run['id']}", "or withdraw the run"
    if len(gates) > _MOST:
        yield f"unstick approve {run['id']}", f"all {len(gates)} gates, one after the other"


def who_may_answer(gate: dict[str, Any]) -> str:
    """Return in words what kind of gate it is."""
    match gate.get("kind"):
        case "second_person":
            return "a second_person gate: an approver who did not request the run answers it"
        case _:
            return "a confirm gate: any operator or approver answers it, the requester too"


def _ahead(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the ways on past the runs that have the nodes of this one."""
    for other in run.get("ahead", ())[:_MOST]:
        nodes = ", ".join(node["node"] for node in other["nodes"][:_MOST])
        yield f"unstick show {other['id']}", f"it has {nodes} and is {other['state']}"
        yield from _gates(other)
        yield f"unstick cancel {other['id']}", f"ends it, and run {run['id']} goes on"
        if other["state"] == "waiting":
            takes = f"the same request with --take-over ends run {other['id']} and takes its place"
            yield f"unstick cancel {run['id']}", f"or withdraw this one; {takes}"


def _stuck(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stuck = [one for one in run["nodes"] if one["state"] == "stuck"]
    for node in stuck[:_MOST]:
        resolve = f"unstick resolve {run['id']} {node['node']} --as"
        if _has_booted(node):
            # What was there to be asked went with the boot.
            yield (
                f"{resolve} changed --reason '...'",
                "if you saw that it did its work, and verify decides; or --as failed, retry",
            )
        else:
            yield f"{resolve} settle_again --reason '...'", "ask the node again; or --as changed, failed, retry"


def _has_booted(node: dict[str, Any]) -> bool:
    """Whether the last script of a node went down with the boot that it ran on."""
    attempts = [attempt for step in node["steps"] for attempt in step.get("attempts", ())]
    last = max(attempts, key=lambda attempt: attempt.get("number", 0), default=None)
    return last is not None and last["state"] == "rebooted"
