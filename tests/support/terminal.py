"""A person at a terminal: reads what is asked and types answers, as many as a test has."""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

#: It only stops a hang.
PATIENCE = 120.0


class Terminal:
    """A program with a terminal of its own; `expect` waits for words, `type` answers."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        """Start it."""
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self._read = 0
        self.process = subprocess.Popen(
            # Whoever plays the tests in the background ignores Ctrl-C, and a shell cannot undo that.
            ["env", "--default-signal=INT", "setsid", "--ctty", "--wait", *command],
            env=dict(environment),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs, and close the terminal."""
        if self.process.poll() is None:
            self.kill()
        os.close(self._ours)

    def expect(self, words: str) -> str:
        """Wait until words are to be seen behind the last ones; return what stood before them."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.seen[self._read :]:
            assert time.monotonic() < deadline, f"{words!r} was not to be seen in:\n{self.seen}"
            assert self._take(), f"it ended without {words!r}:\n{self.seen}"
        at = self.seen.index(words, self._read)
        before = self.seen[self._read : at]
        self._read = at + len(words)
        return before

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{text}\n".encode())

    def answer(self, *pairs: tuple[str, str]) -> None:
        """Wait for each question and type its answer."""
        for question, text in pairs:
            self.expect(question)
            self.type(text)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._ours, b"\x03")

    def kill(self) -> None:
        """End the program with SIGKILL, as a lost machine would; what it has started goes on."""
        children = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        for pid in [*map(int, children), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._take():
            assert time.monotonic() < deadline, self.seen
        return self.process.wait(PATIENCE)

    def _take(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], 1.0)
        if not ready:
            return True
        # Linux answers EIO when the last program has left the terminal.
        with suppress(OSError):
            part = os.read(self._ours, 65536)
            self.seen += part.decode(errors="replace").replace("\r\n", "\n")
            return bool(part)
        return False
