"""How the demo speaks: numbered steps, commands as a person would type them, and what they answered."""

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

WIDTH = 100
INDENT = "      "
BOLD, DIM, GREEN, YELLOW, RED, CYAN = "1", "2", "32", "33", "31", "36"


class Words:
    """One stream of words for one person; colours and a running clock only where it is a terminal."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        """Speak to this stream."""
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self._live and not os.environ.get("NO_COLOR")
        self._step, self._steps = 0, 0
        self._blank = False

    def begin(self, steps: int) -> None:
        """Count steps from one again, up to so many."""
        self._step, self._steps = 0, steps

    def step(self, what: str, why: str) -> None:
        """Begin the next step: what is done, and in one line why."""
        self._step += 1
        number = f"[{self._step}/{self._steps}]"
        self.line()
        self.line(f"{number} {what}", style=BOLD, indent="")
        self.line(why, style=DIM)

    @property
    def where(self) -> str:
        """Say in which step we are."""
        return f"Step {self._step} of {self._steps}"

    def line(self, text: str = "", *, style: str = "", indent: str = INDENT) -> None:
        """Print one line as it is."""
        shown = f"{indent}{text}".rstrip()
        self._write(f"\x1b[{style}m{shown}\x1b[0m\n" if style and self._colours and shown else f"{shown}\n")

    def say(self, text: str, *, style: str = "", indent: str = "") -> None:
        """Print a sentence or two, folded at the width of the demo."""
        for line in textwrap.wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False):
            self.line(line, style=style, indent=indent)

    def answer(self, text: str) -> None:
        """Print one line of a command's answer, folded under itself where the terminal is too narrow for it."""
        if not text and self._blank:
            return
        width = shutil.get_terminal_size().columns if self._live else len(INDENT) + len(text)
        if len(INDENT) + len(text) <= width:
            self.line(text)
            return
        hanging = INDENT + " " * (len(text) - len(text.lstrip()) + 2)
        for line in textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=hanging):
            self.line(line, indent="")

    def command(self, prompt: str, command: str) -> None:
        """Print a command behind its prompt, such as `operator $`."""
        self.line(f"{prompt} {command}", style=CYAN)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say what is waited for; on a terminal with the seconds that go by, elsewhere those that went at the end."""
        begun, done = time.monotonic(), threading.Event()

        def tick() -> None:
            while not done.wait(1.0):
                self._write(f"\r\x1b[K{INDENT}{what} {time.monotonic() - begun:.0f} s")

        ticker = threading.Thread(target=tick, daemon=True)
        self._write(f"{INDENT}{what}")
        if self._live:
            ticker.start()
        try:
            yield
        finally:
            done.set()
            if self._live:
                ticker.join()
                self._write("\r\x1b[K")
                self.line(f"{what} {time.monotonic() - begun:.0f} s", style=DIM)
            else:
                self._write(f" {time.monotonic() - begun:.0f} s\n")

    def _write(self, text: str) -> None:
        self._blank = text == "\n"
        # Who reads may have gone; what was made still has to be taken down.
        with suppress(BrokenPipeError):
            self._out.write(text)
            self._out.flush()
