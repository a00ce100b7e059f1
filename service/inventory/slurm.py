"""Nodes of a Slurm cluster: `scontrol show node -o`, run on its controller with the controller's own env.

The words of a line stand in Slurm's own order (slurm, src/api/node_info.c): free text such as Reason comes last, but
for that of the node's kernel; so the first place of a word is its own.
"""

import re
from datetime import timedelta

from service.domain.errors import SourceSilent
from service.inventory.schema import INSTANCE
from service.inventory.source import MOST_FOUND, AskController, Found, SlurmQuestion, SourceAnswer, gather
from service.inventory.wrapped import WRAP, unwrap

_SECONDS = timedelta(seconds=45)
#: Signs behind a state (slurm, sinfo(1), NODE STATE CODES).
_SIGNS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
_STATE = re.compile(r"([A-Z_]+)([*~#!%$@^-]*)")
#: What the node's kernel calls itself, with blanks in it.
_SYSTEM = re.compile(r" OS=.*?(?= RealMemory=)")
_NONE = ("", "(null)", "N/A")


class SlurmLook:
    """Asks one cluster."""

    def __init__(self, question: SlurmQuestion, ask: AskController) -> None:
        """Take what to ask, and the way to the controller."""
        self._question = question
        self._ask = ask

    def __call__(self) -> SourceAnswer:
        """Return every node; SourceSilent when scontrol failed, or said what cannot be read."""
        script = f"scontrol show node -o | {WRAP}\n"
        return read_nodes(unwrap(self._ask(self._question.controller, script, _SECONDS)), self._question)


def read_nodes(text: bytes, question: SlurmQuestion) -> SourceAnswer:
    """Return the nodes of a listing of one line each; SourceSilent when a line is none."""
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    if lines == ["No nodes in the system"]:
        lines = []
    if len(lines) > MOST_FOUND or not all(line.startswith("NodeName=") for line in lines):
        raise SourceSilent(
            f"What scontrol says on {question.controller.name} is no list of nodes.",
            f"Look with `scontrol show node -o` on {question.controller.name}.",
        )
    return gather(_found(line) for line in lines)


def flags(state: str) -> frozenset[str]:
    """Return a state such as `DOWN*+DRAIN` as the set of its flags."""
    found: set[str] = set()
    for part in state.split("+"):
        match = _STATE.fullmatch(part)
        if match is not None:
            found |= {match.group(1), *(_SIGNS[sign] for sign in match.group(2))}
    return frozenset(found)


def _found(line: str) -> Found:
    line = _SYSTEM.sub("", line)
    name = _value(line, "NodeName") or ""
    instance = _value(line, "InstanceId")
    partitions = _value(line, "Partitions")
    return Found(
        name,
        instance=instance if instance is not None and INSTANCE.fullmatch(instance) else None,
        address=_value(line, "NodeAddr") or name,
        pools=tuple(partitions.split(",")) if partitions else (),
        attributes={"slurm_name": name},
        hints={"slurm_state": "+".join(sorted(flags(_value(line, "State") or "")))},
    )


def _value(line: str, word: str) -> str | None:
    match = re.search(rf"(?:^| ){word}=(\S*)", line)
    return match.group(1) if match is not None and match.group(1) not in _NONE else None
