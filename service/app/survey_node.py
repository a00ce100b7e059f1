"""Looks at what runs on a node and who else has it, by asking its controller and the node itself, outside any run.

A look ends within its time whatever hangs, and nothing that is out of reach is an error: it could not be seen.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final

from service.app.ask_controller import Inquiry, ask
from service.app.ports import Clock, Executors
from service.app.survey_frames import Said, read_parts
from service.app.survey_kubernetes import read_kubernetes
from service.app.survey_machine import read_machine
from service.app.survey_slurm import NODE_NAME, read_slurm
from service.domain.errors import BrokenRule, UnstickError
from service.domain.node import Controller, Inventory, Node
from service.domain.survey import Kind, Part, Survey, could_not_look, not_asked

#: A look at any number of nodes ends by then.
DEADLINE: Final = timedelta(seconds=20)
#: So long a script may take on its machine; what is left of the time is for the way there and back.
_SCRIPT: Final = timedelta(seconds=16)
#: So many machines are asked at the same time. One that hangs keeps its place until its connection gives up.
_AT_ONCE: Final = 16
#: What a controller has said of a node is good for so long when alerts are judged.
KEPT: Final = timedelta(seconds=30)

_Parts = Mapping[Kind, Part]
_OF_MACHINE = (Kind.USERS, Kind.GPU_PROCESSES)
_OF_CONTROLLER = (Kind.OWNERS, Kind.PODS, Kind.JOBS)


@dataclass(frozen=True)
class _Kept:
    asked_at: datetime
    node: Node
    controller: Controller | None
    parts: _Parts


class NodeSurveyor:
    """Fulfils the port Surveyor. Safe for many threads."""

    def __init__(self, executors: Executors, clock: Clock, *, service_id: str, deadline: timedelta = DEADLINE) -> None:
        """Take how machines are reached, and when a look ends at the latest."""
        self._executors = executors
        self._clock = clock
        self._service_id = service_id
        self._deadline = deadline
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._known: dict[str, _Kept] = {}

    def survey(self, node: Node, inventory: Inventory) -> Survey:
        """Return what runs on a node at this moment, and who else has it."""
        controller = inventory.controllers.get(node.controller or "")
        asked_at = self._clock.now()
        of_machine, of_controller = self._all(
            [lambda: self._ask_machine(node), lambda: self._ask_controller(node, controller)]
        )
        cluster = of_controller or _unseen(_OF_CONTROLLER, self._late(controller.name if controller else ""))
        machine = of_machine or _unseen(_OF_MACHINE, self._late(node.name))
        if of_controller is not None:
            self._keep(_Kept(asked_at, node, controller, of_controller))
        known = {**cluster, **machine}
        return Survey(asked_at, {kind: known[kind] for kind in Kind})

    def owners(self, nodes: Sequence[Node], inventory: Inventory) -> Mapping[str, Part]:
        """Return who else has each of these nodes; what was said within the last half minute is not asked again."""
        now = self._clock.now()
        found, left = {}, []
        for node in nodes:
            controller = inventory.controllers.get(node.controller or "")
            kept = self._known.get(node.name)
            if kept is not None and now - kept.asked_at < KEPT and (kept.node, kept.controller) == (node, controller):
                found[node.name] = kept.parts[Kind.OWNERS]
            else:
                left.append((node, controller))
        looks = [lambda one=one, other=other: self._ask_controller(one, other) for one, other in left]
        for (node, controller), said in zip(left, self._all(looks), strict=True):
            if said is None:
                found[node.name] = could_not_look(self._late(controller.name if controller else ""))
            else:
                self._keep(_Kept(now, node, controller, said))
                found[node.name] = said[Kind.OWNERS]
        return found

    def _keep(self, kept: _Kept) -> None:
        with self._lock:
            over = kept.asked_at - KEPT
            self._known = {name: one for name, one in self._known.items() if one.asked_at > over}
            self._known[kept.node.name] = kept

    def _late(self, place: str) -> str:
        return f"no answer of {place} within {self._deadline.total_seconds():g} s"

    def _all(self, looks: Sequence[Callable[[], _Parts]]) -> list[_Parts | None]:
        """Return what each look brings, all at the same time; None for one that is not back in time."""
        futures: list[Future[_Parts]] = [Future() for _ in looks]
        for look, future in zip(looks, futures, strict=True):
            # A thread of its own, for it may outlast us; the end of the process waits for none of them.
            threading.Thread(target=self._into, args=(look, future), name="survey", daemon=True).start()
        done, _ = wait(futures, timeout=self._deadline.total_seconds())
        return [future.result() if future in done else None for future in futures]

    def _into(self, look: Callable[[], _Parts], future: "Future[_Parts]") -> None:
        if not self._places.acquire(timeout=self._deadline.total_seconds()):
            return
        try:
            future.set_result(look())
        except BrokenRule as defect:
            future.set_exception(defect)
        finally:
            self._places.release()

    def _ask_controller(self, node: Node, controller: Controller | None) -> _Parts:
        """Return owners, pods and jobs."""
        known = {
            Kind.OWNERS: not_asked("the inventory names no cluster of the node"),
            Kind.PODS: not_asked("the node has no k8s_name"),
            Kind.JOBS: not_asked("the node has no slurm_name"),
        }
        if controller is None:
            return known
        kubernetes, slurm = (node.attributes.get(name, "") for name in ("k8s_name", "slurm_name"))
        found: list[_Parts] = []
        if kubernetes:
            found.append(self._ask_kubernetes(controller, kubernetes))
        if slurm:
            found.append(self._ask_slurm(controller, slurm))
        for said in found:
            known |= said
        # Of a node of both, an owner in one of them is an owner, and so is what could not be seen there.
        return known | ({Kind.OWNERS: _worst([one[Kind.OWNERS] for one in found])} if found else {})

    def _ask_kubernetes(self, controller: Controller, name: str) -> _Parts:
        said = self._ask(self._inquiry(controller, "kubernetes.sh", {"NODE_K8S_NAME": name}))
        if isinstance(said, str):
            return _unseen((Kind.OWNERS, Kind.PODS), said)
        uid = controller.environment.get("KUBE_SYSTEM_UID", "")
        return read_kubernetes(said, name, uid=uid, now=self._clock.now())

    def _ask_slurm(self, controller: Controller, name: str) -> _Parts:
        if not NODE_NAME.fullmatch(name):
            return _unseen((Kind.OWNERS, Kind.JOBS), f"slurm_name is {name}, which names no single node")
        said = self._ask(self._inquiry(controller, "slurm.sh", {"NODE_SLURM_NAME": name}))
        return _unseen((Kind.OWNERS, Kind.JOBS), said) if isinstance(said, str) else read_slurm(said, name)

    def _ask_machine(self, node: Node) -> _Parts:
        inquiry = Inquiry(
            node.endpoint, script("machine.sh"), _SCRIPT, run_id="node-survey", step="survey", place=node.name
        )
        said = self._ask(inquiry)
        return _unseen(_OF_MACHINE, said) if isinstance(said, str) else read_machine(said, node.endpoint.user)

    def _inquiry(self, controller: Controller, name: str, environment: Mapping[str, str]) -> Inquiry:
        return Inquiry(
            controller.endpoint,
            script(name),
            _SCRIPT,
            run_id="node-survey",
            step="survey",
            environment={**controller.environment, **environment},
            place=f"the controller {controller.name}",
        )

    def _ask(self, inquiry: Inquiry) -> Mapping[str, Said] | str:
        """Return what a machine says, or why it says nothing."""
        try:
            output = ask(inquiry, executors=self._executors, clock=self._clock, service_id=self._service_id)
        except BrokenRule:
            raise
        except UnstickError as silent:
            return silent.reason
        return read_parts(output) or f"what {inquiry.place} says is not whole"


@cache
def script(name: str) -> str:
    """Return a script of a survey with what stands before it."""
    folder = files("service.app") / "survey_scripts"
    return f"{(folder / 'frames.sh').read_text()}\n{(folder / name).read_text()}"


def _unseen(kinds: Sequence[Kind], why: str) -> _Parts:
    return dict.fromkeys(kinds, could_not_look(why))


def _worst(parts: Sequence[Part]) -> Part:
    """Return the part with an owner in it, else one that could not be seen, else the first."""
    with_owner = next((one for one in parts if one.count), None)
    return with_owner or next((one for one in parts if one.why), parts[0])
