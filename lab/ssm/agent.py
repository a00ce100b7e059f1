"""The agent of one machine: takes commands from the service, plays their steps, reports, dies and comes back.

Facts from aws/amazon-ssm-agent: five workers and a queue of five (agent/appconfig/constants.go), a CommandId heard
again within 30 minutes is dropped (messagehandler/idempotency), a document whose worker is gone after a restart has
failed (executer/outofproc/master.go), 194 reboots and plays the document again, at most 15 times (framework/processor).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from lab.ssm.clock import Clock
from lab.ssm.commands import Plugin
from lab.ssm.documents import Step
from lab.ssm.faults import Death, Faults, Moment
from lab.ssm.instance import Instance

WORKERS = 5
QUEUE = 5
HEARD_SECONDS = 1800.0
MOST_RUNS = 15
WORKER_GONE = (
    "document process failed unexpectedly: document worker timed out , "
    "check [ssm-document-worker]/[ssm-session-worker] log for crash reason"
)


class Offer(Enum):
    """How an agent answers to a command that is brought to it."""

    TAKEN = "taken"
    DROPPED = "dropped"  # heard before
    FULL = "full"
    UNREACHABLE = "unreachable"


class State(StrEnum):
    """Where a document is, as the agent's folders on disk say it."""

    QUEUED = "queued"
    RUNNING = "running"
    REBOOTING = "rebooting"
    FINISHED = "finished"


@dataclass
class Document:
    """One command that the agent has taken."""

    id: str
    steps: Sequence[Step]
    inputs: Sequence[Mapping[str, Any]]
    trouble: str = ""  # why it could not be played at all
    state: State = State.QUEUED
    runs: int = 0
    status: str = ""
    plugins: list[Plugin] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)  # its worker is no more


@dataclass
class Hub:
    """What agents share: time, switches, where scripts go, and where reports go."""

    clock: Clock
    faults: Faults
    region: str
    folder: str
    cgroups: Sequence[str]
    closing: threading.Event
    stored: dict[str, str] = field(default_factory=dict)  # parameters of the account, by name
    report: Callable[[str, Document], None] = lambda _instance, _document: None  # how the service is told


class Agent:
    """One agent. All methods but the workers' own are called under the service's lock."""

    def __init__(self, instance: Instance, hub: Hub, *, play: Callable[["Agent", Document], None]) -> None:
        """Begin on the machine as it is now; `play` plays a document's steps in a thread."""
        self.instance = instance
        self.hub = hub
        self.place = instance.place()
        self.up = self.place is not None
        self.back_at: float | None = None  # service time; None while up, or until the machine boots
        self.last_ping = hub.clock.now()
        self.documents: dict[str, Document] = {}
        self.threads: list[threading.Thread] = []
        self._heard: dict[str, float] = {}
        self._play = play

    @property
    def reachable(self) -> bool:
        """Tell whether a command would get through."""
        return self.up and self.instance.ping == "Online" and self.instance.state == "Running"

    def offer(self, document: Document) -> Offer:
        """Bring a command; it is taken at most once."""
        self.look()
        now = self.hub.clock.now()
        if not self.reachable or self.instance.id in self.hub.faults.deaf:
            return Offer.UNREACHABLE
        self._heard = {key: at for key, at in self._heard.items() if now - at < HEARD_SECONDS}
        if document.id in self._heard:
            return Offer.DROPPED
        if sum(each.state is State.QUEUED for each in self.documents.values()) >= QUEUE:
            return Offer.FULL
        self._heard[document.id] = now
        self.documents[document.id] = document
        self.start_queued()
        return Offer.TAKEN

    def cancel(self, command: str) -> None:
        """Bring a cancel; a command that has ended or is not known is left alone."""
        document = self.documents.get(command)
        if document is None or not self.reachable or self.instance.id in self.hub.faults.cancel_lost:
            return
        document.cancelled.set()
        if document.state is State.QUEUED:
            document.plugins = [Plugin(step.name, "Cancelled", "Cancelled", 1) for step in document.steps]
            self.finish(document, "Cancelled")

    def look(self) -> None:
        """Notice whether the machine is down or has booted, and whether a dead agent is due back."""
        place = self.instance.place()
        now = self.hub.clock.now()
        if place != self.place:
            if self.up or self.place is not None:
                self.die(back_at=None)
            self.place = place
            if place is not None:
                self._come_back()
        elif self.back_at is not None and now >= self.back_at and place is not None:
            self._come_back()
        if self.up and self.instance.ping == "Online":
            self.last_ping = now

    def die(self, *, back_at: float | None) -> None:
        """Stop the agent and its workers; scripts that run are not theirs to end."""
        self.up = False
        self.back_at = back_at
        for document in self.documents.values():
            if document.state is State.RUNNING:
                document.lost.set()

    def start_queued(self) -> None:
        """Give queued documents to free workers, in order."""
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        for document in list(self.documents.values()):
            running = sum(each.state is State.RUNNING for each in self.documents.values())
            if not self.up or running >= WORKERS or self.hub.closing.is_set():
                return
            if document.state is State.QUEUED:
                document.state = State.RUNNING
                document.runs += 1
                name = f"ssm {self.instance.id}"
                thread = threading.Thread(target=self._play, args=(self, document), name=name, daemon=True)
                self.threads.append(thread)
                thread.start()

    def finish(self, document: Document, status: str) -> None:
        """Keep a result and tell the service, unless the agent dies first."""
        document.state, document.status = State.FINISHED, status
        death = self.hub.faults.death(self.instance.id, Moment.AFTER)
        if death is not None:
            self.die_by(death)
            return
        self._tell(document)

    def die_by(self, death: Death) -> None:
        """Die as a switch says."""
        if death.reboot:
            self.reboot()
        else:
            self.die(back_at=None if death.back_after is None else self.hub.clock.now() + death.back_after)

    def reboot(self) -> None:
        """Die with the machine, which is rebooted in the way it has; without one only the agent starts anew."""
        hook = self.instance.reboot
        self.die(back_at=self.hub.clock.now() if hook is None else None)
        if hook is not None:
            thread = threading.Thread(target=hook, name=f"ssm reboot {self.instance.id}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def _come_back(self) -> None:
        """Start anew and go through what the folders on disk say."""
        self.up, self.back_at = True, None
        for document in list(self.documents.values()):
            match document.state:
                case State.RUNNING:
                    failed = Plugin(document.steps[0].name, "Failed", "Failed", 1, stderr=WORKER_GONE.encode())
                    document.plugins = [failed, *(Plugin(step.name) for step in document.steps[1:])]
                    self.finish(document, "Failed")
                case State.REBOOTING:
                    again = Document(document.id, document.steps, document.inputs, runs=document.runs)
                    if document.runs < MOST_RUNS:
                        self.documents[document.id] = again
                    else:
                        del self.documents[document.id]
                case State.FINISHED:
                    self._tell(document)
                case State.QUEUED:
                    pass
        self.start_queued()

    def _tell(self, document: Document) -> None:
        self.documents.pop(document.id, None)
        self.hub.report(self.instance.id, document)
        self.start_queued()
