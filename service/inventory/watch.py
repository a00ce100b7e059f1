"""Asks one source again and again in the background, and keeps its last good answer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from service.domain.errors import SourceSilent
from service.domain.node import SourceState
from service.inventory.merged import SourceReport
from service.inventory.source import Look, SourceAnswer, SourceConfig

#: Several services must not ask in step: each wait is up to a tenth longer or shorter.
JITTER = 0.1
_LEAVE_SECONDS = 2.0

log = structlog.get_logger()


@dataclass(frozen=True)
class _Said:
    answer: SourceAnswer | None = None
    answered_at: datetime | None = None
    problem: str | None = None


class SourceWatch:
    """One source. Safe for many threads; one question at a time."""

    def __init__(
        self, config: SourceConfig, look: Look, *, now: Callable[[], datetime], chance: Callable[[], float]
    ) -> None:
        """Take the way to ask, the clock, and a source of numbers from 0 to 1; nothing is asked yet."""
        self._config = config
        self._look = look
        self._now = now
        self._chance = chance
        self._said = _Said()
        self._asking = threading.Lock()
        self._closing = threading.Event()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def config(self) -> SourceConfig:
        """Return the source as the file has it now."""
        return self._config

    def follow(self, config: SourceConfig) -> None:
        """Take words of the file that do not change what is asked; the last good answer stays."""
        self._config = config

    def ask(self) -> None:
        """Ask once, and keep what was said, or why nothing was."""
        with self._asking:
            asked_at = self._now()
            try:
                answer = self._look()
            except SourceSilent as silent:
                if self._said.problem is None:
                    log.warning("source.silent", source=self._config.name, reason=silent.reason)
                self._said = replace(self._said, problem=str(silent))
            else:
                if self._said.problem is not None:
                    log.info("source.answers", source=self._config.name)
                # Dated by the question: what it says is not newer than that.
                self._said = _Said(answer, asked_at)
            self._asked.set()

    def report(self) -> SourceReport:
        """Return the last good answer, and how the source stands."""
        said, config = self._said, self._config
        count = len(said.answer.found) if said.answer is not None else 0
        state = SourceState(
            config.name, config.kind, said.answered_at, config.stale_after, problem=said.problem, nodes=count
        )
        return SourceReport(config.template, said.answer, state)

    def start(self) -> None:
        """Ask in the background from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask_on, name=f"source {self._config.name}", daemon=True)
            self._thread.start()

    def wait_asked(self, seconds: float) -> bool:
        """Wait until it was asked once, whatever came of it."""
        return self._asked.wait(seconds)

    def end(self) -> None:
        """Ask no more; a question under way is left to its own bound."""
        self._closing.set()

    def join(self) -> None:
        """Wait a little for a question under way."""
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    def _ask_on(self) -> None:
        while not self._closing.is_set():
            self.ask()
            seconds = self._config.refresh.total_seconds()
            self._closing.wait(seconds * (1 - JITTER + 2 * JITTER * self._chance()))
