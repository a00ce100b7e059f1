"""What the demo tells: the cure of a node that is really stuck, and, where none can be made, a look at this machine."""

import os
import time
from contextlib import ExitStack
from typing import Any

from lab.demo_ssm import INSTANCE, RunCommand
from lab.demo_stage import PATIENCE, Failed, Stage
from lab.demo_words import GREEN, YELLOW, Words
from lab.nodes import Node
from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import MountOptions, StuckConnection

NODE, HERE = "gpu-01", "here"
FIRST, SECOND = "operator", "second-person"
#: How long nothing may move before the connection counts as stuck; in earnest a minute.
HOLD_SECONDS = 5
#: Over SSM the cure has one more.
CURE_STEPS, SSM_STEPS, LOOK_STEPS = 9, 1, 4
GOING_ON = frozenset({"queued", "running", "waiting"})


def cure(words: Words, stack: ExitStack, *, stage: Stage, place: Node | PrivateMounts, by_ssm: bool = False) -> None:
    """Make a connection stuck in a place and let two persons cure it with the service.

    The first step, making the place, is told by the caller. What is made is closed with the stack. Raises Failed when
    anything is not as it must be.
    """
    carrier = _give_to_ssm(words, stack, node=place) if by_ssm and isinstance(place, Node) else None
    stuck = _make_stuck(words, stack, place=place)
    _start(words, stage, place=place, carrier=carrier)
    command = f"run abort-stuck-fuse --node {NODE} --param hold_seconds={HOLD_SECONDS}"
    # This machine may have connections of others, which are none of the demo's business.
    command += f" --param fstype={stuck.options.fstype}" if isinstance(place, PrivateMounts) else ""

    words.step("Dry run", "The checks look in earnest. Nothing is sent that would change the node.")
    dry = _run_id(stage.types(FIRST, f"{command} --dry-run --wait"))
    stage.types(FIRST, f"show {dry}")

    words.step("Request the cure", "It looks again, finds the connection, and stops at a gate before it acts.")
    begun = time.monotonic()
    run_id = _run_id(stage.types(FIRST, f"{command} --wait", expect=3))

    words.step("Answer the gate", "Somebody else sees what the check saw, and agrees to exactly that.")
    _answer(stage, run_id, stuck=stuck)

    words.step("Wait for the proof", "The exit code of the cure decides nothing; a look at the symptom does.")
    run = _end(words, stage, run_id)
    stage.types(FIRST, f"show {run_id}")
    if run["nodes"][0]["verdict"] != "cured":
        raise Failed(f"the verdict is {run['nodes'][0]['verdict']}, not cured")
    words.line(f"verdict: cured, {time.monotonic() - begun:.0f} s after the request, gate included", style=GREEN)

    _look_ourselves(words, place, stuck=stuck)
    if carrier:
        words.line("What Run Command was asked:")
        words.line(", ".join(f"{operation} {count}" for operation, count in carrier.asked().items()))
    _read_record(words, stage, run_id)


def look(words: Words, stage: Stage) -> None:
    """Read facts of this machine through the service; Failed when anything is not as it must be."""
    # Not `machine`: in many containers nobody may compare namespaces with those of PID 1.
    stage.write_inventory({HERE: {"executor": "local", "view": "private"}})
    words.step("Start the service", "A process of its own, with a database of its own, on loopback.")
    stage.serve()
    stage.person(FIRST, "operator")

    words.step("Run a runbook that only reads", "Nothing on this machine is changed.")
    run_id = _run_id(stage.types(FIRST, f"run node-facts --node {HERE} --wait"))

    words.step("See what it found", "What a script said is kept as it came.")
    stage.types(FIRST, f"show {run_id} --output")
    verdict = stage.ask(FIRST, "show", run_id)["nodes"][0]["verdict"]
    words.line(f"verdict: {verdict or 'none, for nothing was to be cured'}", style=GREEN)

    _read_record(words, stage, run_id)


def _make_stuck(words: Words, stack: ExitStack, *, place: Node | PrivateMounts) -> StuckConnection:
    words.step(
        "Make a FUSE mount really stuck",
        "Its server is killed while a helper keeps the descriptor, so the kernel waits for ever for an answer.",
    )
    fstype = f"fuse.demo-{os.getpid()}" if isinstance(place, PrivateMounts) else "fuse.rclone"
    options = MountOptions(direct=True, fstype=fstype)
    stuck = stack.enter_context(StuckConnection(place, options, mountpoint="/mnt/bucket", kill_reader=False))
    words.command(f"{NODE} #", f"dd if={stuck.mountpoint}/stuck of=/dev/null &")
    words.line(f"[1] {stuck.reader_pid}")
    words.command(f"{NODE} #", f"kill -9 {stuck.server_pid}    # {options.comm}, the server; {options.helper} lives on")
    words.command(f"{NODE} #", f"kill -9 {stuck.reader_pid}    # dd, the reader")
    place.kill(stuck.reader_pid)
    wait_until(lambda: stuck.reader_state() == "D", "the killed reader stays in D")
    # A killed process that can end does so within a second.
    time.sleep(1)
    _types_there(words, place, f"grep State: /proc/{stuck.reader_pid}/status")
    if stuck.reader_state() != "D":
        raise Failed("the reader is not stuck")
    words.line("Killed, and still there. No signal ends it, and no restart of the job cures it.", style=YELLOW)
    return stuck


