"""How a worker of the agent plays a document: its steps in order, each a real script."""

import json
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from lab.ssm.agent import Agent, Document, State
from lab.ssm.commands import Plugin
from lab.ssm.documents import Step
from lab.ssm.faults import Moment
from lab.ssm.parameters import NotStored, resolve
from lab.ssm.script import MachineGone, NotStarted, Script

TICK_SECONDS = 0.02
DEFAULT_TIMEOUT = 3600
TIMEOUT_LIMITS = (5, 172_800)
STOPPED = 137  # 128 + SIGKILL: whoever ends with it is taken for one that the agent has stopped
END_WELL, END_BADLY = 168, 169
BY_SIGNAL = -1  # Go's exit status of a process that a signal has ended: the same number as for "not started"


class WorkerGone(Exception):
    """The worker is no more: the agent died, the machine went down, or the stand-in closes."""


def timeout_seconds(wanted: object) -> int:
    """Read a step's timeoutSeconds as the agent does: what is no number, or out of 5..172800, becomes 3600."""
    try:
        seconds = int(float(str(wanted)))
    except (ValueError, OverflowError):
        return DEFAULT_TIMEOUT
    return seconds if TIMEOUT_LIMITS[0] <= seconds <= TIMEOUT_LIMITS[1] else DEFAULT_TIMEOUT


class Player:
    """Plays documents; one object serves all agents."""

    def __init__(self, lock: AbstractContextManager[object], take: Callable[[Script], None]) -> None:
        """Use the service's lock for what agents share; `take` gets every script that is started, to end it one day."""
        self._lock = lock
        self._take = take

    def play(self, agent: Agent, document: Document) -> None:
        """Play one document to its end; runs in a thread of its own."""
        try:
            self._die_if_due(agent, document, Moment.BEFORE)
            status = self._steps(agent, document)
        except WorkerGone:
            return
        with self._lock:
            if document.lost.is_set():
                return
            if status == "SuccessAndReboot":
                document.state = State.REBOOTING
                agent.reboot()
            else:
                agent.finish(document, status)

    def _die_if_due(self, agent: Agent, document: Document, moment: Moment) -> None:
        with self._lock:
            death = agent.hub.faults.death(agent.instance.id, moment)
            if death is None:
                return
            agent.die_by(death)
            if moment is Moment.BEFORE:
                document.lost.clear()
                document.state = State.QUEUED
                document.runs -= 1
        raise WorkerGone

    def _steps(self, agent: Agent, document: Document) -> str:
        document.plugins = [Plugin(step.name) for step in document.steps]
        try:
            inputs = [resolve(each, agent.hub.stored) for each in document.inputs]
        except NotStored as missing:
            document.trouble = str(missing)
            return _all_failed(document)
        skipped = ""
        for step, given, plugin in zip(document.steps, inputs, document.plugins, strict=True):
            if skipped or not _meant_for(step, agent.instance.platform):
                plugin.status, plugin.details, plugin.code = "Success", "Success", 0
                continue
            self._step(agent, document, given, plugin)
            if plugin.details == "SuccessAndReboot":
                return plugin.details
            skipped = _skip_the_rest(step, plugin)
        return _together(document.plugins)

    def _step(self, agent: Agent, document: Document, given: Mapping[str, Any], plugin: Plugin) -> None:
        if document.cancelled.is_set():
            plugin.status, plugin.details, plugin.code = "Cancelled", "Cancelled", 1
            return
        plugin.started, ran = agent.hub.clock.now(), False
        try:
            script = self._started(agent, document, given, plugin)
        except (NotStarted, OSError) as why:
            plugin.code, plugin.stderr = 1, str(why).encode()
        except MachineGone as gone:
            raise self._gone(agent) from gone
        else:
            plugin.code = self._wait(agent, document, script, timeout_seconds(given.get("timeoutSeconds")))
            plugin.stdout, plugin.stderr, ran = script.stdout, script.stderr, True
        plugin.ended = agent.hub.clock.now()
        _judge(plugin, cancelled=document.cancelled.is_set(), ran=ran)

    def _started(self, agent: Agent, document: Document, given: Mapping[str, Any], plugin: Plugin) -> Script:
        """Start the script and wait until it has a process group; a death that is due strikes then."""
        hub, place = agent.hub, agent.place
        if place is None:
            raise MachineGone("down")
        lines = given.get("runCommand") or []
        text = "\n".join([lines] if isinstance(lines, str) else map(_line, lines)) + "\n"
        script = Script(
            place,
            text,
            folder=f"{hub.folder}/{agent.instance.id}/{document.id}/{plugin.name.replace(':', '')}",
            directory=str(given.get("workingDirectory") or ""),
            environment={
                "AWS_SSM_INSTANCE_ID": agent.instance.id,
                "AWS_SSM_REGION_NAME": hub.region,
                "AWS_SSM_PLATFORM_NAME": "Debian GNU/Linux",
                "AWS_SSM_PLATFORM_VERSION": "12",
                "SSM_COMMAND_ID": document.id,
            },
            cgroups=hub.cgroups,
        )
        self._take(script)
        while script.group is None:
            script.pump(TICK_SECONDS)
            if hub.closing.is_set() or document.lost.is_set():
                script.let_go()
                raise WorkerGone
        try:
            self._die_if_due(agent, document, Moment.DURING)
        except WorkerGone:
            script.let_go()
            raise
        return script

    def _wait(self, agent: Agent, document: Document, script: Script, seconds: int) -> int:
        """Wait for the script's end, its deadline, a cancel, or the worker's own end; give the agent's exit code."""
        deadline = agent.hub.clock.script() + seconds
        while not script.over():
            if document.lost.is_set() or agent.hub.closing.is_set():
                script.let_go()
                raise WorkerGone
            if document.cancelled.is_set() or agent.hub.clock.script() >= deadline:
                stopped = agent.instance.id in agent.hub.faults.kill_ignored or script.kill()
                script.let_go()
                return STOPPED if stopped else 1
            script.pump(TICK_SECONDS)
        script.let_go()
        code: int = script.process.returncode
        if code < 0 and not _still_there(agent):
            raise self._gone(agent)
        return code

    def _gone(self, agent: Agent) -> WorkerGone:
        """Let the agent notice that its machine is down."""
        with self._lock:
            agent.look()
        return WorkerGone()


