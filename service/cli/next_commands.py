"""What a person may type next, for a run that waits or has ended badly."""

from collections.abc import Iterator
from typing import Any

from service.cli.asking import open_gates

#: More than these are not listed; `unstick show` has them all.
_MOST = 5


def next_commands(run: dict[str, Any]) -> list[str]:
    """Return commands with what each does, as `command  # why`; none when all is well."""
    return [f"{command}  # {why}" for command, why in _commands(run)]


def _commands(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    run_id = run["id"]
    match run["state"]:
        case "waiting":
            yield from _gates(run)
            if not open_gates(run):
                yield f"unstick show {run_id}", "which run has the node"
        case "stuck":
            yield f"unstick show {run_id} --output", "what the scripts said before"
            yield from _stuck(run)
        case "failed":
            yield f"unstick show {run_id} --output", "what the scripts said"
            yield f"unstick retry {run_id} --failed-nodes", "again, from the first look on"
        case "expired":
            yield f"unstick retry {run_id}", "nothing was run at the gate; ask again"
        case "denied":
            yield f"unstick show {run_id}", "who denied it, and why"
        case "cancelled":
            yield f"unstick show {run_id}", "what had been changed by then"
            yield f"unstick retry {run_id}", "again, from the first look on"
        case "queued" | "running":
            yield f"unstick show {run_id}", "how far it is"
        case _:
            pass


def _gates(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    gates = open_gates(run)
    for gate in gates[:_MOST]:
        yield f"unstick approve {gate['id']}", f"look at step {gate['step']} on {gate['node']}, and agree"
    for gate in gates[:1]:
        yield f"unstick deny {gate['id']} --reason '...'", "or refuse"
    if len(gates) > _MOST:
        yield f"unstick approve {run['id']}", f"all {len(gates)} gates, one after the other"


def _stuck(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stuck = [one["node"] for one in run["nodes"] if one["state"] == "stuck"]
    for node in stuck[:_MOST]:
        settle = f"unstick resolve {run['id']} {node} --as settle_again --reason '...'"
        yield settle, "ask the node again; or --as changed, failed, retry"
