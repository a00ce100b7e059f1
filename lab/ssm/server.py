"""The stand-in as one object: `with SsmServer() as server`, then boto3 with `server.environment()`."""

import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from lab import control_group, leftovers
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.ssm.agent import Agent, Hub
from lab.ssm.calls import Call, Calls
from lab.ssm.clock import Clock
from lab.ssm.control import Control
from lab.ssm.documents import Documents
from lab.ssm.faults import Faults
from lab.ssm.heart import Heart, deliver_again
from lab.ssm.http import Server
from lab.ssm.instance import Instance
from lab.ssm.keeper import Keeper
from lab.ssm.player import Player
from lab.ssm.signature import Key
from lab.ssm.state import INSTANCES_MOST, State, Timing

REGION = "eu-central-1"
ACCOUNT = "123456789012"


class SsmServer(Closing):
    """SSM Run Command on a loopback port, with machines that really run what is sent to them."""

    def __init__(
        self,
        *,
        pace: float = 1.0,
        script_pace: float = 1.0,
        timing: Timing | None = None,
        seed: int = 0,
        region: str = REGION,
    ) -> None:
        """Start it; `pace` is how many seconds of AWS pass in one here, `script_pace` those of scripts' timeouts."""
        self._record = guarded_record(f"ssm-{os.getpid()}-{secrets.token_hex(4)}")
        self._folder = leftovers.run_folder() / self._record.name
        self._record.folders.append(str(self._folder))
        self._record.save()
        self._retired: list[Agent] = []
        self.clock = Clock(pace=pace, script_pace=script_pace)
        self.faults = Faults(seed)
        self._region = region
        self._identity, self._secret = f"AKIALAB{secrets.token_hex(6).upper()}", secrets.token_urlsafe(30)
        try:
            self._begin(timing or Timing())
        except BaseException:
            self._record.undo()
            raise

    def _begin(self, timing: Timing) -> None:
        self._folder.mkdir(mode=0o711)
        if os.getuid() == 0:
            self._record.cgroups = [str(path) for path in control_group.names_for(self._record.name)]
            self._record.save()
            for cgroup in self._record.cgroups:
                Path(cgroup).mkdir()
        hub = Hub(
            clock=self.clock,
            faults=self.faults,
            region=self._region,
            folder=str(self._folder),
            cgroups=self._record.cgroups,
            closing=threading.Event(),
        )
        self._state = State(hub, Documents(self.clock.now()), timing, ACCOUNT)
        self._calls = Calls()
        self._keeper = Keeper(self._record)
        self._player = Player(self._state.lock, self._keeper.take)
        self._heart = Heart(self._state)
        control = Control(self._state, self._calls, self._secret)
        key = Key(self._identity, self._secret, self._region)
        self._http = Server(self._state, self._calls, key, control=control)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="ssm accept", daemon=True)
        self._thread.start()
        self._heart.start()

    @property
    def url(self) -> str:
        """Give the endpoint, `http://127.0.0.1:PORT`."""
        return self._http.url

    @property
    def documents(self) -> Documents:
        """Give the documents, to add versions of as somebody else would."""
        return self._state.documents

    @property
    def calls(self) -> list[Call]:
        """Give all calls so far."""
        return self._calls.all()

    @property
    def late_reports(self) -> int:
        """Give how many reports came for invocations that had ended for the service."""
        return self._state.late_reports

    def calls_of(self, operation: str) -> list[Call]:
        """Give the calls of one operation, those that failed included."""
        return self._calls.all(operation)

    def environment(self) -> dict[str, str]:
        """Give what a process needs in its environment so that boto3 talks to this server."""
        return {
            "AWS_ENDPOINT_URL_SSM": self.url,
            "AWS_ACCESS_KEY_ID": self._identity,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_DEFAULT_REGION": self._region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def add(self, instance: Instance) -> Instance:
        """Register a machine; its agent is there at once."""
        with self._state.lock:
            if len(self._state.instances) >= INSTANCES_MOST:
                raise ValueError(f"no more than {INSTANCES_MOST} instances")
            self._state.instances[instance.id] = instance
            self._state.agents[instance.id] = Agent(instance, self._state.hub, play=self._player.play)
            self._state.registered[instance.id] = self.clock.now()
        return instance

    def remove(self, identity: str) -> None:
        """Forget a machine, as after its deregistration; what waits for it cannot be delivered any more."""
        with self._state.lock:
            self._state.instances.pop(identity)
            agent = self._state.agents.pop(identity)
            agent.die(back_at=None)
            self._retired.append(agent)

    def deliver_again(self, command: str, instance: str) -> str:
        """Bring a command to an agent once more; give what became of it: taken, dropped, full or unreachable."""
        with self._state.lock:
            return deliver_again(self._state.command(command), self._state.agents[instance]).value

    def store(self, values: Mapping[str, str]) -> Self:
        """Store parameters, which `{{ssm:name}}` in a document or a script is replaced by."""
        with self._state.lock:
            self._state.hub.stored.update(values)
        return self

    def close(self) -> None:
        """End all scripts and connections."""
        hub = self._state.hub
        hub.closing.set()
        self._http.end()
        self._thread.join()
        self._heart.stop()
        with self._state.lock:
            agents = [*self._state.agents.values(), *self._retired]
        # Workers let their scripts go when the hub closes; only then are the scripts ended.
        for agent in agents:
            for thread in agent.threads:
                thread.join()
        self._keeper.end()
        self._record.undo()
        self._keeper.reap()
