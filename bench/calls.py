"""How often AWS is asked for scripts that only read: our executor against a loop such as one writes first.

Both send the same five texts of a runbook to the same instances of the lab's stand-in, at the pace of a real clock, and
what they asked is read from the stand-in's own log. The loop sends one command for each node and step, and asks for its
invocation every second until it has ended. It works on few nodes at a time, so that a slow machine adds no questions to
it; ours works on all at once, each node at its own step. What the two bring back must be the same bytes where the text
brings the same at all times, or there is no figure.
"""

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.exceptions import ClientError

from bench.measure import load
from bench.served import RUNBOOKS
from lab.ssm import Instance, SsmServer
from service.app.load_runbooks import RunbookFolder
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.plan import PlannedScript, make_plan
from service.domain.script import OutputChunk, ReportState, ScriptOrder, Stream, sha256
from service.executors.envelope import node_runner
from service.executors.ssm.executor import SsmExecutor

RUNBOOK = "five-looks"
#: A step that prints the same whenever it is asked.
STEADY = "kernel"
#: Nodes that the loop has under way at once.
LOOPS = 10
#: A look that is under way when the last script has ended reads its pages to the end; they are ours.
LAST_LOOK = 3.0
_OPEN = ("Pending", "InProgress", "Delayed", "Cancelling")

#: Standard output of a script, by node and step.
Outputs = dict[tuple[str, str], bytes]


@dataclass
class Asked:
    """What one side asked, and what it got."""

    calls: Counter[str] = field(default_factory=Counter)
    outputs: Outputs = field(default_factory=dict)
    wall: float = 0.0


@dataclass
class Compared:
    """Both sides."""

    nodes: int
    steps: int
    ours: Asked
    naive: Asked
    load_before: str
    load_after: str


def compare(nodes: int) -> Compared:
    """Let both look at so many instances."""
    before = load()
    endpoints = {f"n{number:03}": _endpoint(number) for number in range(1, nodes + 1)}
    runbook, _source = RunbookFolder(RUNBOOKS).get(RUNBOOK)
    members = tuple(Node(name, endpoint) for name, endpoint in endpoints.items())
    inventory = Inventory({one.name: one for one in members}, {})
    plan = make_plan(runbook, members, inventory=inventory, params={}, envelope_sha256=sha256(node_runner()))
    scripts = {name: [one for one in plan.scripts if one.node == name] for name in endpoints}
    with SsmServer() as server, _environment(server):
        for name, endpoint in endpoints.items():
            server.add(Instance(endpoint.address, name=name))
        with closing(SsmExecutor(lambda: datetime.now(UTC))) as executor:
            ours = _asked(server, _each(list(scripts.values()), _of_executor(executor, endpoints), at_once=nodes))
        with closing(boto3.client("ssm")) as client:
            naive = _asked(server, _each(list(scripts.values()), _of_loop(client, endpoints), at_once=LOOPS))
    _refuse_difference(ours, naive)
    return Compared(nodes, len(runbook.steps), ours, naive, before, load())


def _endpoint(number: int) -> Endpoint:
    return Endpoint(f"n{number:03}", ExecutorKind.SSM, f"i-{number:017x}", view=View.BOOT)


@contextmanager
def _environment(server: SsmServer) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(server.environment())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _asked(server: SsmServer, play: Callable[[], Outputs]) -> Asked:
    since, began = len(server.calls), time.perf_counter()
    outputs = play()
    wall = time.perf_counter() - began
    time.sleep(LAST_LOOK)
    return Asked(Counter(call.operation for call in server.calls[since:]), outputs, wall)


def _each(
    nodes: Sequence[Sequence[PlannedScript]], run: Callable[[PlannedScript], bytes], *, at_once: int
) -> Callable[[], Outputs]:
    """Return what plays the steps of each node in their order, several nodes at once."""

    def one(scripts: Sequence[PlannedScript]) -> Outputs:
        return {(script.node, script.step): run(script) for script in scripts}

    def play() -> Outputs:
        with ThreadPoolExecutor(at_once) as threads:
            return {key: output for outputs in threads.map(one, nodes) for key, output in outputs.items()}

    return play


