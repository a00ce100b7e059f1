"""`--wait`: follows a run until there is something to tell, over restarts of the service."""

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any, Final

from service.cli.asking import open_gates, path, with_ways_on
from service.cli.next_commands import next_commands
from service.cli.printing import tell
from service.client import Client
from service.domain.errors import InvalidInput, NotFound, Unavailable

_SHORTEST: Final = 0.1
_LONGEST: Final = 2.0
#: A service that says nothing for so long is not waited for any more.
_SILENCE: Final = timedelta(minutes=10)
#: A script that is under way for so long is told of.
_SLOW: Final = timedelta(seconds=4)
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
    pause, silent_since, teller = _SHORTEST, None, _Teller(client)
    while True:
        try:
            run = client.get(path("runs", run_id))
            news = teller.tell_news(run, until=until)
            silent_since = None
        except Unavailable:
            if silent_since is None:
                silent_since = time.monotonic()
                tell("The service does not answer; waiting for it.")
            if time.monotonic() - silent_since > _SILENCE.total_seconds():
                raise
            time.sleep(_LONGEST)
            continue
        code = exit_code(run, until=until)
        if code is not None:
            return run, code
        pause = _SHORTEST if news else min(pause * 1.5, _LONGEST)
        time.sleep(pause)


class _Teller:
    """Tells each thing once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: set[str] = set()
        self._since: dict[str, float] = {}
        self._timeouts: dict[str, float] | None = None

    def tell_news(self, run: dict[str, Any], *, until: Until) -> bool:
        """Tell what is new of a run, with the ways on where it waits; False when nothing is."""
        news = [line for line in (*progress(run), *self._slow(run)) if line not in self._told]
        waits = run["state"] in ("queued", "waiting") and (until is Until.END or not open_gates(run))
        commands = next_commands(with_ways_on(self._client, run)) if news and waits else []
        for line in (*news, *(f"  {command}" for command in commands)):
            tell(line)
        self._told.update(news)
        return bool(news)

    def _slow(self, run: dict[str, Any]) -> list[str]:
        lines, now = list(under_way(run, {})), time.monotonic()
        self._since = {line: self._since.get(line, now) for line in lines}
        if all(now - since < _SLOW.total_seconds() for since in self._since.values()):
            return []
        if self._timeouts is None:
            self._timeouts = _timeouts(self._client, run["runbook"])
        return list(under_way(run, self._timeouts))


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
        reason = node.get("reason") or ""
        if node["state"] in ("queued", "running"):
            if reason:
                yield f"{node['node']}: {node['state']}: {reason}"
        elif node["state"] in ("waiting", "stuck", "failed", "cancelled", "denied", "expired"):
            yield f"{node['node']}: {node['state']}{': ' if reason else ''}{reason}"
        elif node["state"] == "succeeded":
            end = "looked at, and nothing was changed" if run["dry_run"] else "done"
            yield f"{node['node']}: {node.get('verdict') or end}"


def under_way(run: dict[str, Any], timeouts: Mapping[str, float]) -> Iterator[str]:
    """Yield one line for each script under way, with how long it may take where its step's seconds are known."""
    holds = ", ".join(f"{name} is {value}" for name, value in run.get("params", {}).items() if "seconds" in name)
    for node in run["nodes"]:
        for step in node["steps"]:
            most = f"; it may take {timeouts[step['id']]:g} seconds" if step["id"] in timeouts else ""
            for attempt in step.get("attempts", ()):
                if attempt["state"] in ("intended", "running"):
                    what = f"the {attempt['script']} of step {step['id']} is under way"
                    yield f"{node['node']}: {what}{most}{f' ({holds})' if holds else ''}"


def _timeouts(client: Client, runbook: str) -> dict[str, float]:
    try:
        return {step["id"]: step["timeout"] for step in client.get(path("runbooks", runbook))["steps"]}
    except NotFound:
        # It was taken from the folder after the request.
        return {}


def _would_go_well(run: dict[str, Any]) -> bool:
    return all(step.get("outcome") in _GOOD_IN_A_DRY_RUN for node in run["nodes"] for step in node["steps"])
