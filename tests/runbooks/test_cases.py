"""Every case of every shipped runbook, played through the real use cases with the node's answers from the case.

A case is a file tests/runbooks/RUNBOOK/CASE.yaml:

    title: One sentence.
    dry_run: false
    params: {hold_seconds: 5}
    waive: [step]                     # as a reviewed rule would
    answers:                          # of step.script; a list: in order, the last one again and again
      step.check: {exit: 0, targets: [...], stdout: ..., stderr: ..., boot: second}
      step.run: {not_started: other_boot} or {running: true, settles: [{lost: true}, {exit: 0}, {rebooted: true}]}
    takes: {step.verify: 60}          # minutes that pass with each answer, where asking often would show nothing more
    approvals:                        # at the gate of a step; {decision: expired} answers nothing
      step: {by: second-person or requester, decision: approved or denied, refused: true}
    expect:
      refused: ...                    # of the request itself
      outcomes: {step: outcome}       # of every step that was reached
      node: {state: ..., verdict: ...}
      gates: {step: [state]}          # in the order in which they opened
      targets: {step: [...]}          # that the person saw at the gate
      well_now: {step: yes}           # what the verify of a dry run saw
      sent: [step.script]             # in order
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from service.app.runbook_yaml import Document, read_document
from service.domain.errors import Forbidden, UnstickError
from service.domain.node import Inventory
from service.domain.run import Gate, GateState, Run, Verdict
from service.domain.script import NotStarted, OutputChunk, Report, ReportState, ScriptKind, ScriptOrder
from service.executors.scripted import FIRST_BOOT, Answer, ScriptedExecutor
from tests.support.world import OPERATOR, SECOND, SteppedClock, World, local_nodes

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))
NODE, CONTROLLER = "gpu-01", "head"
SECOND_BOOT = "22222222-2222-4222-8222-222222222222"
UNKNOWN = Verdict.UNKNOWN
PERSONS = {"requester": OPERATOR, "second-person": SECOND}


def read_case(path: Path) -> dict[str, Any]:
    document = read_document(path.read_text(), str(path))
    assert isinstance(document, Document), document
    assert isinstance(document.value, dict)
    return document.value


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def report(given: Mapping[str, Any]) -> Report:
    boot = SECOND_BOOT if given.get("boot") == "second" else FIRST_BOOT
    if given.get("running"):
        return Report(ReportState.RUNNING, boot_id=boot)
    if given.get("rebooted"):
        return Report(ReportState.REBOOTED, boot_id=SECOND_BOOT)
    if given.get("lost"):
        return Report(ReportState.LOST, reason="the link was lost")
    if "not_started" in given:
        return Report(ReportState.NOT_STARTED, not_started=NotStarted(given["not_started"]), boot_id=boot, reason="x")
    return Report(
        ReportState.FINISHED,
        exit_code=given["exit"],
        targets=tuple(given.get("targets", ())),
        stdout_bytes=len(given.get("stdout", "").encode()),
        stderr_bytes=len(given.get("stderr", "").encode()),
        boot_id=boot,
    )


def answer(given: Mapping[str, Any]) -> Answer:
    return Answer(
        report(given),
        stdout=given.get("stdout", "").encode(),
        stderr=given.get("stderr", "").encode(),
        settles=tuple(report(settled) for settled in given.get("settles", ())),
    )


class SlowExecutor(ScriptedExecutor):
    """Lets time pass with some answers."""

    def __init__(self, table: Mapping[Any, Any], *, clock: SteppedClock, takes: Mapping[str, int]) -> None:
        super().__init__(table)
        self._clock, self._takes = clock, takes

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        self._clock.at += timedelta(minutes=self._takes.get(f"{order.step}.{order.kind}", 0))
        return super().start(order, on_output)


def scripted(answers: Mapping[str, Any], *, clock: SteppedClock, takes: Mapping[str, int]) -> ScriptedExecutor:
    table = {}
    for place, given in answers.items():
        step, kind = place.rsplit(".", 1)
        for machine in (NODE, CONTROLLER):
            table[machine, step, ScriptKind(kind)] = [answer(one) for one in as_list(given)]
    return SlowExecutor(table, clock=clock, takes=takes)


@dataclass
class Played:
    """What became of a case."""

    world: World
    executor: ScriptedExecutor
    run: Run

    def outcomes(self) -> dict[str, str]:
        (node_run,) = self.world.node_runs(self.run)
        return {result.step: str(result.outcome) for result in node_run.results if result.outcome is not None}

    def node(self) -> dict[str, str]:
        (node_run,) = self.world.node_runs(self.run)
        # One that is stuck has not ended, so the verdict stands at its step.
        verdict = node_run.verdict or next((one.verdict for one in node_run.results if one.verdict is UNKNOWN), None)
        return {"state": str(node_run.state)} | ({"verdict": str(verdict)} if verdict else {})

    def well_now(self) -> dict[str, str]:
        (node_run,) = self.world.node_runs(self.run)
        return {result.step: str(result.well_now) for result in node_run.results if result.well_now is not None}

    def gates(self) -> tuple[Gate, ...]:
        (node_run,) = self.world.node_runs(self.run)
        return self.world.history(node_run).gates

    def gate_states(self) -> dict[str, list[str]]:
        states: dict[str, list[str]] = {}
        for gate in self.gates():
            states.setdefault(gate.step, []).append(str(gate.state))
        return states

    def targets(self) -> dict[str, list[str]]:
        return {gate.step: list(gate.targets) for gate in self.gates()}

    def sent(self) -> list[str]:
        return [f"{order.step}.{order.kind}" for order in self.executor.orders]


def answer_gate(world: World, gate: Gate, given: Mapping[str, Any]) -> bool:
    """Answer as the case says; False when the gate stays open for good."""
    if given["decision"] == "expired":
        assert world.service.clock is world.clock
        world.clock.at = gate.expires_at  # type: ignore[union-attr]
        world.service.store.write(lambda transaction: transaction.wake([gate.node_run_id], at=gate.expires_at))
        return True
    approve = given["decision"] == "approved"
    if given.get("refused"):
        with pytest.raises(Forbidden):
            world.answer(gate, by=PERSONS[given["by"]], approve=approve)
        return False
    world.answer(gate, by=PERSONS[given["by"]], approve=approve)
    return True


def play(world: World, case: Mapping[str, Any], run: Run) -> None:
    for _ in range(20):
        world.settle()
        gates = world.open_gates()
        if not gates or not all(answer_gate(world, gate, case["approvals"][gate.step]) for gate in gates):
            return
    raise AssertionError("it does not end")


@pytest.fixture
def inventory() -> Inventory:
    return local_nodes(NODE, attributes={"k8s_name": NODE, "slurm_name": NODE})


@pytest.fixture
def worlds(tmp_path: Path, inventory: Inventory) -> Iterator[list[World]]:
    built: list[World] = []
    yield built
    for world in built:
        world.close()


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_case_ends_as_it_says(path: Path, tmp_path: Path, inventory: Inventory, worlds: list[World]) -> None:
    case = read_case(path)
    expect = case["expect"]
    clock = SteppedClock()
    executor = scripted(case.get("answers", {}), clock=clock, takes=case.get("takes", {}))
    world = World.build(f"sqlite:///{tmp_path}/unstick.db", executor, inventory=inventory, clock=clock)
    worlds.append(world)
    asked = {
        "params": case.get("params", {}),
        "dry_run": case.get("dry_run", False),
        "waived": tuple(case.get("waive", ())),
    }

    if "refused" in expect:
        with pytest.raises(UnstickError) as caught:
            world.request(path.parent.name, NODE, **asked)
        assert str(caught.value) == expect["refused"]
        return
    run = world.request(path.parent.name, NODE, **asked)
    play(world, case, run)

    played = Played(world, executor, run)
    told = {
        "outcomes": played.outcomes(),
        "node": played.node(),
        "gates": played.gate_states(),
        "targets": played.targets(),
        "well_now": played.well_now(),
        "sent": played.sent(),
    }
    assert {key: told[key] for key in expect} == expect
    assert world.chain_holds()


def test_every_shipped_runbook_has_cases_and_no_case_is_an_orphan() -> None:
    shipped = {path.stem for path in Path("runbooks").glob("*.yaml")}

    assert {path.parent.name for path in CASES} == shipped


def test_gate_states_of_the_cases_are_known() -> None:
    states = [state for path in CASES for told in read_case(path)["expect"].get("gates", {}).values() for state in told]

    assert set(states) <= {str(state) for state in GateState}
