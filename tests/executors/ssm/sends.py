"""Acting scripts, sent and asked about as the service does it, on instances with a /run of their own each.

The intent is recorded, the script is sent, and an attempt that nobody knows the end of is asked about until somebody
does. Each script writes its attempt and its exit code to the node, so that the record can be held against what ran.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.process import wait_until
from lab.ssm import Call, Instance, Outcome, SsmServer
from lab.ssm.service import answer
from service.app.driven import Driven, load
from service.app.send_script import ask, dispatch_script
from service.domain.action import Dispatch, Settle
from service.domain.node import Inventory, Node
from service.domain.run import Attempt, AttemptState, History, NodeRun
from service.domain.script import ScriptKind
from service.executors.ssm.executor import SsmExecutor
from service.executors.ssm.gateway import Patience
from service.executors.ssm.tempo import Tempo
from tests.executors.envelope_place import BOOT, Place, give_run
from tests.executors.ssm.support import FASTER, endpoint, instance_id
from tests.support.world import RealClock, World

#: What one SendCommand may meet after which nobody knows whether it was accepted, and one where it was not.
AMBIGUOUS = (Outcome.CUT_AFTER, Outcome.CUT, Outcome.INTERNAL_AFTER, Outcome.HANG_AFTER, Outcome.HANG)
KINDS = (*AMBIGUOUS, Outcome.THROTTLE)
#: How the log calls them; a 500 has its code.
AMBIGUOUS_ANSWERS = {"cut_after", "cut", "InternalServerError", "hang_after", "hang"}
#: After so many questions an attempt is called starved.
QUESTIONS = 60


@dataclass
class Lane:
    """One node and its node run, on which one attempt follows the other."""

    place: Place
    driven: Driven
    node_run: NodeRun

    def executions(self) -> dict[str, list[int]]:
        """Return the exit codes of every execution, by attempt."""
        found: dict[str, list[int]] = {}
        trace = self.place.file("executions")
        for line in trace.read_text().splitlines() if trace.exists() else ():
            attempt_id, code = line.split()
            found.setdefault(attempt_id, []).append(int(code))
        return found


@dataclass
class Sends:
    """The stand-in, the executor, the record, and one lane for each instance."""

    server: SsmServer
    world: World
    lanes: list[Lane]

    def send(self, lane: Lane, step: str = "quick") -> str:
        """Record an intent and send its script once; return the attempt."""
        known = {one.id for one in self._history(lane).attempts}
        dispatch = Dispatch(step, ScriptKind.RUN, 1, (), acting=True, boot_id=BOOT, not_after=None)
        dispatch_script(lane.driven, self._history(lane), dispatch=dispatch)
        (new,) = {one.id for one in self._history(lane).attempts} - known
        return new

    def attempt(self, lane: Lane, attempt_id: str) -> Attempt:
        """Return what is recorded of an attempt."""
        return next(one for one in self._history(lane).attempts if one.id == attempt_id)

    def ask_until(self, lane: Lane, attempt_id: str, *, enough: Callable[[], bool] = lambda: False) -> None:
        """Ask about an attempt until its end is known, or it is enough; `ask` sends again what nobody saw start."""
        for asked in range(QUESTIONS):
            if not self.attempt(lane, attempt_id).state.open or enough():
                return
            # The service waits as well; without it a slow machine would be asked into a standstill.
            time.sleep(min(2.0, 0.1 * asked))
            ask(lane.driven, self._history(lane), action=Settle(attempt_id))

    def copy(self, attempt_id: str) -> None:
        """Send the last command of an attempt once more, under a new CommandId, as a client that retries may.

        Past the faults and the log, which are for what the service itself sends.
        """
        # A call is in the log when it is answered, which on a slow machine is after the client has given up.
        wait_until(lambda: bool(self._sent(attempt_id)), "the stand-in has answered")
        answer(self.server._state, "SendCommand", dict(self._sent(attempt_id)[-1].parameters))

    def in_parallel(self, work: Callable[[Lane], None]) -> None:
        """Do this on every lane at once."""
        with ThreadPoolExecutor(len(self.lanes)) as threads:
            list(threads.map(work, self.lanes))

    def wrong(self) -> list[str]:
        """Return where the record and the nodes differ, after all that was sent has come to rest."""
        wait_until(lambda: not self.server._state.live, "nothing is under way any more", seconds=120)
        return [fault for lane in self.lanes for fault in _faults(self._history(lane).attempts, lane.executions())]

    def states(self) -> Counter[str]:
        """Return how many attempts stand how."""
        return Counter(one.state.value for lane in self.lanes for one in self._history(lane).attempts)

    def _sent(self, attempt_id: str) -> list[Call]:
        return [one for one in self.server.calls_of("SendCommand") if one.parameters.get("Comment") == attempt_id]

    def _history(self, lane: Lane) -> History:
        history = self.world.history(lane.node_run)
        # The claim is ours for as long as the test lasts.
        return History(**{**vars(history), "node_run": lane.node_run})


def _faults(attempts: Iterable[Attempt], executions: dict[str, list[int]]) -> Iterator[str]:
    for attempt in attempts:
        ran = executions.pop(attempt.id, [])
        told = f"{attempt.id} {attempt.state} {attempt.exit_code} {attempt.reason}"
        if len(ran) > 1:
            yield f"ran {len(ran)} times: {told}"
        elif attempt.state is AttemptState.FINISHED and ran != [attempt.exit_code]:
            yield f"the node says {ran}: {told}"
        elif attempt.state is AttemptState.NOT_STARTED and ran:
            yield f"it ran: {told}"
        elif attempt.state not in (AttemptState.FINISHED, AttemptState.NOT_STARTED):
            yield f"nobody learnt its end: {told}"
    yield from (f"nobody intended {attempt_id}" for attempt_id in executions)


@contextmanager
def sends_on(count: int, folder: Path, *, patience: Patience | None = None) -> Iterator[Sends]:
    """Give so many instances, each a mount namespace with its own /run and acting lock, and a service in front."""
    with ExitStack() as stack:
        server = stack.enter_context(SsmServer(pace=FASTER))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in server.environment().items():
            patch.setenv(name, value)
        places = {}
        for number in range(1, count + 1):
            mounts = stack.enter_context(PrivateMounts())
            give_run(mounts)
            places[f"gpu-{number:02}"] = place = Place(mounts, None)  # type: ignore[arg-type]
            server.add(Instance(instance_id(number), prefix=_prefix(place), name=f"gpu-{number:02}"))
        executor = SsmExecutor(
            lambda: datetime.now(UTC), tempo=Tempo(pace=1 / FASTER), patience=patience or Patience(), longest_wait=1
        )
        nodes = {name: Node(name, endpoint(number), ("lab",)) for number, name in enumerate(places, 1)}
        world = World.build(
            f"sqlite:///{folder}/sends.db",
            executor,
            inventory=Inventory(nodes, {}),
            runbooks=Path(__file__).parent / "runbooks",
            clock=RealClock(),
        )
        stack.callback(world.close)
        yield Sends(server, world, _lanes(world, places))


def _prefix(place: Place) -> Callable[[], list[str]]:
    return lambda: place.prefix


def _lanes(world: World, places: dict[str, Place]) -> list[Lane]:
    run = world.request("send", *places)
    claimed = [_claim(world, node_run) for node_run in world.node_runs(run)]
    return [Lane(places[one.node], load(world.service, one), one) for one in claimed]


def _claim(world: World, node_run: NodeRun) -> NodeRun:
    now = world.clock.now()
    claimed = world.service.store.write(lambda transaction: transaction.claim(node_run.id, owner="tests", now=now))
    assert claimed is not None
    return claimed


def ambiguous_sends(sends: Sends, attempts: int) -> int:
    """Send so many scripts, each fault in turn to whichever command comes next; return how many answers were lost.

    Every third command is sent a second time by somebody else, and the stand-in delivers each command twice.
    """
    sends.server.faults.hang_seconds, sends.server.faults.duplicates = 6.0, 1
    numbers, lock = iter(range(attempts)), threading.Lock()

    def work(lane: Lane) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            sends.server.faults.next("SendCommand", KINDS[number % len(KINDS)])
            attempt_id = sends.send(lane, "slow" if number % 11 == 10 else "quick")
            if number % 3 == 0:
                sends.copy(attempt_id)
            sends.ask_until(lane, attempt_id)

    sends.in_parallel(work)
    return sum(call.answered in AMBIGUOUS_ANSWERS for call in sends.server.calls_of("SendCommand"))
