"""A runbook exported as a script and played at a terminal, on this machine as the node."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.terminal import Terminal

#: Who begins, and on which node: this machine has another name.
BEGIN = (("Name:", "ann"), ("type n00:", "n00"))
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

    def _own_run(self) -> Sequence[str]:
        (self.folder / "run").mkdir(exist_ok=True)
        mount = f'mount --bind {shlex.quote(str(self.folder / "run"))} /run && exec "$@"'
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
