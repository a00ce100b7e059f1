"""A node of files and made-up programs, on which a script of a shipped runbook is played as it would be sent."""

import functools
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.app.load_runbooks import RunbookFolder
from service.domain.plan import check_params, param_text
from service.domain.runbook import Runbook
from service.domain.script import ScriptKind, render

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Only stops a hang.
SECONDS = 600
#: These tests need not be root: nothing of this machine is looked at.
NOT_ROOT = {'[ "$EUID" -ne 0 ]': "false"}


@dataclass(frozen=True)
class Said:
    """How a script ended."""

    code: int
    output: str
    targets: tuple[str, ...]


class FakeNode:
    """The programs that a script finds first, and what it is told instead of the machine's own places."""

    def __init__(self, folder: Path, runbook: str, *, places: Mapping[str, str]) -> None:
        """Read a shipped runbook; each text of `places` stands once in its prelude and is replaced."""
        self.folder = folder
        self.runbook = _shipped(runbook)
        self._prelude = self.runbook.prelude
        for old, new in {**NOT_ROOT, **places}.items():
            assert self._prelude.count(old) == 1, old
            self._prelude = self._prelude.replace(old, new)
        (folder / "bin").mkdir(exist_ok=True)

    def has(self, program: str, body: str) -> None:
        """Put a program on the node; each call of it is written down."""
        path = self.folder / "bin" / program
        log = f'printf "%s\\n" "{program} $*" >>"{self.folder}/calls"'
        path.write_text(f"#!/bin/bash\n{log}\n{body}\n")
        path.chmod(0o755)

    def calls(self, word: str = "") -> list[str]:
        """Return the calls so far that have a word, in order."""
        log = self.folder / "calls"
        return [line for line in log.read_text().splitlines() if word in line] if log.exists() else []

    def play(self, step: str, kind: ScriptKind, targets: tuple[str, ...] = (), **params: object) -> Said:
        """Run one script with the parameters as a plan would give them."""
        body = self.runbook.step(step).script(kind)
        assert body is not None
        return self.shell(body, targets, **params)

    def shell(self, body: str, targets: tuple[str, ...] = (), **params: object) -> Said:
        """Run some shell after the prelude."""
        given = check_params(self.runbook, params)
        environment = {f"PARAM_{name.upper()}": param_text(value) for name, value in given.items()}
        script = render(prelude=self._prelude, body=body, environment=environment | {"NODE_NAME": "gpu-01"})
        file = self.folder / "targets"
        file.write_text("".join(f"{target}\n" for target in targets))
        said = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": f"{self.folder}/bin{os.pathsep}{PATH}", "UNSTICK_TARGETS": str(file)},
            cwd="/",
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(said.returncode, said.stdout, tuple(file.read_text().splitlines()))


@functools.cache
def _shipped(name: str) -> Runbook:
    return RunbookFolder(RUNBOOKS).get(name)[0]
