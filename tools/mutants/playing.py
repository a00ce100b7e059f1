"""Plays a mutant: its tests in a copy of the tracked files, without it and with it."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.mutants.table import Edit, Mutant, MutantError, changed

ROOT = Path(__file__).resolve().parents[2]
#: It only stops a hang: a run of tests ends before.
PATIENCE_SECONDS = 1000
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_FILES = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
_COMPILED = ("service", "lab", "tests", "migrations")


class Copy:
    """A copy of the tracked files, in which tests are run with its own `service`."""

    def __init__(self, folder: Path) -> None:
        """Copy them as they stand in the working tree, with those that will be tracked."""
        self.folder = folder
        listed = subprocess.run(_FILES, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment.pop("PYTEST_ADDOPTS", None)
        self._sound: set[tuple[str, ...]] = set()
        # Known by the hash of its source, so that what is compiled is never taken for a file that was changed since.
        self._python("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *_COMPILED)
        where = self._python("-c", "import service; print(service.__file__)").strip()
        if Path(where) != folder / "service/__init__.py":
            raise MutantError(f"Tests of the copy would use {where}.")
        self._ground = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("ground.py"))],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._answer()

    def close(self) -> None:
        """End the process that plays."""
        with self._ground as ground:
            if ground.stdin is not None:
                ground.stdin.close()

    @contextmanager
    def changed(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Have the edits in the copy while the block runs."""
        before = {edit.file: (self.folder / edit.file).read_text() for edit in edits}
        after = dict(before)
        for edit in edits:
            after[edit.file] = changed(after[edit.file], edit)
        for file, text in after.items():
            (self.folder / file).write_text(text)
        try:
            yield
        finally:
            for file, text in before.items():
                (self.folder / file).write_text(text)

    def first_failure(self, tests: Sequence[str]) -> str | None:
        """Return the name of the first test that fails, None when all pass; MutantError when they do not run."""
        output = self.folder / "said"
        if self._ground.stdin is None:
            raise MutantError("There is nobody to play.")
        self._ground.stdin.write(json.dumps([["-x", "-rfE", "--tb=no", *tests], str(output)]) + "\n")
        code, said = self._answer(), output.read_text(errors="replace")
        if code == "0":
            return None
        failed = _FAILED.search(said)
        if code != "1" or failed is None or "::" not in failed[1]:
            raise MutantError(f"The tests did not run: {said[-3000:]}")
        return failed[1]

    def insist_sound(self, tests: tuple[str, ...]) -> None:
        """Return when these tests pass without any mutant, which is tried once; MutantError."""
        # The same tests alone: one that leans on others would fail for that.
        failed = None if tests in self._sound else self.first_failure(tests)
        if failed is not None:
            raise MutantError(f"{failed} fails without any mutant.")
        self._sound.add(tests)

    def _answer(self) -> str:
        stdout = self._ground.stdout
        if stdout is None or not select.select([stdout], [], [], PATIENCE_SECONDS)[0]:
            self._ground.kill()
            raise MutantError(f"No answer within {PATIENCE_SECONDS} seconds.")
        return stdout.readline().strip()

    def _python(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        ).stdout


def play(copy: Copy, mutant: Mutant) -> str | None:
    """Return the test that catches a mutant, None when it survives; MutantError when that cannot be told."""
    copy.insist_sound(mutant.tests)
    with copy.changed(mutant.edits):
        return copy.first_failure(mutant.tests)