def _still_there(agent: Agent) -> bool:
    """Tell whether the machine runs on the same boot: what a reboot has killed looks like what a signal has."""
    if agent.place is None or agent.instance.place() != agent.place:
        return False
    done = subprocess.run([*agent.place, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


def _line(line: object) -> str:
    return line if isinstance(line, str) else json.dumps(line)


def _judge(plugin: Plugin, *, cancelled: bool, ran: bool) -> None:
    """Turn an exit code into a status (pluginutil_unix.go GetStatus, runscript.go)."""
    match plugin.code:
        case 0:
            status = "Success"
        case 194:
            status = "SuccessAndReboot"
        case 137:
            status = "Cancelled" if cancelled else "TimedOut"
        case _:
            status = "Failed"
    if status == "Failed" and ran:
        words = (
            f"exit status {plugin.code}" if plugin.code >= 0 else f"signal: {signal.strsignal(-plugin.code)}".lower()
        )
        plugin.stderr += (b"\n" if plugin.stderr else b"") + f"failed to run commands: {words}".encode()
    plugin.code = max(plugin.code, BY_SIGNAL)
    plugin.status = plugin.details = status
    if status == "TimedOut":
        plugin.details = "ExecutionTimedOut"


def _skip_the_rest(step: Step, plugin: Plugin) -> str:
    """Tell why later steps are skipped, changing the plugin's status where 168, 169 or onFailure say so."""
    if plugin.code == END_WELL:
        plugin.status = plugin.details = "Success"
        return "168"
    if plugin.code == END_BADLY:
        return "169"
    if plugin.status == "Failed" and step.on_failure in ("exit", "successAndExit"):
        if step.on_failure == "successAndExit":
            plugin.status, plugin.details, plugin.code = "Success", "Success", END_WELL
        return step.on_failure
    return ""


def _together(plugins: list[Plugin]) -> str:
    """Give the document's status: Failed before TimedOut before Cancelled before Success (contracts/aggregator.go)."""
    statuses = {plugin.status for plugin in plugins}
    return next((each for each in ("Failed", "TimedOut", "Cancelled") if each in statuses), "Success")


def _meant_for(step: Step, platform: str) -> bool:
    """Evaluate the one precondition that is known here: StringEquals of platformType."""
    wanted = step.precondition.get("StringEquals") or []
    return not wanted or wanted == ["platformType", platform]


def _all_failed(document: Document) -> str:
    for plugin in document.plugins:
        plugin.status, plugin.details, plugin.code, plugin.stderr = "Failed", "Failed", 1, document.trouble.encode()
    return "Failed"
