"""A runbook exported as a script and played at a terminal, on this machine as the node."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from service.app.export_run import Shell, export_run
from service.app.import_run import import_run
from service.app.request_run import RunRequest, prepare
from service.domain.run import NodeRun
from service.executors.envelope import by_hand_player, loader, node_runner
from service.executors.scripted import ScriptedExecutor
from tests.support.terminal import Terminal
from tests.support.world import OPERATOR, RealClock, World, local_nodes

#: Who begins, and on which node: this machine has another name.
BEGIN = (("Name:", "ann"), ("type n00:", "n00"))
BOOT_ID = "/proc/sys/kernel/random/boot_id"
YES = ("to let it act on exactly these, or no:", "n00")


@dataclass(frozen=True)
class ByHand:
    """An exported script in a folder, which has a /run of its own so that no other test holds the node."""

    script: Path
    folder: Path
    #: Before the command: the way into another namespace.
    enter: Sequence[str] = ()
    shell: str = "sh"
    environment: dict[str, str] = field(default_factory=dict)
    #: The boot that the node seems to be in; empty: the one of this machine.
    boot: str = ""

    @property
    def journal(self) -> Path:
        """Return where the journal is written."""
        return self.folder / "by-hand.journal"

    def start(self) -> Terminal:
        """Start the script at a terminal."""
        return Terminal(
            [*self.enter, *self._own_run(), self.shell, str(self.script)],
            environment={"PATH": os.environ["PATH"], "UNSTICK_JOURNAL": str(self.journal), **self.environment},
        )

    def play(self, *answers: tuple[str, str]) -> tuple[int, str]:
        """Play it to its end with these answers; return the exit code and what was to be seen."""
        with self.start() as terminal:
            terminal.answer(*answers)
            return terminal.end(), terminal.seen

    def events(self) -> list[str]:
        """Return what the lines of the journal tell of."""
        lines = self.journal.read_text().splitlines()
        return [line.partition('"event":"')[2].partition('"')[0] for line in lines]

    def without_terminal(self) -> subprocess.CompletedProcess[str]:
        """Run it where nobody can be asked."""
        return subprocess.run(
            ["setsid", "--wait", "sh", str(self.script)],
            env={"PATH": os.environ["PATH"], "UNSTICK_JOURNAL": str(self.journal)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def after_boot(self) -> "ByHand":
        """Return it as it is after the node has booted: another boot, and an empty /run."""
        shutil.rmtree(self.folder / "run")
        return replace(self, boot="11111111-2222-4333-8444-555555555555")

    def _own_run(self) -> Sequence[str]:
        (self.folder / "run").mkdir(exist_ok=True)
        mount = f'mount --bind {shlex.quote(str(self.folder / "run"))} /run && exec "$@"'
        if self.boot:
            (self.folder / "boot_id").write_text(f"{self.boot}\n")
            mount = f"mount --bind {shlex.quote(str(self.folder / 'boot_id'))} {BOOT_ID} && {mount}"
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")


def world_of(runbooks: Path, folder: Path) -> World:
    """Return a service with these runbooks, an empty record, and this machine as n00."""
    return World.build(
        f"sqlite:///{folder}/unstick.db",
        ScriptedExecutor({}),
        inventory=local_nodes("n00", "n01"),
        runbooks=runbooks,
        clock=RealClock(),
    )


def export(world: World, folder: Path, name: str, *, shell: str = "sh", **params: object) -> ByHand:
    """Export a runbook for n00 into a folder, without the program."""
    prepared = prepare(world.service, RunRequest(name, "", nodes=("n00",), params=params))
    endpoint = world.service.inventory.current().node("n00").endpoint
    parts = Shell(by_hand_player(), node_runner().decode(), loader())
    script = folder / f"{name}.sh"
    script.write_text(export_run(prepared, endpoint=endpoint, shell=parts, service_id="the-tests", by="tests"))
    return ByHand(script, folder, shell=shell)


def imported(world: World, by_hand: ByHand) -> NodeRun:
    """Import what a script has written, and return the node run that it became; the record must hold."""
    run = import_run(world.service, by_hand.journal.read_text(), person=OPERATOR)
    assert world.chain_holds()
    return world.node_runs(run)[0]
