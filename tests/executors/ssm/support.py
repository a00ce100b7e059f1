"""Instances of the stand-in for AWS that are a private mount namespace of this machine, and an executor in front."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lab.private import PrivateMounts
from lab.ssm import Call, Instance, SsmServer
from service.domain.node import Confine, Endpoint, ExecutorKind, View
from service.domain.script import AttemptRef, Report, ScriptOrder
from service.executors.ssm.executor import SsmExecutor
from service.executors.ssm.gateway import Patience
from tests.executors.envelope_place import Heard, Place
from tests.executors.envelope_place import acting as acting_of
from tests.executors.envelope_place import order as order_of
from tests.support.prompt_aws import TEMPO as PROMPT

#: So many seconds of AWS pass in one of ours where a test is about its windows; scripts are real and take their own.
FASTER = 5.0
#: Hurried, and gathering what comes together for a fifth of a second.
TEMPO = replace(PROMPT, gather=0.2)


def instance_id(number: int) -> str:
    """Return the id of an instance."""
    return f"i-{number:017x}"


def endpoint(number: int = 1, **changes: object) -> Endpoint:
    """Return a node of the stand-in."""
    name = f"gpu-{number:02}"
    plain = Endpoint(name, ExecutorKind.SSM, instance_id(number), view=View.PRIVATE, confine=Confine.OFF)
    return replace(plain, **changes)  # type: ignore[arg-type]


def order(text: str, number: int = 1, **changes: object) -> ScriptOrder:
    """Return an order for a script that only reads."""
    return order_of(text, **{"endpoint": endpoint(number), **changes})


def acting(text: str, number: int = 1, **changes: object) -> ScriptOrder:
    """Return an order for a script that changes the node."""
    return acting_of(text, **{"endpoint": endpoint(number), **changes})


@dataclass
class Region:
    """The stand-in and what runs on its instances."""

    server: SsmServer
    place: Place
    executor: SsmExecutor

    def run(self, given: ScriptOrder, heard: Heard | None = None) -> Report:
        """Start a script."""
        return self.executor.start(given, heard or Heard())

    def settle(self, attempt: AttemptRef, heard: Heard | None = None) -> Report:
        """Ask how it stands."""
        return self.executor.settle(attempt, heard or Heard())

    def together(self, orders: Sequence[ScriptOrder]) -> list[Report]:
        """Start scripts at once, each in a thread of its own."""
        with ThreadPoolExecutor(len(orders)) as threads:
            return list(threads.map(self.run, orders))

    def sends(self, since: int = 0) -> list[Call]:
        """Return the calls of SendCommand."""
        return self.server.calls_of("SendCommand")[since:]

    def close(self) -> None:
        """Close the executor, also one that a test has put in the place of the first."""
        self.executor.close()

    def again(self, **settings: Any) -> SsmExecutor:
        """Put a fresh executor in the place of the last one."""
        self.executor.close()
        self.executor = SsmExecutor(lambda: datetime.now(UTC), **{"tempo": TEMPO, **settings})
        return self.executor


def instances(server: SsmServer, mounts: PrivateMounts, *, count: int) -> None:
    """Register instances that are all the same namespace; only their names differ."""
    place = Place(mounts, None)  # type: ignore[arg-type]
    for number in range(1, count + 1):
        server.add(Instance(instance_id(number), prefix=lambda: place.prefix, name=f"gpu-{number:02}"))


#: Where all that come at once shall share a command, however slowly they come.
GATHERING = replace(TEMPO, gather=1.0)
#: For tests in which no answer comes.
IMPATIENT = Patience(connect=10.0, answer=0.5)
