"""Five scripts on many addresses: the real service with everything recorded, against ansible-playbook, taking turns."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.ansible import FORKS, VERSION, Playbook, Played
from bench.measure import load
from bench.served import RUNBOOKS, Ran, Served
from lab.sshd import SshdFarm
from service.app.load_runbooks import RunbookFolder

RUNBOOK = "five-looks"


@dataclass
class Raced:
    """Every turn of both, in order."""

    addresses: int
    service: list[Ran] = field(default_factory=list)
    ansible: list[Played] = field(default_factory=list)
    events: int = 0
    load_before: str = ""
    load_after: str = ""


def race(folder: Path, programs: Path | None, *, addresses: int, turns: int) -> Raced:
    """Let both play in turns, the service once more than Ansible; without `programs` the service runs alone."""
    raced = Raced(addresses, load_before=load())
    with SshdFarm(addresses) as farm:
        runbook, _source = RunbookFolder(RUNBOOKS).get(RUNBOOK)
        playbook = None if programs is None else Playbook(programs, folder / "ansible", farm=farm, runbook=runbook)
        for turn in range(turns + 1):
            # A service of its own each time: its connections are as new as those of ansible-playbook.
            _serve(folder / f"service-{turn}", farm, raced=raced)
            if playbook is not None and turn < turns:
                raced.ansible.append(playbook.play())
                _tell("ansible-playbook", raced.ansible[-1])
    raced.load_after = load()
    return raced


def _serve(folder: Path, farm: SshdFarm, *, raced: Raced) -> None:
    with Served(folder, farm) as served:
        ran = served.run(RUNBOOK, served.nodes, every=0.25)
        with served.recorded() as recorded:
            attempts = [one for history in recorded.histories(ran.run_id) for one in history.attempts]
            if len(attempts) != 5 * raced.addresses or any(one.exit_code != 0 for one in attempts):
                raise RuntimeError(f"void: {len(attempts)} attempts are recorded, not all of them ended well")
            raced.events = recorded.events()
    raced.service.append(ran)
    _tell("unstick", ran)


def _tell(who: str, turn: Ran | Played) -> None:
    print(f"{who}: {turn.wall:.1f} s, {turn.cpu:.1f} CPU s, load {load()}", file=sys.stderr, flush=True)


def report(raced: Raced) -> str:
    """Return the figures as Markdown; times in seconds."""
    around = f"load {raced.load_before} before and {raced.load_after} after"
    lines = [
        f"{raced.addresses} addresses, 5 scripts each, {around}.",
        f"Each run of the service left {raced.events} audit events, and the chain is whole.",
        "",
        "| | wall, each turn | wall, median | client CPU, median |",
        "|---|---|---|---|",
        _row("unstick, SQLite FULL", raced.service),
    ]
    if raced.ansible:
        lines.append(_row(f"ansible-core {VERSION}, shell, forks {FORKS}, pipelining, ControlPersist", raced.ansible))
        wall = median(one.wall for one in raced.ansible) / median(one.wall for one in raced.service)
        cpu = median(one.cpu for one in raced.ansible) / median(one.cpu for one in raced.service)
        worst = min(one.wall for one in raced.ansible) / max(one.wall for one in raced.service)
        lines += [
            "",
            f"**{wall:.1f} times faster, {cpu:.1f} times less client CPU** (worst turn against best: {worst:.1f}).",
        ]
    return "\n".join(lines)


def _row(name: str, turns: Sequence[Ran] | Sequence[Played]) -> str:
    each = ", ".join(f"{one.wall:.1f}" for one in turns)
    return f"| {name} | {each} | {median(one.wall for one in turns):.1f} | {median(one.cpu for one in turns):.1f} |"