def _give_to_ssm(words: Words, stack: ExitStack, *, node: Node) -> RunCommand:
    """Take SSH away from the node, and let the stand-in run what is sent to it."""
    words.step("Give the node to SSM", "Run Command, played by a stand-in on this machine: no account, nothing of AWS.")
    _types_there(words, node, "systemctl stop ssh")
    words.command("$", f"python -m lab.ssm serve --node {NODE}={INSTANCE} &")
    carrier = stack.enter_context(RunCommand(node))
    words.line(f"{NODE} is instance {INSTANCE} in region {carrier.region}, at {carrier.url}; SSH is closed")
    return carrier


def _start(words: Words, stage: Stage, *, place: Node | PrivateMounts, carrier: RunCommand | None) -> None:
    """Start the service, which knows the node, and make its two persons."""
    stage.write_inventory({NODE: _reached(place, carrier)})
    words.step("Start the service", "A process of its own on loopback, and two persons: one asks, the other agrees.")
    shown = f"AWS_ENDPOINT_URL_SSM={carrier.url}" if carrier else ""
    prefix = place.enter_prefix if isinstance(place, PrivateMounts) else ()
    stage.serve(prefix, shown=shown, environment=carrier.environment if carrier else None)
    stage.person(FIRST, "operator")
    stage.person(SECOND, "approver")
    if carrier:
        stage.types(FIRST, "nodes")


def _reached(place: Node | PrivateMounts, carrier: RunCommand | None) -> dict[str, object]:
    """Give the words of the inventory for a place."""
    if carrier:
        return {"executor": "ssm", "view": "boot", "instance": INSTANCE, "region": carrier.region}
    if isinstance(place, PrivateMounts):
        return {"executor": "local", "view": "private"}
    return {
        "executor": "ssh",
        "view": "boot",
        "address": place.address,
        "port": place.port,
        "user": "root",
        "key_file": str(place.private_key),
        "host_key": place.host_key,
    }


def _run_id(lines: list[str]) -> str:
    """Give the id of the run that was accepted, as the command has said it."""
    accepted = [line.split()[1] for line in lines if line.startswith("run ") and line.endswith(" accepted")]
    if not accepted:
        raise Failed("the run was not accepted")
    return accepted[0]


def _answer(stage: Stage, run_id: str, *, stuck: StuckConnection) -> None:
    """Agree to the open gate, if it is about the demo's own connection and nothing else."""
    ours = f"connection {stuck.connection} since "
    gates = [gate for gate in stage.ask(SECOND, "show", run_id)["gates"] if gate["state"] == "open"]
    if len(gates) != 1 or not all(target.startswith(ours) for target in gates[0]["targets"]):
        raise Failed(f"the gate is not about connection {stuck.connection} alone, so nobody agrees to it: {gates}")
    stage.types(SECOND, f"approve {gates[0]['id']} --yes")


def _end(words: Words, stage: Stage, run_id: str) -> Any:
    """Wait for the end of a run and give it."""
    deadline = time.monotonic() + PATIENCE
    with words.waiting("it acts, and looks whether the node is well ..."):
        while (run := stage.ask(FIRST, "show", run_id))["state"] in GOING_ON:
            if time.monotonic() > deadline:
                raise Failed(f"the run is still {run['state']}")
            time.sleep(0.5)
    return run


def _look_ourselves(words: Words, place: Node | PrivateMounts, *, stuck: StuckConnection) -> None:
    words.step("Look for ourselves", "Without the service: the reader is gone, and nobody waits any more.")
    wait_until(stuck.freed, "the reader is gone and nothing waits")
    _types_there(words, place, f"grep State: /proc/{stuck.reader_pid}/status")
    _types_there(words, place, f"cat /sys/fs/fuse/connections/{stuck.connection}/waiting")


def _read_record(words: Words, stage: Stage, run_id: str) -> None:
    words.step(
        "Read the record", "Every step, in the order it happened; a line that is changed later breaks the chain."
    )
    stage.types(FIRST, f"audit timeline --run {run_id}")
    stage.types("", "audit verify")


def _types_there(words: Words, place: Node | PrivateMounts, command: str) -> None:
    """Run a command in the place and print what it said; it may fail."""
    words.command(f"{NODE} #", command)
    done = place.run(command.split())
    for line in (done.stdout + done.stderr).splitlines():
        words.line(line)
