"""`--wait`: follows a run until there is something to tell, over restarts of the service."""

import time
from collections.abc import Iterator
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any, Final

from service.cli.asking import open_gates, path
from service.cli.printing import tell
from service.client import Client
from service.domain.errors import InvalidInput, Unavailable

_SHORTEST: Final = 0.1
_LONGEST: Final = 2.0
#: A service that says nothing for so long is not waited for any more.
_SILENCE: Final = timedelta(minutes=10)
_GOOD_IN_A_DRY_RUN: Final = frozenset({"would_change", "ok", "skipped", None})


class Until(StrEnum):
    """How long `--wait` waits."""

    #: Until the end, or until a gate is open.
    GATE = "gate"
    #: Until the end.
    END = "end"


class Exit(IntEnum):
    """The exit codes of a run that was waited for."""

    SUCCEEDED = 0
    #: Failed, denied, expired, cancelled; or a dry run that found something wrong.
    BAD_END = 1
    GATE_OPEN = 3
    STUCK = 4


def parse_until(text: str) -> Until:
    """Return what stands behind `--wait=`; InvalidInput."""
    if text not in tuple(Until):
        raise InvalidInput(f"--wait={text} is not known.", "Write --wait (a gate ends it too) or --wait=end.")
    return Until(text)


def wait_for(client: Client, run_id: str, *, until: Until) -> tuple[dict[str, Any], Exit]:
    """Ask for a run until it has ended, is stuck, or (`until`) stands at a gate; tell its steps on the way.

    Raises Unavailable when the service does not answer for ten minutes.
    """
    pause, told, silent_since = _SHORTEST, set[str](), None
    while True:
        try:
            run = client.get(path("runs", run_id))
            silent_since = None
        except Unavailable:
            if silent_since is None:
                silent_since = time.monotonic()
                tell("The service does not answer; waiting for it.")
            if time.monotonic() - silent_since > _SILENCE.total_seconds():
                raise
            time.sleep(_LONGEST)
            continue
        news = [line for line in progress(run) if line not in told]
        for line in news:
            tell(line)
        told.update(news)
        code = exit_code(run, until=until)
        if code is not None:
            return run, code
        pause = _SHORTEST if news else min(pause * 1.5, _LONGEST)
        time.sleep(pause)


def exit_code(run: dict[str, Any], *, until: Until) -> Exit | None:
    """Return the exit code that a run stands for, None while it goes on."""
    match run["state"]:
        case "stuck":
            return Exit.STUCK
        case "succeeded":
            return Exit.SUCCEEDED if not run["dry_run"] or _would_go_well(run) else Exit.BAD_END
        case "failed" | "denied" | "expired" | "cancelled":
            return Exit.BAD_END
        case "queued" | "running" | "waiting" if until is Until.GATE and open_gates(run):
            return Exit.GATE_OPEN
        case _:
            return None


def progress(run: dict[str, Any]) -> Iterator[str]:
    """Yield one line for each thing that has happened, in a form that stays the same."""
    for node in run["nodes"]:
        for step in node["steps"]:
            if step.get("outcome"):
                yield f"{node['node']}: {step['id']} {step['outcome']}"
        if node["state"] in ("waiting", "stuck", "failed", "cancelled", "denied", "expired"):
            reason = node.get("reason") or ""
            yield f"{node['node']}: {node['state']}{': ' if reason else ''}{reason}"
        elif node["state"] == "succeeded":
            yield f"{node['node']}: {node.get('verdict') or 'done'}"


def _would_go_well(run: dict[str, Any]) -> bool:
    return all(step.get("outcome") in _GOOD_IN_A_DRY_RUN for node in run["nodes"] for step in node["steps"])