def _of_executor(executor: SsmExecutor, endpoints: dict[str, Endpoint]) -> Callable[[PlannedScript], bytes]:
    def run(script: PlannedScript) -> bytes:
        chunks: list[OutputChunk] = []
        report = executor.start(_order(script, endpoints[script.node]), chunks.append)
        if report.state is not ReportState.FINISHED or report.exit_code != 0:
            raise RuntimeError(f"void: {script.step} on {script.node} is {report.state}: {report.reason}")
        return b"".join(one.data for one in chunks if one.stream is Stream.STDOUT)

    return run


def _order(script: PlannedScript, endpoint: Endpoint) -> ScriptOrder:
    now = datetime.now(UTC)
    return ScriptOrder(
        attempt_id=uuid.uuid4().hex,
        run_id="calls",
        step=script.step,
        kind=script.kind,
        endpoint=endpoint,
        text=script.text,
        targets=(),
        acting=False,
        timeout=timedelta(minutes=2),
        not_after=now + timedelta(minutes=10),
        sent_at=now,
        service_id="bench",
    )


def _of_loop(client: Any, endpoints: dict[str, Endpoint]) -> Callable[[PlannedScript], bytes]:
    def run(script: PlannedScript) -> bytes:
        instance = endpoints[script.node].address
        # The document's shell is sh; a script of ours is for bash.
        lines = ["#!/bin/bash", *script.text.splitlines()]
        sent = client.send_command(
            InstanceIds=[instance], DocumentName="AWS-RunShellScript", Parameters={"commands": lines}
        )
        command_id = sent["Command"]["CommandId"]
        while True:
            time.sleep(1.0)
            try:
                answer = client.get_command_invocation(CommandId=command_id, InstanceId=instance)
            except ClientError as error:
                if error.response["Error"]["Code"] != "InvocationDoesNotExist":
                    raise
                continue
            if answer["Status"] not in _OPEN:
                break
        if answer["Status"] != "Success":
            raise RuntimeError(f"void: {script.step} on {script.node} is {answer['Status']} in the loop")
        return str(answer["StandardOutputContent"]).encode()

    return run


def _refuse_difference(ours: Asked, naive: Asked) -> None:
    if ours.outputs.keys() != naive.outputs.keys() or not all([*ours.outputs.values(), *naive.outputs.values()]):
        raise RuntimeError("void: not every script of both sides brought something")
    for key, output in ours.outputs.items():
        if key[1] == STEADY and output.strip() != naive.outputs[key].strip():
            raise RuntimeError(f"void: {key} brought other bytes than the loop")


def report(compared: Compared) -> str:
    """Return the figures as Markdown: calls, those for a node and step, and the ratio."""
    scripts = compared.nodes * compared.steps
    ours, naive = compared.ours.calls.total() / scripts, compared.naive.calls.total() / scripts
    around = f"load {compared.load_before} before and {compared.load_after} after"
    lines = [
        f"{compared.nodes} nodes, {compared.steps} scripts each; {around}.",
        "",
        "| | calls | for a node and step | of them | wall |",
        "|---|---|---|---|---|",
        _row("unstick's executor, all nodes at once", compared.ours, scripts),
        _row(f"a loop for each node, {LOOPS} nodes at once, asking every second", compared.naive, scripts),
        "",
        f"**{ours / naive:.2f} of the loop's calls, {naive / ours:.1f} times fewer** (aim: a fifth).",
    ]
    return "\n".join(lines)


def _row(name: str, asked: Asked, scripts: int) -> str:
    each = ", ".join(f"{number} {operation}" for operation, number in sorted(asked.calls.items()))
    return f"| {name} | {asked.calls.total()} | {asked.calls.total() / scripts:.2f} | {each} | {asked.wall:.0f} s |"
