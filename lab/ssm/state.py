"""All that the service knows, in one place, under one lock."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from lab.ssm.agent import Agent, Document, Hub
from lab.ssm.commands import TERMINAL, Command, Invocation
from lab.ssm.documents import Documents
from lab.ssm.errors import Refusal
from lab.ssm.instance import Instance

COMMANDS_KEPT = 10_000
INSTANCES_MOST = 500


@dataclass(frozen=True)
class Timing:
    """The service's habits, in seconds of its own time. The real ones are not published; these are guesses."""

    delivery: float = 0.2  # from SendCommand to the agent, and between two tries to reach one (times fifty)
    cancel: float = 0.2  # from CancelCommand to the agent
    consistency: float = 0.3  # GetCommandInvocation knows nothing of a new command
    listing: float = 0.5  # list calls know nothing of a new command
    token: float = 600.0  # a NextToken is good for
    ping: float = 300.0  # between two pings of an agent (its DefaultSsmHealthFrequencyMinutes)
    lost: float = 360.0  # without a ping until ConnectionLost

    @property
    def retry(self) -> float:
        """Give the pause between two tries to reach an agent."""
        return self.delivery * 50


@dataclass
class State:
    """What operations and the heart work on; take `lock` first."""

    hub: Hub
    documents: Documents
    timing: Timing
    account: str
    lock: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    instances: dict[str, Instance] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    registered: dict[str, float] = field(default_factory=dict)
    commands: "OrderedDict[str, Command]" = field(default_factory=OrderedDict)
    live: dict[str, Command] = field(default_factory=dict)  # those for which something is still to happen
    late_reports: int = 0  # reports on invocations that had ended for the service

    def __post_init__(self) -> None:
        """Let agents report here."""
        self.hub.report = self.report

    def now(self) -> float:
        """Give the service's time."""
        return self.hub.clock.now()

    def shown(self, moment: float) -> float:
        """Give a moment as the service tells it, its clock's error included, to the millisecond."""
        return round(moment + self.hub.faults.clock_skew, 3)

    def command(self, wanted: str) -> Command:
        """Give a command by its id."""
        found = self.commands.get(wanted)
        if found is None:
            raise Refusal("InvalidCommandId", f"The command ID {wanted} is not valid.")
        return found

    def remember(self, command: Command) -> None:
        """Keep a command, and forget the oldest that have ended when there are too many."""
        self.commands[command.id] = self.live[command.id] = command
        for old in list(self.commands.values()):
            if len(self.commands) <= COMMANDS_KEPT or not old.ended:
                break
            del self.commands[old.id]
        self.lock.notify_all()

    def report(self, instance: str, document: Document) -> None:
        """Take an agent's report; what has ended for the service stays as it is."""
        command = self.commands.get(document.id)
        invocation = command.of(instance) if command is not None else None
        if invocation is None:
            return
        if invocation.ended:
            self.late_reports += 1
            return
        settle(invocation, document)
        self.lock.notify_all()


def settle(invocation: Invocation, document: Document) -> None:
    """Write a document's result into its invocation."""
    invocation.plugins = document.plugins
    for plugin in document.plugins:
        if plugin.status not in TERMINAL:
            plugin.status, plugin.details = document.status, document.status
    details = "ExecutionTimedOut" if document.status == "TimedOut" else document.status
    invocation.status, invocation.details = document.status, details
    invocation.trace = document.trouble
