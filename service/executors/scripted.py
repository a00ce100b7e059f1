"""Plays answers from a table instead of reaching a machine: for tables of runbooks, dry tests and rehearsals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from service.domain.errors import BrokenRule
from service.domain.script import (
    AttemptRef,
    NotStarted,
    OutputChunk,
    Report,
    ReportState,
    ScriptKind,
    ScriptOrder,
    Stream,
)
from service.executors import reasons

T = TypeVar("T")
_VOID = Report(ReportState.NOT_STARTED, not_started=NotStarted.VOID, reason=reasons.void("the node"))
#: The boot that reports name when nothing else is said.
FIRST_BOOT = "00000000-0000-4000-8000-000000000000"
#: Node, step, script.
Place = tuple[str, str, ScriptKind]


@dataclass(frozen=True)
class Answer:
    """What one order brings: output, a report, and what a later settle or stop reports of the same attempt."""

    report: Report
    stdout: bytes = b""
    stderr: bytes = b""
    #: The reports of the settles that follow, in order; the last one stands. Empty: the report itself.
    settles: tuple[Report, ...] = ()
    #: The report of a stop; None: as a settle.
    stop: Report | None = None


def exits(code: int, *, targets: Sequence[str] = (), stdout: str = "", stderr: str = "") -> Answer:
    """Return the answer of a script that ends with this code."""
    report = Report(
        ReportState.FINISHED,
        exit_code=code,
        targets=tuple(targets),
        stdout_bytes=len(stdout.encode()),
        stderr_bytes=len(stderr.encode()),
    )
    return Answer(report, stdout=stdout.encode(), stderr=stderr.encode())


class ScriptedExecutor:
    """Answers each order from the table; the last answer of a place is given again and again.

    It keeps what it was asked, in order. An order that the table does not know is a BrokenRule.
    """

    def __init__(self, answers: Mapping[Place, Sequence[Answer]], *, boot_id: str = FIRST_BOOT) -> None:
        """Keep the table; `boot_id` may be changed while it plays, as a node that boots."""
        self.boot_id = boot_id
        self.orders: list[ScriptOrder] = []
        self.settled: list[AttemptRef] = []
        self.stopped: list[AttemptRef] = []
        self.closed = False
        self._answers = {place: list(given) for place, given in answers.items()}
        self._given: dict[str, Answer] = {}
        self._void: set[str] = set()
        self._settles: dict[str, list[Report]] = {}

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        """Answer an order; a second start of an attempt attaches to the first."""
        self.orders.append(order)
        if order.attempt_id in self._void:
            return self._seen(_VOID)
        answer = self._given.get(order.attempt_id)
        if answer is None:
            answer = self._given[order.attempt_id] = self._next(order)
            self._settles[order.attempt_id] = list(answer.settles)
        self._play(order.attempt_id, answer, on_output=on_output)
        return self._seen(answer.report)

    def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """Answer how an attempt stands; an unknown one is void."""
        self.settled.append(attempt)
        answer = self._given.get(attempt.attempt_id)
        if answer is None:
            self._void.add(attempt.attempt_id)
            return self._seen(_VOID)
        settles = self._settles[attempt.attempt_id]
        self._play(attempt.attempt_id, answer, on_output=on_output)
        return self._seen(_next_of(settles) if settles else answer.report)

    def stop(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        """Answer a stop; an unknown attempt is void."""
        answer = self._given.get(attempt.attempt_id)
        if answer is None or answer.stop is None:
            report = self.settle(attempt, on_output)
            self.settled.pop()
        else:
            report = self._seen(answer.stop)
        self.stopped.append(attempt)
        return report

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _next(self, order: ScriptOrder) -> Answer:
        place = (order.endpoint.name, order.step, order.kind)
        if not self._answers.get(place):
            raise BrokenRule(f"The table has no answer for {order.step}.{order.kind} on {order.endpoint.name}.")
        return _next_of(self._answers[place])

    def _play(self, attempt_id: str, answer: Answer, *, on_output: Callable[[OutputChunk], None]) -> None:
        for stream, data in ((Stream.STDOUT, answer.stdout), (Stream.STDERR, answer.stderr)):
            if data:
                on_output(OutputChunk(attempt_id, stream, 0, data))

    def _seen(self, report: Report) -> Report:
        return report if report.boot_id else replace(report, boot_id=self.boot_id)


def _next_of(given: list[T]) -> T:
    return given.pop(0) if len(given) > 1 else given[0]
